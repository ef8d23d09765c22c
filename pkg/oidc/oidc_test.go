package oidc

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/oidctest"
)

const redirectURL = "https://relay.example.com/app/sign-in/issuer/callback"

func configOf(issuer string) Config {
	return Config{Issuer: issuer, ClientID: oidctest.ClientID, ClientSecret: oidctest.Secret,
		Scopes: []string{"openid", "email"}, GroupsClaim: "groups", VerifiedClaim: "email_verified",
		ReadGroups: []string{"staff"}, WriteGroups: []string{"ops", "admins"}, RedirectURL: redirectURL}
}

func client(t *testing.T, cfg Config) *Client {
	t.Helper()
	return must.Get(New(cfg, time.Now))(t)
}

// refused fails unless an error is a refusal with a reason, whose text has all parts.
func refused(t *testing.T, err error, reason string, parts ...string) {
	t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Reason != reason {
		t.Fatalf("got %v, want %q", err, reason)
	}
	for _, part := range parts {
		is.Has(t, err.Error(), part, "%v lacks %q", err, part)
	}
}

// A person signs in at an issuer, whether its claims are in the ID token or in UserInfo.
func TestSignIn(t *testing.T) {
	ops := oidctest.Person{Subject: "1", Email: "Ops@Example.com", Groups: []string{"all", "ops"}}
	staff := oidctest.Person{Subject: "2", Email: "staff@example.com", Groups: []string{"staff"}}
	f := func(inToken bool, change func(*Config), p oidctest.Person, want config.Identity, reason string) {
		t.Helper()
		i := oidctest.New(t, redirectURL, p)
		i.InToken = inToken
		cfg := configOf(i.URL)
		change(&cfg)
		c := client(t, cfg)
		begun, address, err := c.Begin(t.Context())
		must.Do(t, err)
		for _, secret := range []string{begun.Verifier, cfg.ClientSecret} {
			is.Lacks(t, address, secret, "the browser learns a secret")
		}
		back := i.SignIn(t, address, p.Subject)
		if !strings.HasPrefix(back.String(), redirectURL+"?") {
			t.Fatalf("sent back to %s", back)
		}
		want.Issuer, want.Subject = i.URL, p.Subject
		who, err := c.Finish(t.Context(), begun, back.Query())
		if reason != "" {
			refused(t, err, reason)
		} else if err != nil {
			t.Fatal(err)
		}
		is.Equal(t, who, want, "got")
	}
	same := func(*Config) {}
	for _, inToken := range []bool{true, false} {
		f(inToken, same, ops, config.Identity{Email: "ops@example.com", Scope: config.ReadWrite}, "")
		f(inToken, same, staff, config.Identity{Email: "staff@example.com", Scope: config.Read}, "")
		stranger := oidctest.Person{Subject: "3", Email: "x@example.com", Groups: []string{"others", "op", "OPS"}}
		f(inToken, same, stranger, config.Identity{Email: "x@example.com"}, NoGroup)
		f(inToken, same, oidctest.Person{Subject: "4", Email: "x@example.com"}, config.Identity{Email: "x@example.com"},
			NoGroup)
		ops.Unverified = true
		f(inToken, same, ops, config.Identity{Email: "ops@example.com"}, BadEmail)
		ops.Unverified = false
	}
	f(true, func(c *Config) { c.GroupsClaim = "email" }, ops, config.Identity{Email: "ops@example.com"}, NoGroup)
	f(true, func(c *Config) { c.GroupsClaim, c.ReadGroups = "email", []string{staff.Email} }, staff,
		config.Identity{Email: staff.Email, Scope: config.Read}, "")
	f(true, func(c *Config) { c.VerifiedClaim = "xms_edov" }, ops, config.Identity{Email: "ops@example.com"}, BadEmail)
}

// A code is accepted once, with the verifier and the secret of the sign-in for which it was issued.
func TestCodeBelongsToItsSignIn(t *testing.T) {
	i := oidctest.New(t, redirectURL, oidctest.Person{Subject: "1", Email: "a@example.com", Groups: []string{"ops"}})
	c := client(t, configOf(i.URL))
	begin := func() (Pending, url.Values) {
		t.Helper()
		begun, address, err := c.Begin(t.Context())
		must.Do(t, err)
		return begun, i.SignIn(t, address, "1").Query()
	}
	begun, answer := begin()
	if _, err := c.Finish(t.Context(), begun, answer); err != nil {
		t.Fatal(err)
	}
	_, err := c.Finish(t.Context(), begun, answer)
	refused(t, err, BadCode, "invalid_grant")

	begun, answer = begin()
	other, _ := begin()
	begun.Verifier = other.Verifier
	_, err = c.Finish(t.Context(), begun, answer)
	refused(t, err, BadCode, "invalid_grant")

	cfg := configOf(i.URL)
	cfg.ClientSecret = "wrong-secret"
	begun, answer = begin()
	_, err = client(t, cfg).Finish(t.Context(), begun, answer)
	refused(t, err, BadCode, "invalid_client")
	is.Lacks(t, err.Error(), "wrong-secret", "the error has the secret: %v", err)
}

