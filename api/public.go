package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
)

// public serves everything outside of /v1: health checks, public keys and documentation.
type public struct {
	ready *Readiness
	keys  *keySet
	pages func() (map[string]*frame.Page, error) // by path; built by the first call
	more  map[string]frame.PublicHandler         // of features, by path
	// notAt is the host name of the portal, which serves no page about the API; empty if it has no name of its own.
	notAt string
	rate  pageRate
}

const (
	// largePage is the size from which the answers with a page are counted.
	largePage = 64 << 10
	// maxLargePages is how many of them one network gets in pageWindow; see web.NetworkOf.
	maxLargePages, pageWindow = 20, 10 * time.Second
	// maxPageClients bounds the networks that are counted. Others get no large page until the window ends.
	maxPageClients = 10_000
)

// pageRate counts large pages in a window of time.
type pageRate struct {
	mu    sync.Mutex // guards what follows
	ends  time.Time
	pages map[netip.Addr]int
}

// take counts a page for a client, and returns how long it must wait for it.
func (p *pageRate) take(client netip.Addr, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now.Before(p.ends) {
		p.ends, p.pages = now.Add(pageWindow), map[netip.Addr]int{}
	}
	n, counted := p.pages[client]
	if n >= maxLargePages || !counted && len(p.pages) >= maxPageClients {
		return p.ends.Sub(now)
	}
	p.pages[client] = n + 1
	return 0
}

// newPublic makes the pages of a version.
func newPublic(cfg *Config, deps *Deps, deprecated *deprecationTable, x *areas) *public {
	keys := &keySet{config: deps.Config, keyring: deps.Keyring, now: deps.Now, all: []jwk{}}
	notAt, base := hostOf(cfg.Portal.URL), hostOf(cfg.BaseURL)
	if notAt == base || notAt == hostOf(cfg.DashboardURL) {
		notAt = ""
	}
	p := &public{ready: deps.Ready, keys: keys, more: x.public, notAt: notAt}
	p.pages = sync.OnceValues(func() (map[string]*frame.Page, error) {
		pages, err := publicPages(deprecated, x.pages)
		if err == nil {
			err = addTools(pages, cfg.Version, x.tools)
		}
		if err != nil {
			return nil, err
		}
		return pages, nil
	})
	return p
}

// hostOf returns the host name in a URL.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// servePublic answers a path outside of /v1.
func (a *public) servePublic(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return web.Missing("there is no such route")
	}
	switch r.URL.Path {
	case "/healthz":
		web.InfoOf(r).Route = r.URL.Path
		return web.Answer(w, http.StatusOK, map[string]string{"status": "ok"})
	case "/readyz":
		web.InfoOf(r).Route = r.URL.Path
		a.serveReadiness(w)
		return nil
	case keySetPath:
		return a.keys.serve(w, r)
	}
	if serve := a.more[r.URL.Path]; serve != nil {
		return serve(w, r)
	}
	return a.servePage(w, r)
}

// serveReadiness answers with the result of the latest checks. The errors are only in the log, because everyone can
// read this answer.
func (a *public) serveReadiness(w http.ResponseWriter) {
	checks, status, word := a.ready.last(), http.StatusOK, "ready"
	if slices.ContainsFunc(checks, checkView.blocks) {
		status, word = http.StatusServiceUnavailable, "not ready"
	}
	web.WriteJSON(w, status, map[string]any{"status": word, "checks": checks})
}

// servePage answers GET for a public page.
func (a *public) servePage(w http.ResponseWriter, r *http.Request) error {
	pages, err := a.pages()
	if err != nil {
		return err
	}
	p, ok := pages[r.URL.Path]
	switch {
	case a.notAt != "" && hostOf("//"+r.Host) == a.notAt:
		return web.Missing("there is no such page; this is the host name of the portal")
	case ok:
	case strings.HasPrefix(r.URL.Path+"/", toolsPath):
		return web.Missing("there is no such file; /tools/ lists those of this version")
	default:
		described := "/docs"
		if pages[described] == nil {
			described = "/openapi.yaml"
		}
		return web.Missing("there is no such route; the API is under /v1 and described at %s", described)
	}
	web.InfoOf(r).Route = r.URL.Path
	if p.Draw != nil {
		if p, err = p.Draw(r); err != nil {
			return err
		}
	}
	if len(p.Body) >= largePage && r.Method == http.MethodGet && !p.IsKnown(r) {
		if wait := a.rate.take(web.NetworkOf(web.InfoOf(r).Client), time.Now()); wait > 0 {
			return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: wait,
				Message: "this address has read many large pages; wait as long as Retry-After says"}
		}
	}
	p.Serve(w, r)
	return nil
}

