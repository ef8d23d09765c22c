// Package oidc signs people in by an OpenID Connect issuer that the operator has chosen: the authorization code flow
// with PKCE, state and nonce.
//
// [Client.Begin] returns where the browser goes, and a [Pending] that the browser keeps sealed: so any node can finish
// the sign-in. [Client.Finish] redeems the code and returns who it is, or a [Refusal] with the reason. Nothing of the
// issuer is stored: no access token, no refresh token. A session is confirmed by another code flow, which the issuer
// answers without asking the person while they are signed in there.
package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	issuer "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/web"
)

// Config says who the issuer is and whom it may let in.
type Config struct {
	Issuer                 string // URL; empty: nobody signs in by an issuer
	ClientID, ClientSecret string // without a secret the client is a public one
	Scopes                 []string
	// GroupsClaim has the groups of a person, and VerifiedClaim whether the email address is the person's.
	GroupsClaim, VerifiedClaim string
	ReadGroups, WriteGroups    []string // whose people may read, and change everything
	RedirectURL                string   // of the relay
	// CAFile and DNSServer are those of egress.NewOperatorDialer.
	CAFile, DNSServer string
}

const (
	// PendingLife is how long a person may take to sign in at the issuer.
	PendingLife = 10 * time.Minute
	// requestTime bounds a request to the issuer, and maxAnswer its answer in bytes.
	requestTime = 10 * time.Second
	maxAnswer   = 1 << 20
	// discoveryLife is how long the issuer's endpoints are remembered; failureLife, that it did not answer: those who
	// wait would ask it one after the other.
	discoveryLife = time.Hour
	failureLife   = 5 * time.Second
	maxSubject    = 255 // bytes; OpenID Connect Core, 2
)

// algorithms sign ID tokens: those with a public key. With HS256 the key would be one that both sides know, and a
// verifier that is not told apart takes the public key for it.
var algorithms = []string{issuer.RS256, issuer.RS384, issuer.RS512, issuer.PS256, issuer.PS384, issuer.PS512,
	issuer.ES256, issuer.ES384, issuer.ES512, issuer.EdDSA}

// Validate returns the first setting that cannot be used, and its environment variable.
func (c Config) Validate() (env string, err error) {
	if c.Issuer == "" {
		if c.ClientID != "" || c.ClientSecret != "" || len(c.ReadGroups)+len(c.WriteGroups) > 0 {
			return "RELAY_OIDC_ISSUER", errors.New("is missing, but other settings RELAY_OIDC_… are set")
		}
		return "", nil
	}
	u, err := url.Parse(c.Issuer)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.ContainsAny(c.Issuer, " \t\n"):
		return "RELAY_OIDC_ISSUER", errors.New("must be a URL such as https://login.example.com, without user and query")
	case !isSecure(u):
		return "RELAY_OIDC_ISSUER", errors.New("must be https://; http:// is for this machine alone")
	case c.ClientID == "":
		return "RELAY_OIDC_CLIENT_ID", errors.New("is required with RELAY_OIDC_ISSUER")
	case len(c.ReadGroups)+len(c.WriteGroups) == 0:
		return "RELAY_OIDC_WRITE_GROUPS", errors.New("is required with RELAY_OIDC_ISSUER, or RELAY_OIDC_READ_GROUPS: " +
			"otherwise nobody may sign in")
	case !slices.Contains(c.Scopes, issuer.ScopeOpenID):
		return "RELAY_OIDC_SCOPES", errors.New("must have openid")
	}
	return "", nil
}

// isSecure reports whether nobody on the way can read or change what goes to a URL.
func isSecure(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && egress.IsLoopback(u.Hostname())
}

// Client signs people in by one issuer.
type Client struct {
	cfg  Config
	now  func() time.Time
	http *http.Client
	// mentioned is when a refusal was logged last that anybody can cause, Unix time in seconds.
	mentioned atomic.Int64
	slot      chan struct{} // held while what follows is read or changed
	// found is the issuer's description; failure is why there is none. Both are forgotten.
	found    *provider
	failure  error
	forgetAt time.Time
}

// provider is what the issuer says of itself.
type provider struct {
	*issuer.Provider
	oauth    oauth2.Config
	verifier *issuer.IDTokenVerifier
}

// New returns a Client, nil if there is no issuer. It opens no connection.
func New(cfg Config, now func() time.Time) (*Client, error) {
	if env, err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", env, err)
	}
	if cfg.Issuer == "" {
		return nil, nil
	}
	dialer, err := egress.NewOperatorDialer(cfg.CAFile, cfg.DNSServer)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, now: now, http: dialer.Client(requestTime, maxAnswer), slot: make(chan struct{}, 1)}, nil
}

// Host is the host name of the issuer, for people.
func (c *Client) Host() string {
	u, _ := url.Parse(c.cfg.Issuer)
	return u.Host
}

// Issues reports whether a user comes from this issuer.
func (c *Client) Issues(u *config.User) bool { return c != nil && u.Issuer == c.cfg.Issuer }

// Check asks the issuer for its description, whatever is remembered.
func (c *Client) Check(ctx context.Context) error {
	_, err := c.ask(ctx)
	return err
}