const accessToken = "access-token-of-the-person"

// hostile is an issuer that answers as a case says.
type hostile struct {
	*httptest.Server
	key     *rsa.PrivateKey
	nonce   string
	claims  map[string]any                           // changes of the ID token; nil removes
	sign    func(t *testing.T, claims []byte) string // nil: RS256
	token   http.HandlerFunc                         // nil: an ID token
	info    map[string]any                           // UserInfo; nil: there is none
	failing http.HandlerFunc                         // instead of UserInfo
	noKeys  bool                                     // the keys are away
	changes map[string]any                           // of the description
}

func newHostile(t *testing.T) *hostile {
	h := &hostile{key: must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)}
	mux := http.NewServeMux()
	write := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		says := map[string]any{"issuer": h.URL, "authorization_endpoint": h.URL + "/auth", "token_endpoint": h.URL + "/token",
			"jwks_uri": h.URL + "/keys", "id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256"}}
		if h.info != nil || h.failing != nil {
			says["userinfo_endpoint"] = h.URL + "/info"
		}
		maps.Copy(says, h.changes)
		write(w, says)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		if h.noKeys {
			status(503, "")(w, r)
			return
		}
		write(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &h.key.PublicKey, KeyID: "1", Use: "sig"}}})
	})
	mux.HandleFunc("/info", func(w http.ResponseWriter, r *http.Request) {
		if h.failing != nil {
			h.failing(w, r)
			return
		}
		write(w, h.info)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if h.token != nil {
			h.token(w, r)
			return
		}
		claims := map[string]any{"iss": h.URL, "aud": oidctest.ClientID, "sub": "1", "nonce": h.nonce,
			"exp": time.Now().Add(time.Minute).Unix(), "email": "a@example.com", "email_verified": true,
			"groups": []string{"ops"}}
		maps.Copy(claims, h.claims)
		maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
		text := must.Get(json.Marshal(claims))(t)
		sign := h.sign
		if sign == nil {
			sign = signed(jose.RS256, h.key)
		}
		write(w, map[string]any{"access_token": accessToken, "token_type": "Bearer", "id_token": sign(t, text)})
	})
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h
}

// signed returns a function that signs claims with a key.
func signed(algorithm jose.SignatureAlgorithm, key any) func(*testing.T, []byte) string {
	return func(t *testing.T, claims []byte) string {
		t.Helper()
		with := jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}
		s := must.Get(jose.NewSigner(with, nil))(t)
		return must.Get(must.Get(s.Sign(claims))(t).CompactSerialize())(t)
	}
}

// unsigned returns a token without a signature.
func unsigned(_ *testing.T, claims []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","kid":"1"}`)) + "." + encode(claims) + "."
}

// finish signs in at a hostile issuer, whose answer change may alter.
func (h *hostile) finish(t *testing.T, change func(*Pending, url.Values)) (config.Identity, error) {
	t.Helper()
	c := client(t, configOf(h.URL))
	begun, _, err := c.Begin(t.Context())
	must.Do(t, err)
	h.nonce = begun.Nonce
	answer := url.Values{"state": {begun.State}, "code": {"code"}}
	if change != nil {
		change(&begun, answer)
	}
	return c.Finish(t.Context(), begun, answer)
}