// publicPages returns the documents outside of /v1, by path, with those that features draw.
func publicPages(deprecated *deprecationTable, drawn []frame.DrawPages) (map[string]*frame.Page, error) {
	document, err := deprecated.document()
	if err != nil {
		return nil, fmt.Errorf("read the parts of the OpenAPI document: %w", err)
	}
	text, err := writeYAML(document)
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document as YAML: %w", err)
	}
	var buf bytes.Buffer
	if err := frame.AppendJSON(&buf, document); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document as JSON: %w", err)
	}
	compatible, err := compatDocument(buf.Bytes())
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document in version 3.0: %w", err)
	}
	pages := map[string]*frame.Page{
		"/openapi.yaml":        frame.NewPage("application/yaml", text),
		"/openapi.json":        frame.NewPage("application/json", buf.Bytes()),
		"/openapi-compat.json": frame.NewPage("application/json", compatible),
	}
	if err := addDeprecations(pages, deprecated.entries); err != nil {
		return nil, err
	}
	for _, draw := range drawn {
		more, err := draw(document)
		if err != nil {
			return nil, err
		}
		maps.Copy(pages, more)
	}
	return pages, nil
}

const (
	// keySetPath is where RFC 8615 puts it. Everyone may read public keys.
	keySetPath = "/.well-known/jwks.json"
	// maxPublicKeys bounds a set, and with it the work that a stranger can ask for.
	maxPublicKeys = 1000
	// keySetAge is how long the set of all endpoints is kept.
	keySetAge = 10 * time.Second
)

// jwk is an Ed25519 public key (RFC 8037) as a JSON Web Key (RFC 7517). Its id is the thumbprint of RFC 7638.
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	ID        string `json:"kid"`
}

func newJWK(s sign.Secret) jwk {
	x := base64.RawURLEncoding.EncodeToString(s.PublicKey())
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	return jwk{Type: "OKP", Curve: "Ed25519", X: x, Use: "sig", Algorithm: "EdDSA",
		ID: base64.RawURLEncoding.EncodeToString(sum[:])}
}

// keySet serves the public keys of destinations that get Ed25519 signatures.
type keySet struct {
	config  frame.Configuration
	keyring *seal.Keyring
	now     func() time.Time

	mu     sync.Mutex // of the set of all endpoints
	all    []jwk
	readAt time.Time
}

// serve answers with the keys of the endpoint in the parameter endpoint_id, otherwise with those of all endpoints. The
// keys of other endpoints are of no use to a receiver: what they have signed is not meant for it.
func (a *keySet) serve(w http.ResponseWriter, r *http.Request) error {
	web.InfoOf(r).Route = keySetPath
	q := frame.NewQuery(r, "")
	q.Names = []string{"endpoint_id"}
	name := q.Single("endpoint_id")
	if q.RefuseUnknownParameters(); q.Err != nil {
		return q.Err
	}
	keys, err := []jwk{}, error(nil)
	if name != "" {
		e, presence := a.config.Endpoint(name)
		if presence != entity.Present {
			return web.Missing("there is no such endpoint")
		}
		keys, err = a.add(keys, e)
	} else {
		keys, err = a.ofAll()
	}
	if err != nil {
		return err
	}
	if len(keys) > maxPublicKeys {
		return web.Invalid("endpoint_id", "is required: there are more than %d public keys", maxPublicKeys)
	}
	return web.Answer(w, http.StatusOK, map[string][]jwk{"keys": keys})
}

// add adds the keys that sign for an endpoint now.
func (a *keySet) add(keys []jwk, e *config.Endpoint) ([]jwk, error) {
	for i := range e.Destinations {
		d := &e.Destinations[i]
		for _, sealed := range d.Secrets {
			if !sealed.Until.IsZero() && !a.now().Before(sealed.Until) {
				continue
			}
			text, err := a.keyring.OpenString(d.ID, seal.FieldSecret, sealed.Secret)
			if err != nil {
				return nil, err
			}
			if s, err := sign.ParseSecret(text); err == nil && s.Algorithm() == sign.Ed25519 {
				keys = append(keys, newJWK(s))
			}
		}
	}
	return keys, nil
}

// ofAll returns at most a few more than maxPublicKeys keys.
func (a *keySet) ofAll() (keys []jwk, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if account := a.config.Account(); account != nil && a.now().Sub(a.readAt) >= keySetAge {
		keys = []jwk{}
		for before, more := int64(0), true; more && len(keys) <= maxPublicKeys; {
			var page []*config.Endpoint
			page, more = a.config.Endpoints(account.ID, before, 100)
			for _, e := range page {
				if keys, err = a.add(keys, e); err != nil {
					return nil, err
				}
				before = e.CreationSeq()
			}
		}
		a.all, a.readAt = keys, a.now()
	}
	return a.all, nil
}
