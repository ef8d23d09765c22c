// Package ui is what every page of the dashboard needs: the checks before a page, sessions, calls of the API, forms,
// lists, templates, charts and CSV. It knows no page: those come as areas, see [Area].
//
// Begin reading at Dashboard.serve in route.go.
package ui

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/gorilla/mux"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/pkg/web"
)

// Config holds the settings of the dashboard.
type Config struct {
	// BaseURL is the public address of the service, without a trailing slash.
	BaseURL string
	// BaseURLIsDefault is true when BaseURL is not configured: it is the address of the listener then.
	BaseURLIsDefault bool
	// Host is the only host name that the dashboard answers under; empty: every name in BaseURL and AllowedHosts.
	Host         string
	AllowedHosts []string
	// PortalHost is the only host name that the portal answers under; empty: those of the dashboard. PortalOrigins are
	// the origins of applications that may show it in a frame.
	PortalHost    string
	PortalOrigins []string
	// Listen is the address that the server listens on. It is accepted as a host; invalid = none.
	Listen netip.Addr
	// Dev accepts localhost, 127.0.0.1 and [::1].
	Dev            bool
	TrustedProxies []netip.Prefix
	Version        string // of the program
	Reference      string // path of the page about the API; empty: none
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
	portal *hosts // of the pages under PortalPath
	mux    *mux.Router
	routes map[string]methods // by path, which is also the name of the mux route
	pages  *pages
	front  http.Handler
	forms  openForms
	memory memory
}

// New returns a dashboard of the site. It starts nothing.
func New(cfg Config, deps Deps, of *Site) (*Dashboard, error) {
	if err := require.Set("dashboard", deps, "Log", "Now", "OIDC", "AgentActions", "Doctor"); err != nil {
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
	if d.hosts, err = newHosts(&cfg, cfg.Host, "/app"); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	name := cmp.Or(cfg.PortalHost, cfg.Host)
	if d.portal, err = newHosts(&cfg, name, PortalPath); err != nil {
		return nil, fmt.Errorf("portal: %w", err)
	}
	for _, a := range of.Areas {
		for _, x := range a.Routes {
			if d.routes[x.Path] == nil {
				d.routes[x.Path] = methods{}
				d.mux.Path(x.Path).Name(x.Path)
			}
			d.routes[x.Path][x.Method] = x
		}
	}
	d.pages = &pages{site: of, functions: functionsOf(d, of.Areas), opened: map[pageIn]*template.Template{}}
	d.front = (&web.Front{Log: deps.Log, Proxies: cfg.TrustedProxies, BaseURL: cfg.BaseURL, BodyTimeout: bodyTimeout,
		Respond: d.errorPage}).Wrap(d.serve)
	return d, nil
}

// bodyTimeout is how long a form may take to arrive.
const bodyTimeout = 10 * time.Second

// Handler serves every path of the dashboard; see [Serves].
func (d *Dashboard) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &Visit{Dashboard: d, Status: http.StatusOK, hosts: d.hosts}
		d.front.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	})
}

// Now is the time.
func (d *Dashboard) Now() time.Time { return d.Deps.Now() }

// Deps are the dependencies of the dashboard. Now and Log may be nil: time.Now and no log.
type Deps struct {
	Log          *slog.Logger
	Now          func() time.Time
	Account      func() string // id of the account
	API          Caller
	Control      Control
	SignInLimit  SignInLimit
	KeyUses      KeyUses
	AgentActions AgentActions // nil: no agent asks for anything
	OIDC         *oidc.Client // nil: no issuer signs people in
	// Doctor examines this node and its engines, for up to half a minute; nil: nothing does.
	Doctor func(ctx context.Context) ([]Check, error)
}

// Check is the result of one check.
type Check = nodeconfig.Check

// Caller calls a handler of /v1 in this process, after its authentication: all rules, limits and the audit apply to
// principal. The body of an error is the JSON error of the API. idempotencyKey may be empty.
type Caller interface {
	Call(ctx context.Context, principal *config.Key, method, path string, query url.Values, body []byte,
		idempotencyKey string) (status int, header http.Header, json []byte)
}