// What an issuer or a browser may not get through with. Each case says why it is refused.
func TestHostileAnswers(t *testing.T) {
	run := func(name, reason, part string, spoil func(*hostile), change func(*Pending, url.Values)) {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			spoil(h)
			_, err := h.finish(t, change)
			refused(t, err, reason, part)
		})
	}
	token := func(name, reason, part string, claims m) {
		run(name, reason, part, func(h *hostile) { h.claims = claims }, nil)
	}
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	token("another audience", BadToken, "audience", m{"aud": "other"})
	token("several audiences", BadToken, "another party", m{"aud": []string{"other", "relay"}, "azp": "other"})
	token("several audiences and no party", BadToken, "another party", m{"aud": []string{"other", "relay"}})
	token("party that is no text", BadToken, "another party", m{"azp": 1})
	token("another nonce", BadToken, "nonce", m{"nonce": "other"})
	token("no nonce", BadToken, "nonce", m{"nonce": nil})
	token("another issuer", BadToken, "different provider", m{"iss": "https://other.example.com"})
	token("expired", BadToken, "expired", m{"exp": in(-time.Second)})
	token("without an end", BadToken, "expired", m{"exp": nil})
	token("not valid yet", BadToken, "not before", m{"nbf": in(time.Hour)})
	token("no subject", BadSubject, "", m{"sub": ""})
	token("subject with a line", BadSubject, "", m{"sub": "1\n2"})
	token("subject that turns the line", BadSubject, "", m{"sub": "1\u202e2"})
	token("subject with a control of two bytes", BadSubject, "", m{"sub": "1\u009b2"})
	token("subject that is long", BadSubject, "", m{"sub": strings.Repeat("x", 256)})
	token("unverified address", BadEmail, "email_verified is not true", m{"email_verified": false})
	token("no word of verified", BadEmail, "email_verified is not true", m{"email_verified": nil})
	token("no address", BadEmail, "email must be", m{"email": nil})
	token("address with a line", BadEmail, "email must be", m{"email": "a@example.com\nb"})
	token("no groups", NoGroup, "0 groups", m{"groups": nil})
	token("groups of another kind", NoGroup, "0 groups", m{"groups": m{"ops": true}})

	issuer := func(name, reason, part string, spoil func(*hostile)) { run(name, reason, part, spoil, nil) }
	issuer("algorithm none", BadToken, "algorithm", func(h *hostile) { h.sign = unsigned })
	issuer("HS256 with the public key", BadToken, "algorithm", func(h *hostile) {
		der, _ := x509.MarshalPKIXPublicKey(&h.key.PublicKey)
		h.sign = signed(jose.HS256, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	})
	other := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	issuer("another key", BadToken, "signature", func(h *hostile) { h.sign = signed(jose.RS256, other) })
	issuer("no ID token", BadToken, "malformed", func(h *hostile) {
		h.sign = func(*testing.T, []byte) string { return "" }
	})
	issuer("UserInfo of another", BadToken, "another subject", func(h *hostile) {
		h.claims, h.info = m{"groups": nil}, m{"sub": "2", "groups": []string{"ops"}}
	})
	issuer("address of UserInfo that is unverified", BadEmail, "email_verified is not true", func(h *hostile) {
		h.claims, h.info = m{"email": nil}, m{"sub": "1", "email": "b@example.com"}
	})
	issuer("verified another address", BadEmail, "email_verified is not true", func(h *hostile) {
		h.claims, h.info = m{"email_verified": nil}, m{"sub": "1", "email_verified": true}
	})
	issuer("code refused", BadCode, "invalid_grant", func(h *hostile) {
		h.token = status(400, `{"error":"invalid_grant"}`)
	})

	browser := func(name, reason, part string, change func(*Pending, url.Values)) {
		run(name, reason, part, func(*hostile) {}, change)
	}
	browser("missing state", NotBegun, "", func(_ *Pending, v url.Values) { v.Del("state") })
	browser("another state", NotBegun, "", func(_ *Pending, v url.Values) { v.Set("state", "other") })
	browser("no sign-in", NotBegun, "", func(p *Pending, v url.Values) { *p = Pending{}; v.Del("state") })
	browser("too late", NotBegun, "", func(p *Pending, _ url.Values) { p.Began -= 601 })
	browser("error", Declined, `access_denied\n`, func(_ *Pending, v url.Values) { v.Set("error", "access_denied\n") })
	browser("no code", Declined, "", func(_ *Pending, v url.Values) { v.Del("code") })
	browser("another issuer answers", Declined, "other.example.com", func(_ *Pending, v url.Values) {
		v.Set("iss", "https://other.example.com")
	})
	if _, err := newHostile(t).finish(t, nil); err != nil { // the cases are refused for what they change
		t.Error(err)
	}
}

type m = map[string]any

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

