// Package oidctest is an OpenID Connect issuer for tests: that of zitadel/oidc, with people in memory.
package oidctest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/eventrelay/relay/test/must"
)

// The client that the issuer knows.
const (
	ClientID = "relay"
	Secret   = "secret-of-the-client"
)

// Person is somebody whom the issuer signs in.
type Person struct {
	Subject, Email string
	Unverified     bool // the email address
	Groups         []string
}

// Issuer is a running issuer.
type Issuer struct {
	URL string
	// InToken puts the claims of people into the ID token; otherwise they are in UserInfo alone.
	InToken bool

	store  *storage.Storage
	server *httptest.Server
	mu     sync.Mutex // guards people
	people map[string]Person
}

// New starts an issuer that sends browsers back to redirectURL.
func New(t testing.TB, redirectURL string, people ...Person) *Issuer {
	t.Helper()
	i := &Issuer{people: map[string]Person{}}
	i.server = httptest.NewUnstartedServer(nil)
	i.URL = "http://" + i.server.Listener.Addr().String()
	i.store = storage.NewStorageWithClients(users{i}, map[string]*storage.Client{
		ClientID: storage.WebClient(ClientID, Secret, redirectURL)})
	provider := must.Get(op.NewProvider(&op.Config{CryptoKey: [32]byte{1}, CryptoKeyId: "key", CodeMethodS256: true,
		AuthMethodPost: true}, store{i.store, i}, op.StaticIssuer(i.URL), op.WithAllowInsecure()))(t)
	i.server.Config.Handler = provider
	i.server.Start()
	t.Cleanup(i.Stop)
	for _, p := range people {
		i.Set(p)
	}
	return i
}

// Stop makes the issuer unreachable.
func (i *Issuer) Stop() { i.server.Close() }

// Set adds or changes a person.
func (i *Issuer) Set(p Person) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.people[p.Subject] = p
}

func (i *Issuer) person(subject string) Person {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.people[subject]
}

// SignIn does what a person and their browser do at the issuer, beginning at the address to which the relay has sent
// them. It returns the address to which the issuer sends them back.
func (i *Issuer) SignIn(t testing.TB, address, subject string) *url.URL {
	t.Helper()
	login := i.follow(t, address)
	request := login.Query().Get("authRequestID")
	if request == "" {
		return login // refused at once
	}
	if err := i.store.CheckUsernamePassword(subject, subject, request); err != nil {
		t.Fatal(err)
	}
	return i.follow(t, i.URL+"/authorize/callback?id="+url.QueryEscape(request))
}

// follow opens an address and returns where it redirects to.
func (i *Issuer) follow(t testing.TB, address string) *url.URL {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
	answer, err := i.server.Client().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return must.Get(answer.Location())(t)
}

// users are the people of an issuer as its storage knows them. Their names and passwords are their subjects.
type users struct{ *Issuer }

func (u users) GetUserByID(subject string) *storage.User {
	p := u.person(subject)
	return &storage.User{ID: p.Subject, Username: subject, Password: subject, Email: p.Email, EmailVerified: !p.Unverified}
}

func (u users) GetUserByUsername(name string) *storage.User { return u.GetUserByID(name) }
func (u users) ExampleClientID() string                     { return "" }

// store adds groups to the claims of people.
type store struct {
	*storage.Storage
	issuer *Issuer
}

func (s store) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest,
	scopes []string) error {
	err := s.Storage.SetUserinfoFromRequest(ctx, info, r, scopes)
	info.AppendClaims("groups", s.issuer.person(r.GetSubject()).Groups)
	return err
}

func (s store) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	err := s.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
	info.AppendClaims("groups", s.issuer.person(subject).Groups)
	return err
}

func (s store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	return client{c, s.issuer}, err
}

type client struct {
	op.Client
	issuer *Issuer
}

// IDTokenLifetime is that of tests whose clock goes on.
func (c client) IDTokenLifetime() time.Duration { return 24 * time.Hour }

func (c client) IDTokenUserinfoClaimsAssertion() bool { return c.issuer.InToken }
