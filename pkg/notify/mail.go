package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Email sends mail through the operator's server.
const Email Kind = "email"

// SMTP is the operator's mail server.
type SMTP struct {
	host           string
	port           int
	user, password string
	from           string
	implicit       bool // TLS from the first byte (smtps)
	starttls       gomail.TLSPolicy
}

// Default ports of mail submission (RFC 6409, RFC 8314).
const (
	submissionPort  = 587
	submissionsPort = 465
)

// ParseSMTP parses smtp://user:password@host:port?from=address, or smtps:// for TLS from the first byte. smtp://
// requires STARTTLS, because an attacker between relay and server could remove the server's offer. STARTTLS is
// optional only for a server on loopback without a password, or with &tls=opportunistic (not allowed with a
// password). &tls=required makes it mandatory on loopback too. Errors never contain the URL.
func ParseSMTP(text string) (*SMTP, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" {
		return nil, errors.New("the URL must be smtp:// or smtps://user:password@host:port?from=address")
	}
	m := &SMTP{host: u.Hostname(), port: submissionPort, implicit: u.Scheme == "smtps", starttls: gomail.TLSMandatory}
	if m.implicit {
		m.port = submissionsPort
	}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return nil, errors.New("the port must be a number from 1 to 65535")
		}
		m.port = int(port)
	}
	if u.User != nil {
		m.user = u.User.Username()
		m.password, _ = u.User.Password()
	}
	query := u.Query()
	switch wanted := query.Get("tls"); {
	case wanted == "required", wanted == "" && (m.password != "" || !egress.IsLoopback(m.host)):
	case wanted == "":
		m.starttls = gomail.TLSOpportunistic
	case wanted != "opportunistic":
		return nil, errors.New("tls must be required or opportunistic, or left out")
	case m.password != "" || m.implicit:
		return nil, errors.New("tls=opportunistic needs smtp:// and no password: a password is sent over TLS only")
	default:
		m.starttls = gomail.TLSOpportunistic
	}
	from, err := mail.ParseAddress(query.Get("from"))
	if err != nil {
		return nil, errors.New("from must be a mail address: …?from=relay@example.com")
	}
	m.from = from.String()
	for name := range query {
		if name != "from" && name != "tls" {
			return nil, errors.New("only the parameters from and tls are allowed")
		}
	}
	return m, nil
}

// CanMail reports whether a mail server is configured.
func (s *Sender) CanMail() bool { return s.mail != nil }

// sendMail sends to the addresses whose domains are allowed. Other addresses were saved before the operator
// restricted the domains; they are refused for good.
func sendMail(ctx context.Context, s *Sender, c Channel, m Message) Result {
	if s.mail == nil {
		return Result{Error: CodeNotConfigured, Message: "no mail server is configured (RELAY_SMTP_URL)"}
	}
	var allowed, outside []string
	for _, to := range c.To {
		if s.domains.Allow(to) {
			allowed = append(allowed, to)
		} else {
			outside = append(outside, to)
		}
	}
	c.To = allowed
	r := Result{OK: true}
	if len(allowed) > 0 {
		r = s.sendEach(ctx, c, m)
	}
	if len(outside) > 0 && (r.OK || r.Undelivered != nil) {
		if r.OK {
			r = Result{Error: event.CodeAddressBlocked, Message: maskAddress(outside[0]) +
				" is outside the domains that alert mails may go to (RELAY_ALERT_DOMAINS)"}
		}
		if r.Undelivered == nil {
			r.Undelivered = make(map[string]bool)
		}
		for _, to := range outside {
			r.Undelivered[to] = false
		}
	}
	return r
}