// provider returns what the issuer says of itself. One request at a time asks it.
func (c *Client) provider(ctx context.Context) (*provider, error) {
	select {
	case c.slot <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.slot }()
	if c.now().Before(c.forgetAt) {
		return c.found, c.failure
	}
	life := discoveryLife
	// The person may leave in the meantime; those who wait have the result all the same.
	if c.found, c.failure = c.ask(context.WithoutCancel(ctx)); c.failure != nil {
		life = failureLife
	}
	c.forgetAt = c.now().Add(life)
	return c.found, c.failure
}

func (c *Client) ask(ctx context.Context) (*provider, error) {
	found, err := issuer.NewProvider(issuer.ClientContext(ctx, c.http), c.cfg.Issuer)
	if err != nil {
		return nil, unavailable(err)
	}
	var says struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&says); err != nil {
		return nil, unavailable(err)
	}
	p := &provider{Provider: found, oauth: oauth2.Config{
		ClientID: c.cfg.ClientID, ClientSecret: c.cfg.ClientSecret, RedirectURL: c.cfg.RedirectURL, Scopes: c.cfg.Scopes,
		Endpoint: found.Endpoint(),
	}, verifier: found.Verifier(&issuer.Config{ClientID: c.cfg.ClientID, SupportedSigningAlgs: algorithms, Now: c.now})}
	for name, text := range map[string]string{"authorization_endpoint": p.oauth.Endpoint.AuthURL,
		"token_endpoint": p.oauth.Endpoint.TokenURL, "jwks_uri": says.Keys,
		"userinfo_endpoint": cmp.Or(found.UserInfoEndpoint(), c.cfg.Issuer)} { // there may be none
		if u, err := url.Parse(text); err != nil || u.Host == "" || !isSecure(u) {
			return nil, unavailable(fmt.Errorf("it names no usable %s: %.100q", name, text))
		}
	}
	// The library would try both ways, and so send a code that was refused again.
	p.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if c.cfg.ClientSecret == "" || len(says.Methods) > 0 && !slices.Contains(says.Methods, "client_secret_basic") {
		p.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return p, nil
}

// Pending is a sign-in that has begun.
type Pending struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Next     string `json:"next"`  // page to open at the end; the caller sets and checks it
	Began    int64  `json:"began"` // Unix time in seconds
}

// Begin begins a sign-in and returns the address at the issuer that the browser opens.
func (c *Client) Begin(ctx context.Context) (Pending, string, error) {
	p, err := c.provider(ctx)
	if err != nil {
		return Pending{}, "", err
	}
	begun := Pending{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Began: c.now().Unix()}
	return begun, p.oauth.AuthCodeURL(begun.State, issuer.Nonce(begun.Nonce), oauth2.S256ChallengeOption(begun.Verifier)),
		nil
}

// ErrUnavailable means that the issuer does not answer, or not as one.
var ErrUnavailable = errors.New("the OpenID Connect issuer cannot be used")

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, bounded(err)) }

// Refusal is why somebody is not signed in.
type Refusal struct {
	Reason string // for the log, and for the person if there is no better text
	Err    error  // what the issuer or the verification says; may be nil
}

func (r *Refusal) Error() string {
	if r.Err == nil {
		return r.Reason
	}
	return r.Reason + ": " + r.Err.Error()
}

// Reasons of a Refusal.
const (
	NotBegun   = "the sign-in was not begun in this browser, was finished before, or took longer than 10 minutes"
	Declined   = "the issuer has declined"
	BadCode    = "the issuer does not accept the code"
	BadToken   = "the ID token is not valid"
	BadEmail   = "the issuer has not verified an email address of the person"
	NoGroup    = "the person is in no group that may sign in"
	BadSubject = "the subject of the ID token is not usable"
)

// Mentions reports whether a refusal belongs into the log. Anybody can cause NotBegun: one in a second does.
func (c *Client) Mentions(r *Refusal) bool {
	now, last := c.now().Unix(), c.mentioned.Load()
	return r.Reason != NotBegun || now != last && c.mentioned.CompareAndSwap(last, now)
}

