package frame

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/eventrelay/relay/pkg/web"
)

// Page is a public document that changes only with the program.
type Page struct {
	Body      []byte
	gzipped   []byte // nil if compression gains nothing
	mediaType string
	etag      string
	Policy    string // Content-Security-Policy, if it differs from the default
	Download  string // the name under which a browser saves it; empty if it shows it
	// Draw makes the page for a request, in place of Body; nil: Body is the same for all.
	Draw func(*http.Request) (*Page, error)
}

// NewPage returns a page with the default policy.
func NewPage(mediaType string, body []byte) *Page {
	sum := sha256.Sum256(body)
	p := &Page{Body: body, mediaType: mediaType, etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
	if gzipped := web.Gzip(body); len(gzipped) < len(body) {
		p.gzipped = gzipped
	}
	return p
}

// Lazily returns a page that the first request draws.
func Lazily(draw func() (*Page, error)) *Page {
	once := sync.OnceValues(draw)
	return &Page{Draw: func(*http.Request) (*Page, error) { return once() }}
}

// Serve sends the page, or 304 if the client has it. Any origin may read it, because it is public and OpenAPI tools
// run in browsers.
func (p *Page) Serve(w http.ResponseWriter, r *http.Request) {
	h, etag, body := w.Header(), p.etag, p.Body
	if p.gzipped != nil {
		h.Set("Vary", "Accept-Encoding")
		if web.AcceptsGzip(r) {
			etag, body = strings.TrimSuffix(etag, `"`)+`-gzip"`, p.gzipped // one tag for each form
		}
	}
	h.Set("ETag", etag)
	h.Set("Cache-Control", "no-cache") // cached, but revalidated: it changes with an upgrade
	h.Set("Access-Control-Allow-Origin", "*")
	if p.Policy != "" { // on a 304 too: browsers update the cached headers from it
		h.Set("Content-Security-Policy", p.Policy)
	}
	if p.Download != "" {
		h.Set("Content-Disposition", `attachment; filename="`+p.Download+`"`)
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

// IsKnown reports whether the client has the page.
func (p *Page) IsKnown(r *http.Request) bool {
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
