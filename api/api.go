// Package api serves the HTTP API under /v1, the health checks /healthz and /readyz, and the documentation.
//
// Requests carry an API key. Configuration is read from memory and changed through the configuration log. Events are
// read from the store; sent events, replays and receipts are written to Kafka. Handlers return errors; frame.ToWebError
// (route.go) turns each of them into the JSON error of the contract.
//
// Guarantees: every input is validated once, before it takes effect, and an error names its parameter. A write is
// answered with 2xx only after the log has stored it durably. A signing secret appears only in the response that
// creates it, and in repeats of that response; never in an error or a log line. router.ServeFor has the order in which
// errors are checked.
//
// Backpressure: when the log accepts no records, the store is unavailable or the configuration lease has expired,
// the answer is 503 with Retry-After. Repeats of a request that is still running, and replays of an endpoint that
// another replay is queueing, wait for at most 5 s and in a bounded number. Batches wait up to 5 s for a slot, large
// responses up to 2 s for memory.
//
// Run ends replay runs whose node died while it queued them. Begin reading at resources.routes (all routes), then
// router.serve (what happens to every request). API.Call is the way of the dashboard's pages.
package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/account"
	"github.com/eventrelay/relay/api/events"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/jobs"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// Config holds the settings of the API.
type Config struct {
	BaseURL        string // the public address, without a trailing slash
	DashboardURL   string // the address of the dashboard, for links to it; empty: BaseURL
	MaxBody        int64  // bytes of a request body
	RetentionDays  int    // days for which events can be read
	Version        string // version of the program, for GET /v1/me
	TrustedProxies []netip.Prefix
	AllowedHosts   []string               // host names that requests may use, besides the base URL's
	KeepAlive      time.Duration          // longest time without data in an event stream; 0 = 15 s
	AlertDomains   notify.Domains         // mail domains that alerts may be sent to
	Pages          map[string][]byte      // public HTML pages of other stages, by path
	Style          func() (string, error) // CSS of the reference; nil: none
	// Requests per second for one API key, on all nodes together; 0 = no limit.
	RateRead, RateWrite, RateSend int
	// ClaimLife is how long a call with an Idempotency-Key may run before its claim may be taken over; 0 =
	// frame.DefaultClaimLife. RunProgressTimeout is that of config.Config; 0 = config.DefaultRunProgressTimeout.
	ClaimLife, RunProgressTimeout time.Duration
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
}

// New validates cfg and deps and builds the API. It opens no connection and starts no goroutine.
func New(cfg Config, deps Deps) (*API, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	c := &frame.Core{
		MaxBody: cfg.MaxBody, RetentionDays: cfg.RetentionDays, Clock: deps.Now, IDs: deps.IDs,
		ConfigReader: deps.Config, Waiting: wait.NewRoom(frame.MaxWaitingRequests),
	}
	x, err := newResources(&cfg, &deps, c)
	if err != nil {
		return nil, err
	}
	a := &API{
		idempotent: &frame.IdempotentCalls{
			Core: c, Answers: deps.Answers, Keyring: deps.Keyring, Log: deps.Log,
			ClaimLife: cmp.Or(cfg.ClaimLife, frame.DefaultClaimLife),
		},
		events: x.events,
		jobs:   x.jobs,
	}
	a.front = &web.Front{Log: deps.Log, Proxies: cfg.TrustedProxies, BaseURL: cfg.BaseURL,
		Done: frame.NewMetrics(deps.Metrics).Done}
	routes := x.routes()
	deprecated, err := newDeprecationTable(deprecations, func() (*yaml.Node, error) { return joinParts(routes) })
	if err != nil {
		return nil, err
	}
	a.router = frame.NewRouter(frame.RouterConfig{
		Keys: deps.Config, Uses: deps.KeyUses, Refusals: deps.Refusals, Limits: deps.Limits,
		Rates: [...]int{cfg.RateRead, cfg.RateWrite, cfg.RateSend}, Hosts: web.HostsOf(cfg.BaseURL, cfg.AllowedHosts),
		Public: newPublic(&cfg, deps.Ready, deprecated).servePublic, Announce: deprecated.announce,
	}, routes, a.idempotent)
	a.handler = a.front.Wrap(a.router.Serve)
	return a, nil
}

// Drain ends all event streams, which would otherwise never finish. Call it when the process stops.
func (a *API) Drain() { a.events.Drain() }

// Handler serves /v1, /healthz, /readyz and the documentation, and answers every other path with 404.
func (a *API) Handler() http.Handler { return a.handler }

// Run marks replay runs as interrupted when their node died while it queued them. It returns when ctx ends.
func (a *API) Run(ctx context.Context) error { return a.jobs.Run(ctx) }

// resources holds one handler for each resource of /v1, each with only the dependencies it needs.
type resources struct {
	core         *frame.Core
	events       *events.Area
	previews     *previews
	jobs         *jobs.Area
	endpoints    *endpoints
	destinations *destinations
	account      *account.Area
	overviews    *overviews
	leaks        []frame.Route
}

// scanners find secrets in texts, with the rules of each use.
type scanners struct {
	receipts *secrets.Scanner
	leaks    *secrets.Scanner
}

// newScanners compiles the rules, which takes some milliseconds.
func newScanners() (s scanners, err error) {
	if s.receipts, err = secrets.New(secrets.ForReceipts); err != nil {
		return s, err
	}
	s.leaks, err = secrets.New(secrets.ForLeaks)
	return s, err
}