// Finish ends a sign-in with the parameters that the browser has brought back. It returns a *Refusal if the person is
// not signed in, and ErrUnavailable if the issuer does not answer. With BadEmail and NoGroup the identity says whose
// sessions must end.
func (c *Client) Finish(ctx context.Context, begun Pending, answer url.Values) (who config.Identity, err error) {
	age := c.now().Sub(time.Unix(begun.Began, 0))
	state, iss := answer.Get("state"), answer.Get("iss")
	switch {
	case begun.State == "" || subtle.ConstantTimeCompare([]byte(state), []byte(begun.State)) != 1 || age > PendingLife:
		return who, &Refusal{Reason: NotBegun}
	case iss != "" && iss != c.cfg.Issuer: // RFC 9207
		return who, &Refusal{Declined, fmt.Errorf("the answer is of the issuer %.100q", iss)}
	case answer.Get("error") != "" || answer.Get("code") == "":
		return who, &Refusal{Declined, bounded(fmt.Errorf("error %q, %q", answer.Get("error"),
			answer.Get("error_description")))}
	}
	p, err := c.provider(ctx)
	if err != nil {
		return who, err
	}
	ctx = issuer.ClientContext(ctx, c.http)
	tokens, err := p.oauth.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(begun.Verifier))
	if failed, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		// Not with the body: an issuer may repeat there what it was sent.
		err = bounded(fmt.Errorf("status %d, error %q, %q", failed.Response.StatusCode, failed.ErrorCode,
			failed.ErrorDescription))
		if code := failed.Response.StatusCode; code/100 == 4 && code != http.StatusTooManyRequests {
			return who, &Refusal{BadCode, err}
		}
	}
	if err != nil {
		return who, unavailable(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := p.verifier.Verify(ctx, raw)
	if err != nil && strings.Contains(err.Error(), "fetching keys ") { // the library has no error of its own for it
		return who, unavailable(err)
	}
	if err != nil {
		return who, &Refusal{BadToken, bounded(err)}
	}
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return who, &Refusal{BadToken, bounded(err)}
	}
	party, hasParty := claims["azp"]
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(begun.Nonce)) != 1:
		return who, &Refusal{BadToken, errors.New("its nonce is not that of the sign-in")}
	case (hasParty || len(token.Audience) > 1) && party != c.cfg.ClientID: // OpenID Connect Core, 3.1.3.7
		return who, &Refusal{BadToken, fmt.Errorf("it was issued to another party, %.100q", party)}
	case token.Subject == "" || len(token.Subject) > maxSubject || strings.ContainsFunc(token.Subject, web.IsInvisible):
		return who, &Refusal{Reason: BadSubject}
	}
	return c.identify(ctx, p, tokens, token.Subject, claims)
}

// identify returns who a subject is and what they may do. What the ID token does not say, the UserInfo endpoint may;
// the address and that it is verified come from the same of the two.
func (c *Client) identify(ctx context.Context, p *provider, tokens *oauth2.Token, subject string,
	claims map[string]any) (config.Identity, error) {
	who := config.Identity{Issuer: c.cfg.Issuer, Subject: subject}
	address, member := claims, claimOf(claims, c.cfg.GroupsClaim)
	var asked error
	if mailed := claims["email"] != nil && claims[c.cfg.VerifiedClaim] != nil; p.UserInfoEndpoint() != "" &&
		(!mailed || member == nil) {
		var more map[string]any
		info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
		if err == nil {
			err = info.Claims(&more)
		}
		switch {
		case err != nil: // an issuer may repeat what it was sent
			asked = unavailable(fmt.Errorf("UserInfo: %s", strings.ReplaceAll(err.Error(), tokens.AccessToken, "…")))
		case info.Subject != subject:
			return config.Identity{}, &Refusal{BadToken, errors.New("UserInfo is about another subject")}
		}
		if !mailed && more["email"] != nil {
			address = more
		}
		if member == nil {
			member = claimOf(more, c.cfg.GroupsClaim)
		}
	}
	groups := texts(member)
	has := func(mapped []string) bool {
		return slices.ContainsFunc(mapped, func(g string) bool { return slices.Contains(groups, g) })
	}
	email, err := config.NormalizeEmail(cmp.Or(texts(address["email"])...))
	who.Email = email
	verified := err == nil && isTrue(address[c.cfg.VerifiedClaim])
	switch {
	case verified && has(c.cfg.WriteGroups):
		who.Scope = config.ReadWrite
	case verified && has(c.cfg.ReadGroups):
		who.Scope = config.Read
	case asked != nil: // it might have said what is missing: nobody's sessions end
		return config.Identity{}, asked
	case err != nil:
		return who, &Refusal{BadEmail, fmt.Errorf("the claim email %w", err)}
	case !verified:
		return who, &Refusal{BadEmail, fmt.Errorf("the claim %s is not true", c.cfg.VerifiedClaim)}
	default:
		return who, &Refusal{NoGroup, fmt.Errorf("the claim %s has %d groups, none of RELAY_OIDC_READ_GROUPS and "+
			"RELAY_OIDC_WRITE_GROUPS", c.cfg.GroupsClaim, len(groups))}
	}
	return who, nil
}

// claimOf returns a claim by its name, or by the path of names to it: realm_access.roles.
func claimOf(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	first, rest, nested := strings.Cut(name, ".")
	if inner, ok := claims[first].(map[string]any); ok && nested {
		return claimOf(inner, rest)
	}
	return nil
}

// texts returns the texts of a claim that is a text or a list of them.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			if text, ok := x.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

// isTrue accepts what issuers write for true: Cognito has a text, Entra's xms_edov a number.
func isTrue(v any) bool { return v == true || v == "true" || v == "1" || v == 1.0 }

// maxErrorText bounds in bytes what is logged of an error, in which an issuer may have written.
const maxErrorText = 300

// bounded returns an error as one line that is not long.
func bounded(err error) error {
	text := web.SanitizeLine(err.Error())
	return errors.New(strings.ToValidUTF8(text[:min(len(text), maxErrorText)], ""))
}
