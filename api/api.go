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
	"log/slog"
	"maps"
	"net"
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
	"github.com/eventrelay/relay/api/feed"
	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/jobs"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	configjobs "github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/verify"
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
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	c := &frame.Core{
		MaxBody: cfg.MaxBody, RetentionDays: cfg.RetentionDays, Clock: deps.Now, IDs: deps.IDs,
		ConfigReader: deps.Config, Waiting: wait.NewRoom(frame.MaxWaitingRequests),
		EventEndpoint:   deps.Receipts.EventEndpoint,
		PreparationWait: cmp.Or(cfg.PreparationWait, frame.DefaultPreparationWait),
	}
	x, err := newAreas(&cfg, &deps, c)
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
		drain:  x.drain,
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
		Keys: deps.Config, Uses: deps.KeyUses, Refusals: deps.Refusals, Limits: deps.Limits, Tenants: tenantOperations,
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
	events   *events.Area
	jobs     *jobs.Area
	routes   []frame.Route
	parts    []wire.Part                    // of the document, by features
	tools    []sdk.Tool                     // of features
	public   map[string]frame.PublicHandler // by path
	pages    []frame.DrawPages
	draining context.Context // ends when pulls must end
	drain    context.CancelFunc
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

// newAreas builds the areas, each with only the dependencies it needs. The router tries their routes in this order, the
// busiest first.
func newAreas(cfg *Config, deps *Deps, c *frame.Core) (*areas, error) {
	scan, err := newScanners()
	if err != nil {
		return nil, err
	}
	x := &areas{public: map[string]frame.PublicHandler{}, jobs: jobs.New(&jobs.Deps{
		Core: c, Events: deps.Events, Erasures: deps.Erasures, Runs: deps.Runs, Selection: deps.Selection,
		Commands: deps.Commands, Keys: deps.Config, Reverify: deps.Reverify, Recoveries: deps.Config,
		Recovery: deps.Recovery, Log: deps.Log,
		RunTimeout: cmp.Or(cfg.RunProgressTimeout, configjobs.DefaultRunProgressTimeout),
	})}
	x.draining, x.drain = context.WithCancel(context.Background())
	x.events = events.New(&events.Deps{
		Core: c, Config: deps.Config, Events: deps.Events, Erasures: deps.Erasures, Accept: deps.Accept,
		Claims: deps.LimiterStore, TakeOver: cfg.SendTakeOver, Receipts: deps.Receipts, Feed: deps.Feed,
		KeepAlive: cfg.KeepAlive,
		Secrets:   scan.receipts, Explain: deps.Explain, Sample: deps.Sample,
	})
	ofAccount := account.New(&account.Deps{
		Core: c, Alerts: deps.Config, Keyring: deps.Keyring, Notifier: deps.Notifier,
		Egress: deps.Egress,
		Usage:  deps.Usage, Audit: deps.Audit, DashboardURL: cmp.Or(cfg.DashboardURL, cfg.BaseURL),
		AlertDomains: cfg.AlertDomains, Version: cfg.Version,
	})
	needs := []frame.AddNeeds{ofAccount.AddNeeds, x.jobs.AddNeeds}
	var ofFeatures []frame.Route
	var shown []frame.ShowEndpoint
	for _, area := range deps.Areas {
		a := area(&frame.AreaDeps{Core: c, Keyring: deps.Keyring, Events: deps.Events, Erasures: deps.Erasures,
			Limits: deps.Limits, Egress: deps.Egress, Leaks: scan.leaks, Receipts: scan.receipts, BaseURL: cfg.BaseURL,
			Portal: cfg.Portal, LimiterStore: deps.LimiterStore, AnswerLarge: x.events.AnswerLarge})
		x.tools = append(x.tools, a.Tools...)
		ofFeatures, x.parts = append(ofFeatures, a.Routes...), append(x.parts, a.Document)
		maps.Copy(x.public, a.Public)
		if a.Pages != nil {
			x.pages = append(x.pages, a.Pages)
		}
		if a.AddNeeds != nil {
			needs = append(needs, a.AddNeeds)
		}
		if a.ShowEndpoint != nil {
			shown = append(shown, a.ShowEndpoint)
		}
	}
	ofEndpoints := endpoints.Routes(&endpoints.Deps{
		Core: c, Config: deps.Config, Keyring: deps.Keyring, LimiterStore: deps.LimiterStore, Limits: deps.Limits,
		Egress: deps.Egress, Resolver: deps.Resolver, Events: deps.Events, Erasures: deps.Erasures,
		Traffic: deps.Traffic, Pulls: deps.Pulls, Draining: x.draining,
		Secrets: []*secrets.Scanner{scan.receipts, scan.leaks}, BaseURL: cfg.BaseURL,
		ValidateVerification: deps.ValidateVerification, Rows: x.events.Rows, Needs: needs, Shown: shown,
	})
	x.routes = slices.Concat(x.events.Routes(), ofEndpoints, x.jobs.Routes(), ofAccount.Routes(), ofFeatures)
	return x, nil
}

