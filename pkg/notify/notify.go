// Package notify sends a message to the people of an account: by mail, to Slack, or by a signed webhook.
//
// [Sender.Send] makes one attempt to send a [Message] through a [Channel] and returns a [Result] with an error code
// and a sentence. An attempt takes at most [Timeout]. Callers that need a guarantee retry with the same message: its
// id is the webhook-id and the Message-ID, by which receivers recognize a repeat. Nothing is queued and no goroutine
// outlives a call.
//
// Promises: HTTP goes through the guarded transport of package egress and follows no redirect
// (TestRedirectIsNotFollowed). Mail goes only to the operator's server, over TLS unless the operator says otherwise or
// the server is on loopback, and a password is never sent without TLS (TestMailNeedsTLS, TestPasswordNeedsTLS). Text
// from users adds no header, no line, no link in Slack and no invisible character (TestUntrustedTextIsNeutralized). No
// result and no error contains a channel's URL, its secret or the password of the mail server
// (TestResultsHoldNoSecret).
//
// Begin reading at Sender.Send; each channel has a file of its own.
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

// Timeout bounds one attempt to send.
const Timeout = 10 * time.Second

// Channel is a destination of messages, with its secrets decrypted.
type Channel struct {
	Kind   Kind
	To     []string    // mail addresses, of a mail channel
	URL    string      // of a Slack or webhook channel
	Secret sign.Secret // of a webhook channel
}

// Message is one notification.
type Message struct {
	ID    string // the same in every attempt
	Type  string // such as alert.destination.held
	At    time.Time
	Title string // one line
	Text  string // a few sentences of plain text
	Facts []Fact // name and value lines below the text
	Link  string // page with details
	Data  any    // member data of the webhook's body
}

// Fact is a line of a message: a name and a value.
type Fact struct{ Name, Value string }

// Result is the outcome of one attempt to send.
type Result struct {
	OK       bool
	Code     int             // HTTP status, 0 = none
	Error    event.ErrorCode // empty when OK
	Message  string          // the error as a sentence
	Duration time.Duration
	// Undelivered holds the mail addresses that did not receive the message, and whether a retry may succeed.
	Undelivered map[string]bool
}

// Error codes of channels, in addition to those of delivery attempts.
const (
	CodeNotConfigured event.ErrorCode = "smtp_not_configured"
	CodeSMTP          event.ErrorCode = "smtp_error"
)

// Config is the operator's configuration of mail.
type Config struct {
	SMTPURL string  // see ParseSMTP; empty = mail cannot be sent
	Domains Domains // domains that mail may go to
	Version string  // of the program, for the User-Agent
}

// Deps are the dependencies of a Sender. All are required.
type Deps struct {
	Transport http.RoundTripper // the guarded transport of package egress
	// Dial connects to the mail server, which the operator chose: private addresses are allowed.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config // for the mail server
	Now  func() time.Time
}

// Sender sends messages. It is safe for concurrent use.
type Sender struct {
	deps    Deps
	mail    *SMTP // nil = mail is not configured
	domains Domains
	version string
}

// New validates its arguments. It connects to nothing.
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

// Domains returns the domains that mail may go to; empty = any.
func (s *Sender) Domains() Domains { return s.domains }

// Send makes one attempt to send a message through a channel.
func (s *Sender) Send(ctx context.Context, c Channel, m Message) Result {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	start := s.deps.Now()
	r := Result{Error: event.CodeInternal, Message: "this version of the relay does not support the channel"}
	if k := kindOf(c.Kind); k != nil {
		r = k.send(ctx, s, c, m)
	}
	r.Duration = s.deps.Now().Sub(start)
	return r
}

// resultOfError returns the result of a request or a connection that failed.
func resultOfError(err error) Result {
	var u *url.Error
	if errors.As(err, &u) { // its text contains the URL
		err = u.Err
	}
	r := Result{Error: egress.Classify(err), Message: egress.Message(err)}
	if r.Message == context.DeadlineExceeded.Error() {
		r.Message = fmt.Sprintf("the channel gave no answer within %v", Timeout)
	}
	return r
}

// resultOfStatus returns the result of an answer with that HTTP status.
func resultOfStatus(status int) Result {
	r := Result{OK: status >= 200 && status < 300, Code: status}
	switch {
	case r.OK:
	case status >= 300 && status < 400:
		r.Error, r.Message = event.CodeRedirectBlocked,
			fmt.Sprintf("the channel answered %d %s; redirects are not followed, save the final URL", status,
				http.StatusText(status))
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

// maskDots replaces what a mask hides.
const maskDots = "****"

// MaskURL returns the scheme and host of a URL, and the last four characters of its path if that has 12 or more.
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

// maskAddress returns the first letter and the domain of a mail address.
func maskAddress(address string) string {
	name, domain, _ := strings.Cut(address, "@")
	for _, first := range name {
		return string(first) + maskDots + "@" + domain
	}
	return maskDots + "@" + domain
}

// Target returns the masked URL or addresses of the channel.
func (c Channel) Target() string {
	if len(c.To) == 0 {
		return MaskURL(c.URL)
	}
	masked := make([]string, len(c.To))
	for i, to := range c.To {
		masked[i] = maskAddress(to)
	}
	return strings.Join(masked, ", ")
}
