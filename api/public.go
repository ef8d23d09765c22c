package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/catalogue"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/reference"
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
	pages func() (map[string]*page, error) // by path; built by the first call
	types *cataloguePages
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
func newPublic(cfg *Config, deps *Deps, deprecated *deprecationTable, types *catalogue.Catalogue) *public {
	keys := &keySet{config: deps.Config, keyring: deps.Keyring, now: deps.Now, all: []jwk{}}
	shown := &cataloguePages{of: types, style: cfg.Style}
	notAt, base := hostOf(cfg.Portal.URL), hostOf(cfg.BaseURL)
	if notAt == base || notAt == hostOf(cfg.DashboardURL) {
		notAt = ""
	}
	p := &public{ready: deps.Ready, keys: keys, types: shown, notAt: notAt}
	p.pages = sync.OnceValues(func() (map[string]*page, error) {
		pages, err := publicPages(deprecated, cfg)
		if err == nil {
			err = addTools(pages, cfg.Version)
		}
		if err != nil {
			return nil, err
		}
		for path, html := range cfg.Pages {
			p := newPage("text/html; charset=utf-8", html)
			pages[path] = &p
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
	case cataloguePath, documentPath:
		return a.types.serve(w, r)
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
		return web.Missing("there is no such route; the API is under /v1 and described at /docs")
	}
	web.InfoOf(r).Route = r.URL.Path
	if len(p.body) >= largePage && r.Method == http.MethodGet && !p.isKnown(r) {
		if wait := a.rate.take(web.NetworkOf(web.InfoOf(r).Client), time.Now()); wait > 0 {
			return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: wait,
				Message: "this address has read many large pages; wait as long as Retry-After says"}
		}
	}
	p.serve(w, r)
	return nil
}

// publicPages returns the documents outside of /v1, by path.
func publicPages(deprecated *deprecationTable, cfg *Config) (map[string]*page, error) {
	document, err := deprecated.document()
	if err != nil {
		return nil, fmt.Errorf("read the parts of the OpenAPI document: %w", err)
	}
	text, err := writeYAML(document)
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document as YAML: %w", err)
	}
	var buf bytes.Buffer
	if err := reference.AppendJSON(&buf, document); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document as JSON: %w", err)
	}
	asYAML, asJSON := newPage("application/yaml", text), newPage("application/json", buf.Bytes())
	compatible, err := compatDocument(buf.Bytes())
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document in version 3.0: %w", err)
	}
	asCompat := newPage("application/json", compatible)
	pages := map[string]*page{"/openapi.yaml": &asYAML, "/openapi.json": &asJSON, "/openapi-compat.json": &asCompat}
	if err := addDeprecations(pages, deprecated.entries); err != nil {
		return nil, err
	}
	return pages, addReference(pages, document, cfg)
}

// page is a public document that changes only with the program.
type page struct {
	body      []byte
	gzipped   []byte // nil if compression gains nothing
	mediaType string
	etag      string
	policy    string // Content-Security-Policy, if it differs from the default
	download  string // the name under which a browser saves it; empty if it shows it
}