// SignInLimit limits wrong passwords per email address and client address, and per client address.
type SignInLimit interface {
	// Claim counts an attempt before its password is verified, and returns 0; or it counts nothing, and returns how long
	// the client must wait.
	Claim(ctx context.Context, email string, from netip.Addr) time.Duration
	// Release takes back an attempt: the password was right, or was not verified.
	Release(ctx context.Context, email string, from netip.Addr)
}

// Control is the configuration as far as pages use it, in memory: a config.Control, which documents the methods.
type Control interface {
	// What waits for a person, fast enough for the menu of every page.
	OutstandingFindings() int
	AwaitingApproval(account string) int

	// Endpoints as they are stored, without opening a secret. Their URLs hold what people who may only read must not see:
	// pages take names and states from here, and the rest from the API.
	Endpoints(account string, beforeSeq int64, limit int) (page []*config.Endpoint, more bool)
	Endpoint(id string) (*config.Endpoint, entity.Presence)

	SignIn(ctx context.Context, email, password string) (*config.User, error)
	RedeemLink(ctx context.Context, token string) (*config.User, error)
	// SignInIdentity returns the person of an identity that the issuer has confirmed. renews: in an open session.
	SignInIdentity(ctx context.Context, who config.Identity, renews bool) (*config.User, error)
	EndIdentity(ctx context.Context, who config.Identity) error
	SessionUser(userID, session string, epoch int) (*config.User, error)
	EndSession(ctx context.Context, userID, session string, until time.Time) error
	EndSessions(ctx context.Context, userID string) error
	SetPassword(ctx context.Context, userID, password string) (*config.User, error)
	ChangePassword(ctx context.Context, userID, current, password string) (*config.User, error)
	SessionKey(ctx context.Context) ([32]byte, error) // seals the cookies of sessions

	// Who may sign in.
	Users() []*config.User
	AddUser(ctx context.Context, email string, scope config.Scope) (token string, u *config.User, err error)
	ResetUser(ctx context.Context, userID string, rev int64) (token string, u *config.User, err error)
	SetUserScope(ctx context.Context, userID string, scope config.Scope, rev int64) (*config.User, error)
	RemoveUser(ctx context.Context, userID string) error

	// API keys.
	Keys(account string) []*config.Key
	CreateKey(ctx context.Context, n config.NewKey) (text string, k *config.Key, err error)
	RevokeKey(ctx context.Context, key string) error
	IsSet(k *config.Key) bool

	// The portal.
	OpenPortalLink(ctx context.Context, token string) (*config.PortalSession, error)
	PortalSession(id string) (*config.PortalSession, error)
	EndPortalSession(ctx context.Context, id string) error
	PortalSecret(ctx context.Context, s *config.PortalSession, endpoint, destination string) (string, error)
	Tenant(account, name string) *config.Tenant
}

// KeyUses returns the last uses of some API keys of an account, by the key's id.
type KeyUses interface {
	KeyUses(ctx context.Context, account string, keys []string) (map[string]audit.Use, error)
}

// AgentActions reads and decides on changes that agents ask for.
type AgentActions interface {
	// Action returns an action of an account; nil if there is none.
	Action(account, id string) *config.Action
	// Pending returns the actions of an account that wait for a person, newest first.
	Pending(account string) []*config.Action
	// Recent returns the newest settled actions of an account.
	Recent(account string) []*config.Action
	// Refusal returns why a pending action cannot be approved any more, as a clause; empty if it can be.
	Refusal(a *config.Action) string
	// Approve does what an action asks for, as the person. It returns config.ErrActionDecided after another decision.
	Approve(ctx context.Context, person *config.Key, a *config.Action) (*config.Action, error)
	Decline(ctx context.Context, person *config.Key, a *config.Action) (*config.Action, error)
}
