package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// authTest sends deliveries to one destination with authentication.
type authTest struct {
	*Kind
	t      *testing.T
	sender *destination.Sender
	dest   *config.Destination
	clock  atomic.Int64 // nanoseconds that the clock is ahead
}

func newAuthTest(t *testing.T, address string, auth kinds.Auth) *authTest {
	keyring := testKeyring(t)
	x := &authTest{t: t, dest: &config.Destination{ID: "dst_test", URL: address,
		DestinationSettings: config.DestinationSettings{TimeoutSeconds: 10}}}
	now := func() time.Time { return time.Now().Add(time.Duration(x.clock.Load())) }
	x.Kind = New(Deps{Transport: testClient(t, loopback()).Transport, Keyring: keyring, Now: now, Version: "test"})
	x.sender = destination.NewSender(now, 1000, newWaited(), nil)
	x.dest.Settings = kinds.Settings{Auth: &auth}.Seal(keyring, x.dest.ID, kinds.Settings{}, kinds.Settings{})
	return x
}

// send opens the destination, as after a change of its endpoint, and makes one attempt.
func (x *authTest) send() *event.Attempt {
	x.t.Helper()
	to := must.Get(x.Open(&config.Endpoint{}, x.dest))(x.t)
	work := testWork(x.t, []byte("x"))
	attempt, _ := x.sender.Send(x.t.Context(), work.Event.ID, to, work, destination.Stored(work), nil, nil)
	if strings.Contains(string(attempt.RequestHeader), "hunter2") || strings.Contains(attempt.ErrorMessage, "hunter2") {
		x.t.Errorf("the attempt shows a secret: %s %s", attempt.RequestHeader, attempt.ErrorMessage)
	}
	return attempt
}

func TestBasicAuthentication(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "relay" || password != "hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	x := newAuthTest(t, server.URL, kinds.Auth{Type: kinds.Basic, Username: "relay", Password: "hunter2"})
	if a := x.send(); !a.OK || a.RequestHeader.Value("Authorization") != destination.Mask {
		t.Errorf("%d %s", a.Code, a.RequestHeader)
	}
}

// tokenServer gives tokens with increasing numbers, and accepts the deliveries with one that it has not revoked.
type tokenServer struct {
	*httptest.Server
	fetched, refused, valid atomic.Int64 // tokens below valid are revoked
	life                    int
	answer                  func(http.ResponseWriter) bool // answers a token request; nil: with a token
	asked                   atomic.Value                   // form of the last token request
}

func newTokenServer(t *testing.T, life int) *tokenServer {
	s := &tokenServer{life: life}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			_ = r.ParseForm()
			_, secret, _ := r.BasicAuth()
			s.asked.Store(r.Form.Encode() + " " + secret)
			time.Sleep(20 * time.Millisecond) // others wait meanwhile
			if n := s.fetched.Add(1); s.answer == nil || !s.answer(w) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"access_token":"hunter2-%d","token_type":"bearer","expires_in":%d}`, n, s.life)
			}
			return
		}
		n := int64(-1)
		if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer hunter2-%d", &n); err != nil || n < s.valid.Load() {
			s.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) auth() kinds.Auth {
	return kinds.Auth{Type: kinds.OAuth2, TokenURL: s.URL + "/token", ClientID: "relay", ClientSecret: "hunter2",
		ClientAuth: "header", Scope: "a b", Audience: "shop"}
}

// One token serves all deliveries of its life, also while many wait for it and the endpoint changes. One that the
// destination refuses is renewed once for all, without another attempt.
func TestAccessTokens(t *testing.T) {
	s := newTokenServer(t, 3600)
	x := newAuthTest(t, s.URL+"/hook", s.auth())
	all := func(n int) {
		t.Helper()
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				if a := x.send(); !a.OK || a.RequestHeader.Value("Authorization") != destination.Mask {
					t.Errorf("%d %s %s", a.Code, a.ErrorCode, a.ErrorMessage)
				}
			})
		}
		wg.Wait()
	}
	all(200)
	if n, form := s.fetched.Load(), s.asked.Load(); n != 1 ||
		form != "audience=shop&grant_type=client_credentials&scope=a+b hunter2" {
		t.Errorf("%d tokens were fetched for 200 deliveries, with %v", n, form)
	}
	x.clock.Add(int64(time.Minute))
	s.valid.Store(2)
	all(50)
	is.Equal(t, s.fetched.Load(), 2, "tokens after one was revoked")
	x.clock.Add(int64(time.Hour))
	all(50)
	is.Equal(t, s.fetched.Load(), 3, "tokens after one has expired")
	s.valid.Store(1 << 40) // the destination refuses every token
	for range 5 {
		if a := x.send(); a.OK || a.Code != http.StatusUnauthorized {
			t.Errorf("a refused token: %d %s", a.Code, a.ErrorCode)
		}
	}
	is.Equal(t, s.fetched.Load(), 3, "tokens: a destination that refuses all causes a request for each delivery")
}

// Without a token nothing is sent. The attempt says why, and nothing that the token server has written.
func TestNoAccessToken(t *testing.T) {
	for want, answer := range map[string]func(http.ResponseWriter) bool{
		"the token server answered 401 invalid_client": func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"hunter2 is wrong"}`)
			return true
		},
		"the token server answered 302": func(w http.ResponseWriter) bool {
			w.Header().Set("Location", "/hook")
			w.WriteHeader(http.StatusFound)
			return true
		},
		"the token server's answer has no access token": func(w http.ResponseWriter) bool {
			fmt.Fprint(w, `hunter2`)
			return true
		},
	} {
		s := newTokenServer(t, 60)
		s.answer = answer
		x := newAuthTest(t, s.URL+"/hook", s.auth())
		if a := x.send(); a.OK || a.Code != 0 || a.ErrorCode != event.CodeToken || a.ErrorMessage != want ||
			s.refused.Load() > 0 {
			t.Errorf("%s: %q %q", want, a.ErrorCode, a.ErrorMessage)
		}
	}
	s := newTokenServer(t, 60)
	auth := s.auth()
	auth.TokenURL = "http://10.0.0.1/token" // the guard refuses it
	if a := newAuthTest(t, s.URL+"/hook", auth).send(); a.ErrorCode != event.CodeToken ||
		!strings.Contains(a.ErrorMessage, "not public") {
		t.Errorf("%q %q", a.ErrorCode, a.ErrorMessage)
	}
}

// A client certificate is shown by the connections of its destination alone.
func TestClientCertificates(t *testing.T) {
	var shown atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown.Store(int64(len(r.TLS.PeerCertificates)))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pair := server.TLS.Certificates[0]
	roots := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(roots, []byte(block("CERTIFICATE", server.Certificate().Raw)), 0o600))
	x := newAuthTest(t, server.URL, kinds.Auth{Type: kinds.MTLS, Certificate: block("CERTIFICATE", pair.Certificate[0]),
		Key: seal.Secret(block("PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)))})
	transport := must.Get(egress.NewTransport(egress.Config{Policy: loopback(), CAFile: roots}))(t)
	t.Cleanup(transport.CloseIdleConnections)
	x.Transport = transport
	auth := x.dest.Auth
	for i, want := range []int64{0, 1, 0} {
		if x.dest.Auth = nil; i == 1 {
			x.dest.Auth = auth
		}
		if a := x.send(); !a.OK || shown.Load() != want {
			t.Errorf("%d certificates were shown, want %d: %s", shown.Load(), want, a.ErrorMessage)
		}
	}
}
