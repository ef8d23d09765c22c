// Package api serves the HTTP API under /v1, the health checks /healthz and /readyz, and the documentation.
//
// It connects the areas of the API with what they need, and has the documents and readiness. Each area is a package
// that returns its routes: events, endpoints, jobs (replays and recovery jobs), account and leaks. Package frame is
// what they have in common; areas know the frame and not each other. Package wire has their JSON.
//
// Requests carry an API key. Configuration is read from memory and changed through the configuration log. Events are
// read from the store; sent events, replays and receipts are written to Kafka. Handlers return errors; frame.ToWebError
// turns each of them into the JSON error of the contract.
//
// Guarantees: every input is validated once, before it takes effect, and an error names its parameter. A write is
// answered with 2xx only after the log has stored it durably. A signing secret appears only in the response that
// creates it, and in repeats of that response; never in an error or a log line. frame.Router.ServeFor has the order in
// which errors are checked.
//
// Backpressure: when the log accepts no records, the store is unavailable or the configuration lease has expired,
// the answer is 503 with Retry-After. Repeats of a request that is still running, and replays of an endpoint that
// another replay is queueing, wait for at most 5 s and in a bounded number. Batches wait up to 5 s for a slot, large
// responses up to 2 s for memory.
//
// Run ends replay runs whose node died while it queued them. Begin reading at newAreas, then at
// frame.Router.Serve (what happens to every request). API.Call is the way of the dashboard's pages.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/account"
	"github.com/eventrelay/relay/api/endpoints"
	"github.com/eventrelay/relay/api/events"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/jobs"
	"github.com/eventrelay/relay/api/wire"
	configjobs "github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/sdk"
)

// Portal says where the portal is and which origins may lead to it.
type Portal = frame.Portal

// Config holds the settings of the API.
type Config struct {
	BaseURL        string // the public address, without a trailing slash
	Portal         Portal
	DashboardURL   string // the address of the dashboard, for links to it; empty: BaseURL
	MaxBody        int64  // bytes of a request body
	RetentionDays  int    // days for which events can be read
	Version        string // version of the program, for GET /v1/me
	TrustedProxies []netip.Prefix
	AllowedHosts   []string       // host names that requests may use, besides the base URL's
	KeepAlive      time.Duration  // longest time without data in an event stream; 0 = 15 s
	AlertDomains   notify.Domains // mail domains that alerts may be sent to
	// How long the answer to a new job waits for the job to become ready; 0 = 2 s.
	PreparationWait time.Duration
	// Requests per second for one API key, on all nodes together; 0 = no limit.
	RateRead, RateWrite, RateSend int
	// ClaimLife is how long a call with an Idempotency-Key may run before its claim may be taken over; 0 =
	// frame.DefaultClaimLife. RunProgressTimeout is that of config.Config; 0 = config.DefaultRunProgressTimeout.
	ClaimLife, RunProgressTimeout time.Duration
	// SendTakeOver is the same for the claim of a send; 0 = claim.TakeOverAfter.
	SendTakeOver time.Duration
}

// Validate returns all invalid settings as one error.
func (c Config) Validate() error {
	var errs []error
	if !strings.HasPrefix(c.BaseURL, "http://") && !strings.HasPrefix(c.BaseURL, "https://") ||
		strings.HasSuffix(c.BaseURL, "/") {
		errs = append(errs, errors.New("api base URL: want http(s)://host without a trailing slash"))
	}
	if c.MaxBody <= 0 {
		errs = append(errs, errors.New("api max body: must be positive"))
	}
	if min(c.RateRead, c.RateWrite, c.RateSend) < 0 {
		errs = append(errs, errors.New("api rates: must not be negative"))
	}
	if c.RetentionDays <= 0 {
		errs = append(errs, errors.New("api retention: must be at least a day"))
	}
	return errors.Join(errs...)
}

// API serves /v1.
type API struct {
	front      *web.Front
	router     *frame.Router
	handler    http.Handler
	idempotent *frame.IdempotentCalls
	events     *events.Area
	jobs       *jobs.Area
	public     *public
	drain      context.CancelFunc
}

// New validates cfg and deps and builds the API. It opens no connection and starts no goroutine.
func New(cfg Config, deps Deps) (*API, error) {
	if err := errors.Join(cfg.Validate(),
		require.Set("api", deps, "Areas", "Egress", "Refusals", "Resolver", "Metrics", "Ready")); err != nil {
		return nil, err
	}
	c := &frame.Core{
		Services: deps.Services, BaseURL: cfg.BaseURL, Version: cfg.Version, Portal: cfg.Portal, MaxBody: cfg.MaxBody,
		RetentionDays: cfg.RetentionDays, Clock: deps.Now, Waiting: wait.NewRoom(frame.MaxWaitingRequests),
		EventEndpoint:   deps.Receipts.EventEndpoint,
		PreparationWait: cmp.Or(cfg.PreparationWait, frame.DefaultPreparationWait),
	}
	x, err := newAreas(&cfg, &deps, c)
	if err != nil {
		return nil, err
	}
	a := &API{
		idempotent: &frame.IdempotentCalls{Core: c, ClaimLife: cmp.Or(cfg.ClaimLife, frame.DefaultClaimLife)},
		events:     x.events,
		jobs:       x.jobs,
		drain:      x.drain,
	}
	a.front = &web.Front{Log: deps.Log, Proxies: cfg.TrustedProxies, BaseURL: cfg.BaseURL,
		Done: frame.NewMetrics(deps.Metrics).Done}
	deprecated, err := newDeprecationTable(deprecations, func() (*yaml.Node, error) {
		return joinParts(x.routes, x.parts)
	})
	if err != nil {
		return nil, err
	}
	a.public = newPublic(&cfg, &deps, deprecated, x)
	a.router = frame.NewRouter(frame.RouterConfig{
		Uses: deps.KeyUses, Refusals: deps.Refusals, Tenants: tenantOperations, PortalOperations: portalOperations,
		Rates: [...]int{cfg.RateRead, cfg.RateWrite, cfg.RateSend}, Hosts: web.HostsOf(cfg.BaseURL, cfg.AllowedHosts),
		Public: a.public.servePublic, Announce: deprecated.announce,
	}, x.routes, a.idempotent)
	a.handler = a.front.Wrap(a.router.Serve)
	return a, nil
}

