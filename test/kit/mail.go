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

// Mail is an SMTP server that keeps what it is sent. Its certificate is for 127.0.0.1.
type Mail struct {
	Addr string // host:port
	// RcptFunc may refuse a recipient; nil takes all.
	RcptFunc func(to string) error

	user, password string // who may send; empty = everybody

	mu      sync.Mutex // guards letters
	letters []Letter
}

// Letter is a mail that was taken.
type Letter struct {
	From    string
	To      []string
	Header  mail.Header
	Body    string
	Secured bool // it came over TLS
}

// MailOptions say how a Mail is secured.
type MailOptions struct {
	StartTLS, Implicit bool
	User, Password     string
}

// Certificate is one for 127.0.0.1 and example.com, and a file with the root that signed it.
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

// NewMail starts a server that ends with the test. conf is what it is secured with.
func NewMail(t testing.TB, conf *tls.Config, o MailOptions) *Mail {
	t.Helper()
	m := &Mail{user: o.User, password: o.Password}
	srv := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{mail: m, conn: c}, nil
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

// Letters are those that were taken so far, oldest first.
func (m *Mail) Letters() []Letter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Letter(nil), m.letters...)
}

type mailSession struct {
	mail   *Mail
	conn   *smtp.Conn
	signed bool
	letter Letter
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.mail.user || password != s.mail.password {
			return errors.New("unknown user or wrong password")
		}
		s.signed = true
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if s.mail.user != "" && !s.signed {
		return smtp.ErrAuthRequired
	}
	_, secured := s.conn.TLSConnectionState()
	s.letter = Letter{From: from, Secured: secured}
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.mail.RcptFunc != nil {
		if err := s.mail.RcptFunc(to); err != nil {
			return err
		}
	}
	s.letter.To = append(s.letter.To, to)
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
	s.letter.Header, s.letter.Body = parsed.Header, string(body)
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	s.mail.letters = append(s.mail.letters, s.letter)
	return nil
}

func (s *mailSession) Reset() { s.letter = Letter{} }

func (s *mailSession) Logout() error { return nil }