func newResources(cfg *Config, deps *Deps, c *frame.Core) (*resources, error) {
	scan, err := newScanners()
	if err != nil {
		return nil, err
	}
	x := &resources{
		core: c,
		endpoints: &endpoints{
			Core: c, config: deps.Config, keyring: deps.Keyring, limiterStore: deps.LimiterStore, egress: deps.Egress,
			alertSettings: deps.Config.AlertSettings, resolver: deps.Resolver, baseURL: cfg.BaseURL,
			validateVerification: deps.ValidateVerification,
			searching:            make(chan struct{}, maxSearches),
		},
		account: account.New(&account.Deps{
			Core: c, Alerts: deps.Config, Keyring: deps.Keyring, Notifier: deps.Notifier, Egress: deps.Egress,
			Usage: deps.Usage, Audit: deps.Audit, DashboardURL: cmp.Or(cfg.DashboardURL, cfg.BaseURL),
			AlertDomains: cfg.AlertDomains, Version: cfg.Version,
		}),
		jobs: jobs.New(&jobs.Deps{
			Core: c, Events: deps.Events, Erasures: deps.Erasures, Runs: deps.Runs, Selection: deps.Selection,
			Commands: deps.Commands, Keys: deps.Config, Reverify: deps.Reverify, Recoveries: deps.Config,
			Recovery: deps.Recovery, Log: deps.Log,
			RunTimeout: cmp.Or(cfg.RunProgressTimeout, config.DefaultRunProgressTimeout),
		}),
	}
	x.events, err = events.New(&events.Deps{
		Core: c, Config: deps.Config, Events: deps.Events, Erasures: deps.Erasures, Accept: deps.Accept,
		Claims: deps.LimiterStore, Receipts: deps.Receipts, Feed: deps.Feed, KeepAlive: cfg.KeepAlive,
		Secrets: scan.receipts, Explain: deps.Explain, Sample: deps.Sample,
	})
	x.previews = &previews{
		Core: c, events: deps.Events, erasures: deps.Erasures, limits: deps.Limits,
		secrets: []*secrets.Scanner{scan.receipts, scan.leaks}, turns: frame.NewTurns(maxPreviews, previewWait),
	}
	x.destinations = &destinations{Core: c, endpoints: x.endpoints, keyring: deps.Keyring}
	needs := []addNeeds{x.account.AddNeeds, x.jobs.AddNeeds}
	var ofLeaks []addNeeds
	x.leaks, ofLeaks = newLeaks(cfg, deps, c, scan.leaks)
	x.overviews = newOverviews(c, deps, append(needs, ofLeaks...), x.events.Rows)
	return x, err
}

// routes is the table of /v1. The router tries the paths in this order, the busiest first.
func (x *resources) routes() []frame.Route {
	return slices.Concat(x.events.Routes(), x.endpointRoutes(), x.operationRoutes(),
		x.jobs.Routes(), x.account.Routes(), x.leaks)
}

func (x *resources) endpointRoutes() []frame.Route {
	const one = "/v1/endpoints/{endpoint}"
	const oneDestination = one + "/destinations/{destination}"
	endpoint := frame.Finds(x.core.EndpointInPath)
	destination := func(r *http.Request, key *config.Key) error {
		_, _, err := x.core.DestinationInPath(r, key)
		return err
	}
	return []frame.Route{
		{Path: "/v1/endpoints", Methods: frame.Methods{"GET": x.endpoints.listEndpoints, "POST": x.endpoints.createEndpoint},
			Resumable: true},
		{Path: "/v1/endpoints/validate", Methods: frame.Methods{"POST": x.endpoints.validateEndpoint}, Computes: true},
		{Path: one + "/validate", Methods: frame.Methods{"POST": x.endpoints.validateChange}, Computes: true},
		{Path: one, Methods: frame.Methods{"GET": x.endpoints.readEndpoint, "PATCH": x.endpoints.updateEndpoint,
			"DELETE": x.endpoints.deleteEndpoint}},
		// the stored token or secret names the claim that created it
		{Path: one + "/rotate-token", Methods: frame.Methods{"POST": x.endpoints.rotateToken}, InPath: endpoint,
			Resumable: true},
		{Path: one + "/transformation/preview", Methods: frame.Methods{"POST": x.previews.previewTransformation},
			Computes: true, Readable: true},
		{Path: one + "/transformation/versions", Methods: frame.Methods{"GET": x.endpoints.listTransformationVersions}},
		{Path: one + "/destinations", Methods: frame.Methods{"POST": x.destinations.createDestination},
			InPath: endpoint, Resumable: true},
		{Path: oneDestination,
			Methods: frame.Methods{"PATCH": x.destinations.updateDestination, "DELETE": x.destinations.deleteDestination}},
		{Path: oneDestination + "/rotate_secret", Methods: frame.Methods{"POST": x.destinations.rotateSecret},
			InPath: destination, Resumable: true},
		// the default moment is the time of the claim
		{Path: oneDestination + "/purge", Methods: frame.Methods{"POST": x.destinations.purgeDestination},
			InPath: destination, BodySelects: true, Resumable: true},
		{Path: one + "/traffic", Methods: frame.Methods{"GET": x.overviews.readTraffic}},
	}
}

func (x *resources) operationRoutes() []frame.Route {
	return []frame.Route{{Path: "/v1/overview", Methods: frame.Methods{"GET": x.overviews.readOverview}}}
}
