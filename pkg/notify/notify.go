// Package notify tells the people of an account something: by mail, in Slack, by a signed webhook.
//
// In flow a [Message] and the [Channel] that it goes down; out flows a [Result], which says in one word and one
// sentence what became of it. One call is one try, bounded by [Timeout]; whoever must be sure repeats it with the same
// message, whose id stays: it is the webhook-id and the Message-ID, by which receivers know a repeat.
//
// Guaranteed: HTTP goes through the round tripper that is given, which is the guarded one of package egress, and
// follows no redirect (TestRedirectIsNotFollowed); mail goes to the one server that the operator has named, over TLS
// unless the operator says otherwise, never with a password in clear (TestMailNeedsTLS, TestPasswordNeedsTLS); names in
// a message make no line, no link in Slack and nothing invisible (TestTextsOfStrangers); no result and no error text
// holds a channel's URL, its secret or the password of the mail server (TestResultsHoldNoSecret). Nothing is queued and
// no goroutine is started.
package notify

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
)

// Timeout bounds one try.
const Timeout = 10 * time.Second

// Channel is where messages go, its secrets in clear.
type Channel struct {
	Kind   Kind
	To     []string    // addresses, of mail
	URL    string      // of the others
	Secret sign.Secret // of a webhook
}

// Message is one thing that is told.
type Message struct {
	ID    string // the same in every try
	Type  string // such as alert.destination.held
	At    time.Time
	Title string // one line
	Text  string // some sentences, plain text
	Facts []Fact // what stands below them
	Link  string // where more is to be seen
	Data  any    // of the webhook's body
}

// Fact is a name and a value.
type Fact struct{ Name, Value string }

// Result is what became of one try.
type Result struct {
	OK       bool
	Code     int             // HTTP status, 0 = none
	Error    event.ErrorCode // empty when OK
	Message  string          // the error in a sentence
	Duration time.Duration
	// Refused are the addresses, of mail, that did not take it, and whether they may later.
	Refused map[string]bool
}

// Errors of channels beside those of attempts.
const (
	CodeNotConfigured event.ErrorCode = "smtp_not_configured"
	CodeSMTP          event.ErrorCode = "smtp_error"
)

// Config is what the operator says about mail.
type Config struct {
	SMTPURL string // see ParseSMTP; empty = no mail
	Domains Domains
	Version string // of the program, for the User-Agent
}

// Deps are what a Sender works with. All are needed.
type Deps struct {
	Transport http.RoundTripper // the guarded one
	// Dial connects to the mail server, whose address is the operator's word.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config // towards the mail server
	Now  func() time.Time
}

// Sender sends. Its method may be called from any goroutine.
type Sender struct {
	deps    Deps
	mail    *SMTP // nil = none
	domains Domains
	version string
}

// New validates and dials nothing.
func New(cfg Config, deps Deps) (*Sender, error) {
	s := &Sender{deps: deps, domains: cfg.Domains, version: cfg.Version}
	if deps.Transport == nil || deps.Dial == nil || deps.TLS == nil || deps.Now == nil {
		return nil, errors.New("notify: a dependency is missing")
	}
	if cfg.SMTPURL != "" {
		m, err := ParseSMTP(cfg.SMTPURL)
		if err != nil {
			return nil, err
		}
		s.mail = m
	}
	return s, nil
}

// Domains are those that mail may go to.
func (s *Sender) Domains() Domains { return s.domains }

// Send makes one try.
func (s *Sender) Send(ctx context.Context, c Channel, m Message) Result {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	start := s.deps.Now()
	r := Result{Error: event.CodeInternal, Message: "this version knows no such channel"}
	if k := kindOf(c.Kind); k != nil {
		r = k.send(ctx, s, c, m)
	}
	r.Duration = s.deps.Now().Sub(start)
	return r
}

// failed is the result of a request or a connection that ended in err.
func failed(err error) Result {
	var u *url.Error
	if errors.As(err, &u) { // its text has the URL
		err = u.Err
	}
	return Result{Error: egress.Classify(err), Message: egress.Message(err)}
}

// answered is the result of an answer with that status.
func answered(status int) Result {
	r := Result{OK: status >= 200 && status < 300, Code: status}
	switch {
	case r.OK:
	case status >= 300 && status < 400:
		r.Error, r.Message = event.CodeRedirectBlocked,
			fmt.Sprintf("the channel answered %d %s; redirects are not followed", status, http.StatusText(status))
	default:
		r.Error, r.Message = event.CodeHTTPStatus, fmt.Sprintf("the channel answered %d %s", status, http.StatusText(status))
	}
	return r
}

func encode(body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return b, nil
}

// maskDots stands for what a mask hides.
const maskDots = "****"

// MaskURL shows the scheme and the host of a URL, and the last four characters of a path that is long enough to
// spare them.
func MaskURL(text string) string {
	const spare = 12
	u, err := url.Parse(text)
	if err != nil {
		return maskDots
	}
	tail := ""
	if path := u.EscapedPath(); len(path) >= spare {
		tail = path[len(path)-4:]
	}
	return u.Scheme + "://" + u.Host + "/" + maskDots + tail
}

// MaskAddress shows the first letter and the domain of a mail address.
func MaskAddress(address string) string {
	name, domain, _ := strings.Cut(address, "@")
	for _, first := range name {
		return string(first) + maskDots + "@" + domain
	}
	return maskDots + "@" + domain
}

// Target names where the channel leads, masked.
func (c Channel) Target() string {
	if len(c.To) == 0 {
		return MaskURL(c.URL)
	}
	masked := make([]string, len(c.To))
	for i, to := range c.To {
		masked[i] = MaskAddress(to)
	}
	return strings.Join(masked, ", ")
}
