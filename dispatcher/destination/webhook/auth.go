package webhook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
)

// Times of access tokens.
const (
	// renewEvery is the least age of a token that is renewed because a destination answers 401. One that always does
	// would cause a request to the token server for each delivery.
	renewEvery = 10 * time.Second
	// expiryMargin is how long before its end a token is renewed, at most a quarter of its life.
	expiryMargin = 10 * time.Second
	// keepUnused is how long a token is kept without a delivery.
	keepUnused = time.Hour
)

// authenticate sets how the target is authenticated. auth is opened.
func (t *target) authenticate(id string, auth *kinds.Auth) error {
	switch auth.Type {
	case kinds.Basic:
		pair := base64.StdEncoding.EncodeToString([]byte(auth.Username + ":" + string(auth.Password)))
		t.Header = append(t.Header, event.Field{Name: "Authorization", Value: "Basic " + pair})
	case kinds.OAuth2:
		t.tokens = t.kind.tokens.of(t.kind, id, *auth)
	case kinds.MTLS:
		pair, err := auth.KeyPair()
		if err != nil {
			return fmt.Errorf("open client certificate of %s: %w", id, err)
		}
		guard, ok := t.transport.(*egress.Transport)
		if !ok {
			return errors.New("the transport has no client certificates")
		}
		t.transport = guard.WithCertificate(pair)
	}
	return nil
}

// tokenError means that there is no access token.
type tokenError struct{ error }

func (e tokenError) Unwrap() error { return e.error }

// closedIdle is net/http's error, which it does not export, for a reused connection that the server closed before it
// read the request. Only this error is safe to repeat: after any other the server may have processed the request.
const closedIdle = "http: server closed idle connection"

// roundTrip sends a request with an access token, if the target has them. When the destination refuses a token, it
// sends the request once more with a new one: the destination has not processed the first.
func (t *target) roundTrip(
	ctx context.Context, hooks *httptrace.ClientTrace, method string, to *url.URL, body []byte,
	header http.Header,
) (http.Header, *http.Response, error) {
	traced := httptrace.WithClientTrace(ctx, hooks)
	send := func(header http.Header) (*http.Response, error) {
		resp, err := t.transport.RoundTrip(newRequest(traced, to, method, body, header))
		if err != nil && strings.HasSuffix(err.Error(), closedIdle) {
			resp, err = t.transport.RoundTrip(newRequest(traced, to, method, body, header.Clone()))
		}
		return resp, err
	}
	if t.tokens == nil {
		resp, err := send(header)
		return header, resp, err
	}
	token, err := t.tokens.get(ctx, "")
	if err != nil {
		return header, nil, tokenError{err}
	}
	header["Authorization"] = []string{token}
	resp, err := send(header)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return header, resp, err
	}
	next, err := t.tokens.get(ctx, token)
	if err != nil || next == token {
		return header, resp, nil
	}
	readBody(resp)
	header = header.Clone() // the first request may still be written
	header["Authorization"] = []string{next}
	resp, err = send(header)
	return header, resp, err
}

// tokenSources are those of all destinations. They outlive targets, so that a change of an endpoint fetches no token.
type tokenSources struct {
	mu      sync.Mutex // guards the fields below
	sources map[tokenKey]*tokenSource
	swept   time.Time
}

type tokenKey struct {
	dest string
	auth kinds.Auth
}

// tokenSource fetches the access tokens of a destination, one at a time for all attempts that wait.
type tokenSource struct {
	client *http.Client
	now    func() time.Time
	dest   string
	config clientcredentials.Config
	used   atomic.Int64 // unix seconds of the last use

	current atomic.Pointer[accessToken]
	turn    chan struct{} // held while a token is fetched; capacity 1
	failed  error         // of the last fetch; guarded by turn
	ended   time.Time     // of the last fetch that failed; guarded by turn
}

type accessToken struct {
	header         string // value of Authorization
	fetched, until time.Time
}