func newPage(mediaType string, body []byte) page {
	sum := sha256.Sum256(body)
	p := page{body: body, mediaType: mediaType, etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
	if gzipped := web.Gzip(body); len(gzipped) < len(body) {
		p.gzipped = gzipped
	}
	return p
}

// serve sends the page, or 304 if the client has it. Any origin may read it, because it is public and OpenAPI tools
// run in browsers.
func (p *page) serve(w http.ResponseWriter, r *http.Request) {
	h, etag, body := w.Header(), p.etag, p.body
	if p.gzipped != nil {
		h.Set("Vary", "Accept-Encoding")
		if web.AcceptsGzip(r) {
			etag, body = strings.TrimSuffix(etag, `"`)+`-gzip"`, p.gzipped // one tag for each form
		}
	}
	h.Set("ETag", etag)
	h.Set("Cache-Control", "no-cache") // cached, but revalidated: it changes with an upgrade
	h.Set("Access-Control-Allow-Origin", "*")
	if p.policy != "" { // on a 304 too: browsers update the cached headers from it
		h.Set("Content-Security-Policy", p.policy)
	}
	if p.download != "" {
		h.Set("Content-Disposition", `attachment; filename="`+p.download+`"`)
	}
	if matchesETag(r.Header.Values("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", p.mediaType)
	if etag != p.etag {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the client may have left
}

// isKnown reports whether the client has the page.
func (p *page) isKnown(r *http.Request) bool {
	known := r.Header.Values("If-None-Match")
	return matchesETag(known, p.etag) || matchesETag(known, strings.TrimSuffix(p.etag, `"`)+`-gzip"`)
}

// matchesETag implements If-None-Match of RFC 9110, 13.1.2: weak comparison, and * matches any.
func matchesETag(ifNoneMatch []string, etag string) bool {
	for tag := range strings.SplitSeq(strings.Join(ifNoneMatch, ","), ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// referencePath is the page that shows the OpenAPI document.
const referencePath = "/docs"

// addReference adds the page of the operations and that of the types of errors to the public pages.
func addReference(pages map[string]*page, document *yaml.Node, cfg *Config) (err error) {
	style := ""
	if cfg.Style != nil {
		if style, err = cfg.Style(); err != nil {
			return fmt.Errorf("read the look of the reference: %w", err)
		}
	}
	var types []*reference.ErrorType
	for _, d := range errorDocs {
		types = append(types, &reference.ErrorType{Kind: d.kind, Text: d.text})
	}
	drawn, err := reference.New(document, cfg.BaseURL, style, types)
	if err != nil {
		return fmt.Errorf("draw the reference: %w", err)
	}
	for path, body := range map[string][]byte{referencePath: drawn.Operations, web.DocsPath: drawn.Errors} {
		p := newPage("text/html; charset=utf-8", body)
		p.policy = drawn.Policy
		pages[path] = &p
	}
	return nil
}

// cataloguePath is the page of event types for everybody, and documentPath the same as an OpenAPI document.
const cataloguePath, documentPath = "/catalogue", "/catalogue/openapi.json"

// cataloguePages draws both pages when the catalogue has changed since the last request.
type cataloguePages struct {
	of    *catalogue.Catalogue
	style func() (string, error) // nil: none

	mu      sync.Mutex // guards what follows; a page is drawn once, however many ask for it
	version string
	pages   map[string]*page
}

func (c *cataloguePages) serve(w http.ResponseWriter, r *http.Request) error {
	p, err := c.page(r.URL.Path)
	if err != nil {
		return err
	}
	web.InfoOf(r).Route = r.URL.Path
	p.serve(w, r)
	return nil
}

// page returns one of the pages, or the 404 unless the account publishes them.
func (c *cataloguePages) page(path string) (*page, error) {
	version, public := c.of.Version()
	if !public {
		return nil, web.Missing("the catalogue is not public; PATCH /v1/settings/catalogue publishes it")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != version {
		pages, err := c.draw()
		if err != nil {
			return nil, err
		}
		c.version, c.pages = version, pages
	}
	return c.pages[path], nil
}

func (c *cataloguePages) draw() (map[string]*page, error) {
	title, types, document, err := c.of.Published()
	if err != nil {
		return nil, fmt.Errorf("write the catalogue: %w", err)
	}
	style := ""
	if c.style != nil {
		if style, err = c.style(); err != nil {
			return nil, fmt.Errorf("read the look of the catalogue: %w", err)
		}
	}
	drawn := make([]reference.EventType, len(types))
	for i, x := range types {
		drawn[i] = reference.EventType(x)
	}
	html, policy, err := reference.Catalogue(title, style, drawn)
	if err != nil {
		return nil, fmt.Errorf("draw the catalogue: %w", err)
	}
	shown, text := newPage("text/html; charset=utf-8", html), newPage("application/json", document)
	shown.policy = policy
	return map[string]*page{cataloguePath: &shown, documentPath: &text}, nil
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
	config  Configuration
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

// errorDocs explains each error type on the page that doc_url links to.
var errorDocs = []struct{ kind, text string }{
	{web.InvalidRequest, "400. The request is malformed, or a parameter is outside its limits; error.param names it. " +
		"The same request gets the same answer; correct it first. A destination on your own machine or in a private " +
		"network is refused: relay-forward.mjs (under /tools) copies events to your machine, and an operator lets the " +
		"relay send to such a network with RELAY_EGRESS_ALLOW. At an ingest URL also 401: the signature does not verify, " +
		"and error.code says why; 405: only a challenge may be a GET; 431: the headers are too large."},
	{web.InvalidState, "400. The request is valid, but the current state of the resource does not allow it."},
	{web.IdempotencyMismatch, "400. The Idempotency-Key was used before with another body. Use a new key for a new " +
		"request."},
	{web.SelectionTooLarge, "400. The selection is larger than one replay may be; nothing was queued. Narrow it, or " +
		"use a recovery job."},
	{web.PayloadTooLarge, "400, at an ingest URL 413. The body is larger than the service accepts; nothing was stored."},
	{web.Conflict, "400. Another request changed the resource at the same time. Read it and try again."},
	{web.AuthenticationRequired, "401. Send an API key: `Authorization: Bearer <API_KEY>`."},
	{web.InvalidAPIKey, "401. The API key is unknown, expired or revoked."},
	{web.InsufficientScope, "403. The key may only read, or it is an agent key; the call needs another key with the " +
		"scope read_write."},
	{web.NotFound, "404. There is no such route or resource, or its retention has ended."},
	{web.RateLimited, "429. Too many requests; wait as long as Retry-After says."},
	{web.AllowanceExceeded, "429. Reserved. No route answers with it: events above the allowance are accepted."},
	{web.Internal, "500. The service failed. Its logs name the request id. Check whether a write took effect " +
		"before repeating it."},
	{web.Unavailable, "503. A part of the service is temporarily unavailable; wait as long as Retry-After says. " +
		"Check whether a write took effect before repeating it."},
	{web.Timeout, "504, at an ingest URL 408 if the body comes too slowly. The request took too long and was " +
		"abandoned. Check whether a write took effect before repeating it."},
}