// sendEach sends one mail to each address over one connection, so that a refused address does not affect the others.
// The result is OK if every address received it.
func (s *Sender) sendEach(ctx context.Context, c Channel, m Message) Result {
	client, err := s.mailClient(ctx)
	if err != nil {
		return Result{Error: event.CodeInternal, Message: egress.Message(err)}
	}
	mails := make([]*gomail.Msg, len(c.To))
	for i, to := range c.To {
		if mails[i], err = s.mail.compose(to, m); err != nil {
			return Result{Error: event.CodeInternal, Message: egress.Message(err)}
		}
	}
	err = client.DialAndSendWithContext(ctx, mails...)
	var r Result
	for i, l := range mails {
		if l.IsDelivered() {
			continue
		}
		if r.Undelivered == nil {
			r.Undelivered = make(map[string]bool)
		}
		var refusal *gomail.SendError
		permanent := errors.As(l.SendError(), &refusal) && !refusal.IsTemp() &&
			refusal.Is(&gomail.SendError{Reason: gomail.ErrSMTPRcptTo})
		r.Undelivered[c.To[i]] = !permanent
	}
	if len(r.Undelivered) == 0 { // errors after the last mail was accepted do not matter
		return Result{OK: true}
	}
	r.Error, r.Message = CodeSMTP, egress.Message(err)
	switch code := egress.Classify(err); {
	case ctx.Err() != nil || code == event.CodeTimeout:
		r.Error, r.Message = event.CodeTimeout, "the mail server did not take the message in time"
	case code != event.CodeNetwork:
		r.Error = code
	}
	return r
}

// mailClient returns a client for one attempt. Its connection is closed when ctx ends, because the library bounds
// single commands only, not the whole exchange.
func (s *Sender) mailClient(ctx context.Context) (*gomail.Client, error) {
	m := s.mail
	conf := s.deps.TLS.Clone()
	conf.ServerName = m.host
	dial := func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := s.deps.Dial(dialing, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		if !m.implicit {
			return conn, nil
		}
		secure := tls.Client(conn, conf)
		return secure, secure.HandshakeContext(dialing)
	}
	opts := []gomail.Option{
		gomail.WithPort(m.port), gomail.WithTimeout(Timeout), gomail.WithDialContextFunc(dial), gomail.WithTLSConfig(conf),
		gomail.WithTLSPolicy(m.starttls),
	}
	if m.implicit {
		opts = append(opts, gomail.WithSSL())
	}
	if m.user != "" {
		// The library sends a clear-text password over TLS only.
		opts = append(opts, gomail.WithUsername(m.user), gomail.WithPassword(m.password),
			gomail.WithOpportunisticSMTPAuth(
				gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin, gomail.SMTPAuthCramMD5))
	}
	c, err := gomail.NewClient(m.host, opts...)
	if err != nil {
		return nil, fmt.Errorf("create the mail client: %w", err)
	}
	return c, nil
}

// compose returns the mail to one address. Its only link is the one to EventRelay.
func (m *SMTP) compose(to string, msg Message) (*gomail.Msg, error) {
	l := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	if err := l.From(m.from); err != nil {
		return nil, fmt.Errorf("set the sender of the mail: %w", err)
	}
	if err := l.To(ASCIIAddress(to)); err != nil { // addresses saved earlier may not be ASCII
		return nil, fmt.Errorf("set the recipient of the mail: %w", err)
	}
	domain := m.from[strings.LastIndex(m.from, "@")+1:] // a name before the address may have one too
	l.SetMessageIDWithValue(msg.ID + "@" + strings.Trim(domain, "> "))
	l.SetDateWithValue(msg.At)
	l.Subject(web.BreakLinks(web.SanitizeLine(msg.Title)))
	l.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic replies
	l.SetGenHeader("X-Relay-Type", msg.Type)
	var b strings.Builder
	b.WriteString(web.BreakLinks(web.SanitizeText(msg.Text)) + "\n\n")
	for _, f := range msg.Facts {
		b.WriteString(web.BreakLinks(web.SanitizeLine(f.Name+": "+f.Value)) + "\n")
	}
	if msg.Link != "" {
		b.WriteString("\n" + msg.Link + "\n")
	}
	l.SetBodyString(gomail.TypeTextPlain, b.String())
	return l, nil
}
