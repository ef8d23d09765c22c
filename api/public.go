package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/catalogue"
	"github.com/eventrelay/relay/api/reference"
	"github.com/eventrelay/relay/pkg/web"
)

// public serves everything outside of /v1: health checks, public keys and documentation.
type public struct {
	ready *Readiness
	keys  *keySet
	pages func() (map[string]*page, error) // by path; built at the first request
	types *cataloguePages
}

// newPublic makes the pages of a version.
func newPublic(cfg *Config, deps *Deps, deprecated *deprecationTable, types *catalogue.Catalogue) *public {
	keys := &keySet{config: deps.Config, keyring: deps.Keyring, now: deps.Now, all: []jwk{}}
	shown := &cataloguePages{of: types, style: cfg.Style}
	return &public{ready: deps.Ready, keys: keys, types: shown, pages: sync.OnceValues(func() (map[string]*page, error) {
		pages, err := publicPages(deprecated, cfg)
		if err == nil {
			err = addTools(pages, cfg.Version)
		}
		for path, html := range cfg.Pages {
			p := newPage("text/html; charset=utf-8", html)
			pages[path] = &p
		}
		return pages, err
	})}
}

// servePublic answers a path outside of /v1.
func (a *public) servePublic(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return web.Missing("there is no such route")
	}
	switch r.URL.Path {
	case "/healthz":
		web.InfoOf(r).Route = r.URL.Path
		web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
		return nil
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
	case ok:
	case strings.HasPrefix(r.URL.Path+"/", toolsPath):
		return web.Missing("there is no such file; /tools/ lists those of this version")
	default:
		return web.Missing("there is no such route; the API is under /v1 and described at /docs")
	}
	web.InfoOf(r).Route = r.URL.Path
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