// Drain ends all event streams and pulls, which would otherwise not finish in time. Call it when the process stops.
func (a *API) Drain() {
	a.drain()
	a.events.Drain()
}

// Handler serves /v1, /healthz, /readyz and the documentation, and answers every other path with 404.
func (a *API) Handler() http.Handler { return a.handler }

// Run builds the public documents, and marks replay runs as interrupted when their node died while it queued them. It
// returns when ctx ends, or if a document has a fault.
func (a *API) Run(ctx context.Context) error {
	if _, err := a.public.pages(); err != nil {
		return fmt.Errorf("build the public documents: %w", err)
	}
	return a.jobs.Run(ctx)
}

// areas are the areas that New needs itself, and the routes of all.
type areas struct {
	events *events.Area
	jobs   *jobs.Area
	routes []frame.Route
	parts  []wire.Part                    // of the document, by features
	tools  []sdk.Tool                     // of features
	public map[string]frame.PublicHandler // by path
	pages  []frame.DrawPages
	drain  context.CancelFunc
}

// newAreas builds the areas. Compiling the rules for secrets takes some milliseconds. The router tries the routes in
// this order, the busiest first.
func newAreas(cfg *Config, deps *Deps, c *frame.Core) (x *areas, err error) {
	if c.ReceiptScanner, err = secrets.New(secrets.ForReceipts); err != nil {
		return nil, err
	}
	if c.LeakScanner, err = secrets.New(secrets.ForLeaks); err != nil {
		return nil, err
	}
	x = &areas{public: map[string]frame.PublicHandler{},
		events: events.New(c, deps.EventsDeps, cfg.KeepAlive, cfg.SendTakeOver),
		jobs:   jobs.New(c, deps.JobsDeps, cmp.Or(cfg.RunProgressTimeout, configjobs.DefaultRunProgressTimeout))}
	c.AnswerLarge = x.events.AnswerLarge
	of := endpoints.Others{Rows: x.events.Rows}
	of.Draining, x.drain = context.WithCancel(context.Background())
	ofAccount := account.New(c, account.Config{DashboardURL: cmp.Or(cfg.DashboardURL, cfg.BaseURL),
		AlertDomains: cfg.AlertDomains, Version: cfg.Version}, deps.AccountDeps)
	of.Needs = []frame.AddNeeds{x.jobs.AddNeeds}
	var ofFeatures []frame.Route
	for _, area := range deps.Areas {
		a := area(c)
		x.tools = append(x.tools, a.Tools...)
		ofFeatures, x.parts = append(ofFeatures, a.Routes...), append(x.parts, a.Document)
		maps.Copy(x.public, a.Public)
		if a.Pages != nil {
			x.pages = append(x.pages, a.Pages)
		}
		if a.AddNeeds != nil {
			of.Needs = append(of.Needs, a.AddNeeds)
		}
		if a.ShowEndpoint != nil {
			of.Shown = append(of.Shown, a.ShowEndpoint)
		}
	}
	of.Needs = append(of.Needs, ofAccount.AddNeeds) // features may leave out alerts
	ofEndpoints := endpoints.Routes(c, deps.EndpointsDeps, of)
	x.routes = slices.Concat(x.events.Routes(), ofEndpoints, x.jobs.Routes(), ofAccount.Routes(), ofFeatures)
	return x, nil
}

type (
	// EventsDeps are those of the events.
	EventsDeps = events.Deps
	// JobsDeps are those of replays and recovery jobs.
	JobsDeps = jobs.Deps
	// AccountDeps are those of the account.
	AccountDeps = account.Deps
	// EndpointsDeps are those of endpoints.
	EndpointsDeps = endpoints.Deps
)

// Deps are the dependencies of the API. All but Areas, Refusals, Resolver, Metrics and Ready are required; the zero
// Egress allows public addresses only.
type Deps struct {
	frame.Services
	EventsDeps
	JobsDeps
	AccountDeps
	EndpointsDeps
	Areas    []func(*frame.Core) frame.Area // of features
	KeyUses  frame.KeyUses
	Refusals frame.Refusals // may be nil
	Now      func() time.Time
	Metrics  prometheus.Registerer
	Ready    *Readiness // the checks of /readyz; nil: always ready
}
