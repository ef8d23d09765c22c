// Package frame is what every page of the dashboard needs: the checks before a page, sessions, calls of the API, forms,
// lists, templates, charts and CSV. It knows no page: those come as areas, see [Area].
//
// Begin reading at Dashboard.serve in route.go.
package frame

import (
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
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
	*Site
	Config Config
	Deps   Deps
	hosts  *hosts
	mux    *mux.Router
	routes map[string]methods // by path, which is also the name of the mux route
	pages  *pages
	front  http.Handler
	forms  openForms
}

// New returns a dashboard of the site. It starts nothing.
func New(cfg Config, deps Deps, of *Site) (*Dashboard, error) {
	if err := deps.validate(); err != nil {
		return nil, err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	d := &Dashboard{Site: of, Config: cfg, Deps: deps, routes: make(map[string]methods),
		forms: openForms{of: map[string]int{}}, mux: mux.NewRouter().SkipClean(true).UseEncodedPath()}
	var err error
	if d.hosts, err = newHosts(&cfg); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	for _, a := range of.Areas {
		for _, x := range a.Routes {
			d.addRoute(x)
		}
	}
	d.pages = &pages{functions: functionsOf(d, of.Areas), parsed: of.parsed, cloned: map[string]*template.Template{}}
	d.front = (&web.Front{Log: deps.Log, Proxies: cfg.TrustedProxies, BaseURL: cfg.BaseURL, BodyTimeout: bodyTimeout,
		Respond: d.errorPage}).Wrap(d.serve)
	return d, nil
}

// bodyTimeout is how long a form may take to arrive.
const bodyTimeout = 10 * time.Second

// Handler serves every path of the dashboard; see [Serves].
func (d *Dashboard) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &Visit{Dashboard: d, Status: http.StatusOK}
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

// Now is the time.
func (d *Dashboard) Now() time.Time { return d.Deps.Now() }