// Deps are the dependencies of the API. All but Areas, Refusals, Resolver, Metrics and Ready are required; the zero
// Egress allows public addresses only.
type Deps struct {
	Replays
	Log          *slog.Logger
	Config       Configuration
	Keyring      *seal.Keyring
	Events       frame.EventReader
	Recovery     jobs.RecoveryReader
	Accept       events.Accepter
	Feed         *feed.Feed // for GET …/stream
	Commands     jobs.Commander
	Receipts     events.Receipts
	Erasures     frame.Erasures
	Usage        account.Usage
	Traffic      endpoints.TrafficReader
	Pulls        endpoints.Pulls
	Areas        []func(*frame.AreaDeps) frame.Area // of features
	Limits       frame.Limits
	LimiterStore frame.LimiterStore
	Notifier     account.Notifier
	Audit        account.AuditLog
	KeyUses      frame.KeyUses
	Refusals     frame.Refusals // may be nil
	Egress       egress.Policy
	// Resolver resolves the hosts of saved destinations, to warn about internal addresses; nil turns the warnings
	// off.
	Resolver *net.Resolver
	IDs      *id.Generator
	Now      func() time.Time
	Metrics  prometheus.Registerer
	// Ready holds the checks of /readyz; nil: always ready.
	Ready *Readiness
	// ValidateVerification checks the signature settings of an endpoint, secrets in clear. It returns the invalid
	// member and what is wrong with it, or empty texts.
	ValidateVerification func(v config.Verification, secrets []string) (param, message string)
	// Reverify checks the signature of a rejected event again.
	Reverify jobs.Reverifier
	// Explain explains the signature of an event with the endpoint's current secrets, nil if the endpoint verifies none.
	// The explanation may contain the token of the ingest URL.
	Explain func(ep *config.Endpoint, e *event.Event) (*verify.Explanation, error)
	// Sample builds a test event as the provider would send it, signed if the endpoint has the provider's secret. An
	// empty kind selects the provider's most common type.
	Sample func(ep *config.Endpoint, provider, kind string, d id.ID) (*event.Event, error)
}

// validate returns the missing dependencies as one error.
func (d Deps) validate() error {
	var errs []error
	for name, present := range map[string]bool{
		"Selection": d.Selection != nil, "Runs": d.Runs != nil, "Answers": d.Answers != nil,
		"Log": d.Log != nil, "Config": d.Config != nil, "Keyring": d.Keyring != nil, "Events": d.Events != nil,
		"Recovery": d.Recovery != nil, "Accept": d.Accept != nil, "Feed": d.Feed != nil, "Commands": d.Commands != nil,
		"Receipts": d.Receipts != nil, "Erasures": d.Erasures != nil, "Usage": d.Usage != nil,
		"Traffic": d.Traffic != nil, "Pulls": d.Pulls != nil,
		"Limits": d.Limits != nil, "LimiterStore": d.LimiterStore != nil, "Notifier": d.Notifier != nil,
		"Audit": d.Audit != nil, "KeyUses": d.KeyUses != nil,
		"IDs": d.IDs != nil, "Now": d.Now != nil,
		"ValidateVerification": d.ValidateVerification != nil, "Reverify": d.Reverify != nil,
		"Explain": d.Explain != nil, "Sample": d.Sample != nil,
	} {
		if !present {
			errs = append(errs, fmt.Errorf("api dependency %s is missing", name))
		}
	}
	return errors.Join(errs...)
}

// Configuration is the configuration log as far as the API uses it.
type Configuration interface {
	frame.Keys
	endpoints.Endpoints
	endpoints.Tenants
	frame.ConfigReader
	account.AlertSettings
	jobs.Recoveries
	Account() *entity.Account // nil before there is one
	// Sync waits until this node has applied all records that are in the log now.
	Sync(ctx context.Context) error
	entity.Access // for config.Get, List, Create, Update and Delete
}

// Replays are the dependencies of replays and of the Idempotency-Key.
type Replays struct {
	Selection jobs.Selector
	Runs      jobs.Runs
	Answers   frame.Answers
}