func (s *tokenSources) of(k *Kind, dest string, auth kinds.Auth) *tokenSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := k.Now()
	if s.sources == nil {
		s.sources, s.swept = map[tokenKey]*tokenSource{}, now
	}
	if now.Sub(s.swept) >= keepUnused {
		s.swept = now
		for key, source := range s.sources {
			if now.Unix()-source.used.Load() >= int64(keepUnused/time.Second) {
				delete(s.sources, key)
			}
		}
	}
	key := tokenKey{dest, auth}
	source := s.sources[key]
	if source == nil {
		source = &tokenSource{now: k.Now, dest: dest, turn: make(chan struct{}, 1),
			client: &http.Client{Transport: k.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // the client secret is for this address alone
			}},
			config: clientcredentials.Config{ClientID: auth.ClientID, ClientSecret: string(auth.ClientSecret),
				TokenURL: auth.TokenURL, Scopes: strings.Fields(auth.Scope), AuthStyle: oauth2.AuthStyleInHeader}}
		if auth.ClientAuth == "body" {
			source.config.AuthStyle = oauth2.AuthStyleInParams
		}
		if auth.Audience != "" {
			source.config.EndpointParams = url.Values{"audience": {auth.Audience}}
		}
		s.sources[key] = source
	}
	source.used.Store(now.Unix())
	return source
}

// get returns the value of the header Authorization: that of the present token, or of a new one if it has expired or is
// the rejected one.
func (s *tokenSource) get(ctx context.Context, rejected string) (string, error) {
	asked := s.now()
	s.used.Store(asked.Unix())
	if token := s.current.Load(); token.usable(asked, rejected) {
		return token.header, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if token := s.current.Load(); token.usable(s.now(), rejected) {
		return token.header, nil // fetched while this attempt waited
	}
	if s.failed != nil && !s.ended.Before(asked) {
		return "", s.failed
	}
	token, err := s.fetch(ctx)
	if s.failed, s.ended = err, s.now(); err != nil {
		return "", err
	}
	s.current.Store(token)
	return token.header, nil
}

func (t *accessToken) usable(now time.Time, rejected string) bool {
	return t != nil && (t.until.IsZero() || now.Before(t.until)) &&
		(t.header != rejected || now.Sub(t.fetched) < renewEvery)
}

func (s *tokenSource) fetch(ctx context.Context) (*accessToken, error) {
	ctx = egress.WithDestination(context.WithValue(ctx, oauth2.HTTPClient, s.client), s.dest)
	token, err := s.config.Token(ctx)
	if err != nil {
		return nil, tokenFault(err)
	}
	now := s.now()
	next := &accessToken{header: token.Type() + " " + token.AccessToken, fetched: now}
	if life := time.Duration(token.ExpiresIn) * time.Second; token.ExpiresIn > 0 {
		next.until = now.Add(life - min(expiryMargin, life/4))
	}
	if !httpguts.ValidHeaderFieldValue(next.header) {
		return nil, errors.New("the access token has characters that no header may have")
	}
	return next, nil
}

// errorName matches error codes of a token server (RFC 6749, 5.2). What else it answers may repeat a secret.
var errorName = regexp.MustCompile(`^[a-z_]{1,60}$`)

// tokenFault returns the error of a token request without texts of the server.
func tokenFault(err error) error {
	var answered *oauth2.RetrieveError
	var proxy *egress.ProxyError
	switch {
	case errors.As(err, &proxy):
		return proxy
	case errors.As(err, &answered) && errorName.MatchString(answered.ErrorCode):
		return fmt.Errorf("the token server answered %d %s", answered.Response.StatusCode, answered.ErrorCode)
	case errors.As(err, &answered) && answered.Response != nil:
		return fmt.Errorf("the token server answered %d", answered.Response.StatusCode)
	}
	if inner := (*url.Error)(nil); errors.As(err, &inner) {
		return fmt.Errorf("the token server cannot be reached: %s", egress.Message(inner.Err))
	}
	return errors.New("the token server's answer has no access token")
}