// An issuer that does not answer as one refuses nobody: the person may come again.
func TestIssuerThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(*hostile){
		"fails":       func(h *hostile) { h.token = status(503, "") },
		"has no keys": func(h *hostile) { h.noKeys = true },
		"sends elsewhere": func(h *hostile) {
			h.token = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, h.URL+"/elsewhere", http.StatusFound)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			spoil(h)
			if _, err := h.finish(t, nil); !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, says := range map[string]m{
		"another name":     {"issuer": "https://other.example.com"},
		"plain keys":       {"jwks_uri": "http://login.example.com/keys"},
		"plain tokens":     {"token_endpoint": "http://login.example.com/token"},
		"plain UserInfo":   {"userinfo_endpoint": "http://login.example.com/info"},
		"a script":         {"authorization_endpoint": "javascript:alert(1)"},
		"no authorization": {"authorization_endpoint": nil},
		"no end":           {"padding": strings.Repeat("x", maxAnswer)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			h.changes = says
			if _, _, err := client(t, configOf(h.URL)).Begin(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// UserInfo is asked for what the ID token does not say. What is signed wins, and while UserInfo fails nobody is refused
// for what it would have said; the log does not learn the access token.
func TestUserInfo(t *testing.T) {
	f := func(claims, info m, want config.Identity) {
		t.Helper()
		h := newHostile(t)
		h.claims, h.info = claims, info
		want.Issuer, want.Subject = h.URL, "1"
		is.Equal(t, must.Get(h.finish(t, nil))(t), want, "got")
	}
	a := config.Identity{Email: "a@example.com", Scope: config.ReadWrite}
	f(m{"groups": nil}, m{"sub": "1", "email": "b@example.com", "groups": []string{"ops"}}, a)
	f(m{"email": nil}, m{"sub": "1", "email": a.Email, "email_verified": true, "groups": []string{"staff"}}, a)

	for _, missing := range []string{"groups", "email", "email_verified"} {
		h := newHostile(t)
		h.claims = m{missing: nil}
		h.failing = func(w http.ResponseWriter, r *http.Request) {
			status(503, `{"you sent": "`+r.Header.Get("Authorization")+`"}`)(w, r)
		}
		_, err := h.finish(t, nil)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "503") {
			t.Errorf("without %s: %v", missing, err)
		}
		is.Lacks(t, err.Error(), accessToken, "the error has the access token: %v", err)
	}
}

// The description is asked for once an hour, and after a failure once in five seconds.
func TestDescriptionIsRemembered(t *testing.T) {
	asked, fails := 0, true
	s := httptest.NewServer(nil)
	defer s.Close()
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; fails {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(m{"issuer": s.URL, "authorization_endpoint": s.URL, "token_endpoint": s.URL,
			"jwks_uri": s.URL})
	})
	now := time.Now()
	c := must.Get(New(configOf(s.URL), func() time.Time { return now }))(t)
	f := func(after time.Duration, wantAsked int, works bool) {
		t.Helper()
		now = now.Add(after)
		if _, _, err := c.Begin(t.Context()); (err == nil) != works || asked != wantAsked {
			t.Errorf("asked %d times, want %d: %v", asked, wantAsked, err)
		}
	}
	f(0, 1, false)
	fails = false
	f(failureLife-1, 1, false)
	f(1, 2, true)
	fails = true
	f(discoveryLife-1, 2, true)
	f(1, 3, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.slot <- struct{}{} // another request asks
	if _, _, err := c.Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestValidate(t *testing.T) {
	f := func(wantEnv string, change func(*Config)) {
		t.Helper()
		cfg := configOf("https://login.example.com")
		change(&cfg)
		if env, err := cfg.Validate(); env != wantEnv || (err == nil) != (wantEnv == "") {
			t.Errorf("%s, %v; want %q", env, err, wantEnv)
		}
	}
	f("", func(*Config) {})
	f("", func(c *Config) { *c = Config{Scopes: []string{"openid"}, GroupsClaim: "groups"} })
	f("", func(c *Config) { c.ClientSecret, c.ReadGroups = "", nil })
	f("RELAY_OIDC_ISSUER", func(c *Config) { c.Issuer = "" })
	for _, issuer := range []string{"login.example.com", "http://login.example.com", "https://a:b@login.example.com",
		"https://login.example.com?x=1", "https://login.example.com/#x", "ftp://localhost", "https:// login.example.com"} {
		f("RELAY_OIDC_ISSUER", func(c *Config) { c.Issuer = issuer })
	}
	for _, issuer := range []string{"http://localhost:8180/realms/ops", "http://127.0.0.1:1", "http://[::1]:1"} {
		f("", func(c *Config) { c.Issuer = issuer })
	}
	f("RELAY_OIDC_CLIENT_ID", func(c *Config) { c.ClientID = "" })
	f("RELAY_OIDC_WRITE_GROUPS", func(c *Config) { c.ReadGroups, c.WriteGroups = nil, nil })
	f("RELAY_OIDC_SCOPES", func(c *Config) { c.Scopes = []string{"email"} })
}

// Claims of groups as issuers write them.
func TestClaims(t *testing.T) {
	claims := m{"groups": []any{"a", 1, "b"}, "hd": "example.com", "realm_access": m{"roles": []any{"c"}},
		"https://example.com/groups": []any{"d"}}
	for name, want := range map[string][]string{"groups": {"a", "b"}, "hd": {"example.com"}, "realm_access.roles": {"c"},
		"https://example.com/groups": {"d"}, "realm_access": nil, "none": nil, "hd.x": nil} {
		is.List(t, texts(claimOf(claims, name)), want, name)
	}
}
