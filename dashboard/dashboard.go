// Package dashboard serves the pages under /app and their files under /static.
//
// A page is a handler, a line in the table of routes and a template. To add one:
//
//  1. A line in routes.go, with method, path, who may open it, and the handler. A button that makes one call of the API
//     is a row alone, with act.
//  2. A file for the family of pages, such as drains.go. A handler is a func(v *visit) error: it reads with [visit.get]
//     and changes with [visit.do], which call the handlers of /v1 in this process, and ends with [visit.page] or
//     [visit.redirect]. A returned error becomes a page; [web.Error] says which.
//  3. templates/pages/NAME.html with the blocks "title" and "main". The data of the page is .Data. The parts in
//     templates/parts (status, time, field, …) are used with {{template "status" .Status}}.
//  4. menu in menu.go: a line, if the page belongs in the navigation.
//
// An htmx request (HX-Request) gets the block "main" alone, or the block "#ID" if the page defines one for the element
// ID that asks. Every form holds {{template "nonce" .}} and is checked with submit: its nonce is the
// Idempotency-Key of the call, so that a second submit does nothing twice.
//
// Invariants, each with its test in docs/design/dashboard.md: the Host is checked before anything else; a request that
// is not GET is served only if the browser or its Origin says that it comes from our own page; no GET changes anything;
// a cookie opens nothing under /v1 and a key opens no page; every response forbids foreign scripts. Text that others
// wrote reaches a page through html/template alone, and through plain, which makes invisible characters visible.
//
// Begin reading at routes and Dashboard.serve in route.go.
package dashboard

import (
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/gorilla/mux"

	"github.com/eventrelay/relay/pkg/web"
)

// Config holds the settings of the dashboard.
type Config struct {
	// BaseURL is the public address of the service, without a trailing slash.
	BaseURL string
	// BaseURLIsDefault says that nobody has set BaseURL: it is the address of the listener.
	BaseURLIsDefault bool
	// Host is the only host name that the dashboard answers under; empty: every name in BaseURL and AllowedHosts.
	Host         string
	AllowedHosts []string
	// Listen is the address that the server listens on. It is accepted as a host; invalid = none.
	Listen netip.Addr
	// Dev accepts localhost, 127.0.0.1 and [::1].
	Dev            bool
	TrustedProxies []netip.Prefix
	Version        string // of the program
}

// URL returns the address of the dashboard, without a trailing slash: baseURL, with the name host if that is set.
func URL(baseURL, host string) string {
	u, err := url.Parse(baseURL)
	if err != nil || host == "" {
		return baseURL
	}
	if port := u.Port(); port != "" {
		host += ":" + port
	}
	return u.Scheme + "://" + host
}

// Dashboard serves /app and /static.
type Dashboard struct {
	cfg    Config
	deps   Deps
	hosts  *hosts
	mux    *mux.Router
	routes map[string]methods // by path, which is also the name of the mux route
	menu   []menuGroup
	assets *assets
	pages  *pages
	front  http.Handler

	forms openForms

	examining sync.Mutex // held while deps.Doctor runs
}

// New validates cfg and deps, and parses the templates. It starts nothing.
func New(cfg Config, deps Deps) (*Dashboard, error) {
	if err := deps.validate(); err != nil {
		return nil, err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	d := &Dashboard{cfg: cfg, deps: deps, routes: make(map[string]methods), forms: openForms{of: map[string]int{}},
		mux: mux.NewRouter().SkipClean(true).UseEncodedPath()}
	var err error
	if d.hosts, err = newHosts(&cfg); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	for _, x := range routes() {
		d.addRoute(x)
	}
	d.menu = menu()
	if d.assets, err = allAssets(); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	parsed, err := parsedPages()
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	d.pages = &pages{functions: d.functions(), parsed: parsed, cloned: map[string]*template.Template{}}
	d.front = (&web.Front{Log: deps.Log, Proxies: cfg.TrustedProxies, BaseURL: cfg.BaseURL, BodyTimeout: bodyTimeout,
		Respond: d.errorPage}).Wrap(d.serve)
	return d, nil
}

// bodyTimeout is how long a form may take to arrive.
const bodyTimeout = 10 * time.Second

// Handler serves every path of the dashboard; see [Serves].
func (d *Dashboard) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Dashboard: d, status: http.StatusOK}
		d.front.ServeHTTP(w, r.WithContext(withVisit(r.Context(), v)))
	})
}

// validate reports a dependency that is missing.
func (d Deps) validate() error {
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Log" && name != "Now" && v.Field(i).IsNil() {
			return errors.New("dashboard: dependency " + name + " is missing")
		}
	}
	return nil
}
