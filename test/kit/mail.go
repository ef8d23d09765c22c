package kit

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// MailServer is an SMTP server that keeps the messages it accepts. Its certificate is for 127.0.0.1.
type MailServer struct {
	Addr string // host:port
	// RcptFunc may reject a recipient; nil accepts all.
	RcptFunc func(to string) error

	user, password string // required credentials; empty = none

	mu       sync.Mutex // guards messages
	messages []Message
}

// Message is an accepted mail.
type Message struct {
	From   string
	To     []string
	Header mail.Header
	Body   string
	TLS    bool // it was sent over TLS
}

// MailOptions say how a MailServer is secured.
type MailOptions struct {
	StartTLS, Implicit bool
	User, Password     string
}

// Certificate returns a TLS configuration with a certificate for 127.0.0.1 and example.com, and a PEM file with its CA.
func Certificate(t testing.TB) (conf *tls.Config, caFile string) {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	srv.Close()
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(caFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: srv.TLS.Certificates}, caFile
}

// NewMailServer starts a server that stops when the test ends. conf has its certificate, for StartTLS and Implicit.
func NewMailServer(t testing.TB, conf *tls.Config, o MailOptions) *MailServer {
	t.Helper()
	m := &MailServer{user: o.User, password: o.Password}
	srv := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: m, conn: c}, nil
	}))
	srv.Domain, srv.AllowInsecureAuth = "mail.test", true
	if o.StartTLS {
		srv.TLSConfig = conf
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.Addr = l.Addr().String()
	if o.Implicit {
		l = tls.NewListener(l, conf)
	}
	var all sync.WaitGroup
	all.Go(func() { _ = srv.Serve(l) }) // ends with Close
	t.Cleanup(func() {
		srv.Close()
		all.Wait()
	})
	return m
}

// Messages returns the messages accepted so far, oldest first.
func (m *MailServer) Messages() []Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Message(nil), m.messages...)
}

type mailSession struct {
	server        *MailServer
	conn          *smtp.Conn
	authenticated bool
	message       Message
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.user || password != s.server.password {
			return errors.New("unknown user or wrong password")
		}
		s.authenticated = true
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.user != "" && !s.authenticated {
		return smtp.ErrAuthRequired
	}
	_, secured := s.conn.TLSConnectionState()
	s.message = Message{From: from, TLS: secured}
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.server.RcptFunc != nil {
		if err := s.server.RcptFunc(to); err != nil {
			return err
		}
	}
	s.message.To = append(s.message.To, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	parsed, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(parsed.Body)
	if err != nil {
		return err
	}
	s.message.Header, s.message.Body = parsed.Header, string(body)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.messages = append(s.server.messages, s.message)
	return nil
}

func (s *mailSession) Reset() { s.message = Message{} }

func (s *mailSession) Logout() error { return nil }
