// Package api serves the HTTP API under /v1, the health checks /healthz and /readyz, and the documentation.
//
// Requests carry an API key. Configuration is read from memory and changed through the configuration log. Events are
// read from the store; sent events, replays and receipts are written to Kafka. Handlers return errors; toWebError
// (route.go) turns each of them into the JSON error of the contract.
//
// Guarantees: every input is validated once, before it takes effect, and an error names its parameter. A write is
// answered with 2xx only after the log has stored it durably. A signing secret appears only in the response that
// creates it, and in repeats of that response; never in an error or a log line. router.serveFor has the order in which
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
	// defaultClaimLife. RunProgressTimeout is that of config.Config; 0 = config.DefaultRunProgressTimeout.
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
	router     *router
	handler    http.Handler
	idempotent *idempotentCalls
	streams    *streams
	watch      runWatch
}

// New validates cfg and deps and builds the API. It opens no connection and starts no goroutine.
func New(cfg Config, deps Deps) (*API, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	c := &core{
		maxBody: cfg.MaxBody, retentionDays: cfg.RetentionDays, clock: deps.Now, ids: deps.IDs,
		configReader: deps.Config, waiting: wait.NewRoom(maxWaitingRequests),
	}
	x, err := newResources(&cfg, &deps, c)
	if err != nil {
		return nil, err
	}
	a := &API{
		idempotent: &idempotentCalls{
			core: c, answers: deps.Answers, keyring: deps.Keyring, log: deps.Log,
			claimLife: cmp.Or(cfg.ClaimLife, defaultClaimLife),
		},
		streams: x.streams,
		watch: runWatch{
			core: c, runs: deps.Runs, selection: deps.Selection, log: deps.Log,
			timeout: cmp.Or(cfg.RunProgressTimeout, config.DefaultRunProgressTimeout),
		},
	}
	a.front = &web.Front{Log: deps.Log, Proxies: cfg.TrustedProxies, BaseURL: cfg.BaseURL,
		Done: newMetrics(deps.Metrics).done}
	routes := x.routes()
	deprecated, err := newDeprecationTable(deprecations, func() (*yaml.Node, error) { return joinParts(routes) })
	if err != nil {
		return nil, err
	}
	a.router = newRouter(routerConfig{
		keys: deps.Config, uses: deps.KeyUses, refusals: deps.Refusals, limits: deps.Limits,
		rates: [...]int{cfg.RateRead, cfg.RateWrite, cfg.RateSend}, hosts: web.HostsOf(cfg.BaseURL, cfg.AllowedHosts),
		public: newPublic(&cfg, deps.Ready, deprecated).servePublic, announce: deprecated.announce,
	}, routes, a.idempotent)
	a.handler = a.front.Wrap(a.router.serve)
	return a, nil
}

// Drain ends all event streams, which would otherwise never finish. Call it when the process stops.
func (a *API) Drain() { a.streams.open.drain() }

// Handler serves /v1, /healthz, /readyz and the documentation, and answers every other path with 404.
func (a *API) Handler() http.Handler { return a.handler }

// Run marks replay runs as interrupted when their node died while it queued them. It returns when ctx ends.
func (a *API) Run(ctx context.Context) error { return a.watch.run(ctx) }

// resources holds one handler for each resource of /v1, each with only the dependencies it needs.
type resources struct {
	core         *core
	sender       *sender
	events       *events
	signatures   *signatures
	previews     *previews
	payloads     *payloads
	receipts     *receipts
	replays      *replays
	runs         *runs
	endpoints    *endpoints
	destinations *destinations
	alerts       *alerts
	streams      *streams
	recoveries   *recoveries
	usage        *usage
	keys         *keyInfo
	audit        *auditLog
	fixtures     *fixtures
	overviews    *overviews
	leaks        []route
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

func newResources(cfg *Config, deps *Deps, c *core) (*resources, error) {
	scan, err := newScanners()
	if err != nil {
		return nil, err
	}
	x := &resources{
		core:   c,
		sender: newSender(c, deps),
		events: &events{
			core: c, events: deps.Events, erasures: deps.Erasures, answers: newAnswerLimiter(),
			failures: newTransformFailures(c),
		},
		payloads: &payloads{core: c, receipts: deps.Receipts, erasures: deps.Erasures},
		receipts: &receipts{core: c, receipts: deps.Receipts, secrets: scan.receipts},
		runs:     &runs{core: c, runs: deps.Runs, selection: deps.Selection},
		endpoints: &endpoints{
			core: c, config: deps.Config, keyring: deps.Keyring, limiterStore: deps.LimiterStore, egress: deps.Egress,
			alertSettings: deps.Config.AlertSettings, resolver: deps.Resolver, baseURL: cfg.BaseURL,
			validateVerification: deps.ValidateVerification,
			searching:            make(chan struct{}, maxSearches),
		},
		alerts: &alerts{
			core: c, config: deps.Config, keyring: deps.Keyring, notifier: deps.Notifier, egress: deps.Egress,
			dashboardURL: cmp.Or(cfg.DashboardURL, cfg.BaseURL), domains: cfg.AlertDomains,
		},
		streams: &streams{
			core: c, feed: deps.Feed, keys: deps.Config, keepAlive: cfg.KeepAlive,
			open: openStreams{draining: make(chan struct{}), count: make(map[string]int)},
		},
		recoveries: &recoveries{core: c, config: deps.Config, recovery: deps.Recovery},
		usage:      newUsage(c, deps.Usage),
		keys:       &keyInfo{cfg.Version},
		audit:      &auditLog{core: c, audit: deps.Audit},
	}
	x.signatures = &signatures{events: x.events, explain: deps.Explain, turns: newTurns(maxExplanations, explanationWait)}
	x.previews = &previews{
		events: x.events, limits: deps.Limits, secrets: []*secrets.Scanner{scan.receipts, scan.leaks},
		turns: newTurns(maxPreviews, previewWait),
	}
	x.destinations = &destinations{core: c, endpoints: x.endpoints, keyring: deps.Keyring}
	x.replays = &replays{
		core: c, planner: &planner{core: c, selection: deps.Selection, reverify: deps.Reverify}, events: x.events,
		erasures: deps.Erasures, runs: deps.Runs, selection: deps.Selection, commands: deps.Commands, keys: deps.Config,
		reverify: deps.Reverify,
	}
	var findings addFindings
	x.leaks, findings = newLeaks(cfg, deps, c, scan.leaks)
	x.overviews = newOverviews(c, deps, findings, x.events)
	x.fixtures, err = newFixtures(x.events, deps)
	return x, err
}

// routes is the table of /v1. The router tries the paths in this order, the busiest first.
func (x *resources) routes() []route {
	return slices.Concat(x.eventRoutes(), x.fixtureRoutes(), x.endpointRoutes(), x.operationRoutes(), x.leaks)
}

func (x *resources) eventRoutes() []route {
	event := func(r *http.Request, _ *config.Key) error {
		_, err := x.core.eventInPath(r)
		return err
	}
	return []route{
		{path: sendPath, methods: methods{"POST": x.sender.sendEvent}, sends: true},
		{path: sendPath + "/batch", methods: methods{"POST": x.sender.sendBatch}, sends: true},
		{path: "/v1/events", methods: methods{"GET": x.events.listEvents}},
		{path: "/v1/events/{event}", methods: methods{"GET": x.events.readEvent}},
		{path: "/v1/events/{event}/attempts", methods: methods{"GET": x.events.listAttempts}},
		{path: "/v1/events/{event}/signature", methods: methods{"GET": x.signatures.explainSignature}},
		{path: "/v1/events/{event}/payload", methods: methods{"DELETE": x.payloads.erasePayload}},
		// the id of its run derives from the claim, and the run is written first
		{path: "/v1/events/{event}/replay", methods: methods{"POST": x.replays.replayEvent},
			inPath: event, bodySelects: true, resumable: true},
		// the newest receipt wins, and processed is final
		{path: "/v1/events/{event}/processing", methods: methods{"POST": x.receipts.receiveProcessing},
			inPath: event, resumable: true, keyOptional: true},
		{path: "/v1/replays", methods: methods{"GET": x.runs.listRuns, "POST": x.replays.replayEvents},
			bodySelects: true, resumable: true},
		{path: "/v1/replays/{run}", methods: methods{"GET": x.runs.readRun, "POST": x.runs.actOnRun},
			inPath: finds(x.runs.inPath), bodySelects: true, resumable: true},
	}
}

func (x *resources) fixtureRoutes() []route {
	// before /v1/fixtures/{fixture}, which it matches
	export := route{path: "/v1/fixtures/export", methods: methods{"GET": x.fixtures.exportFixtures}}
	all := append([]route{export}, x.fixtures.routes()...)
	all[1].recheck = x.fixtures.recheckAnswer
	return all
}

func (x *resources) endpointRoutes() []route {
	const one = "/v1/endpoints/{endpoint}"
	const oneDestination = one + "/destinations/{destination}"
	endpoint := finds(x.core.endpointInPath)
	destination := func(r *http.Request, key *config.Key) error {
		_, _, err := x.core.destinationInPath(r, key)
		return err
	}
	return []route{
		{path: "/v1/endpoints", methods: methods{"GET": x.endpoints.listEndpoints, "POST": x.endpoints.createEndpoint},
			resumable: true},
		{path: "/v1/endpoints/validate", methods: methods{"POST": x.endpoints.validateEndpoint}, computes: true},
		{path: one + "/validate", methods: methods{"POST": x.endpoints.validateChange}, computes: true},
		{path: one, methods: methods{"GET": x.endpoints.readEndpoint, "PATCH": x.endpoints.updateEndpoint,
			"DELETE": x.endpoints.deleteEndpoint}},
		// the stored token or secret names the claim that created it
		{path: one + "/rotate-token", methods: methods{"POST": x.endpoints.rotateToken}, inPath: endpoint, resumable: true},
		{path: one + "/transformation/preview", methods: methods{"POST": x.previews.previewTransformation},
			computes: true, readable: true},
		{path: one + "/transformation/versions", methods: methods{"GET": x.endpoints.listTransformationVersions}},
		{path: one + "/destinations", methods: methods{"POST": x.destinations.createDestination},
			inPath: endpoint, resumable: true},
		{path: oneDestination,
			methods: methods{"PATCH": x.destinations.updateDestination, "DELETE": x.destinations.deleteDestination}},
		{path: oneDestination + "/rotate_secret", methods: methods{"POST": x.destinations.rotateSecret},
			inPath: destination, resumable: true},
		// the default moment is the time of the claim
		{path: oneDestination + "/purge", methods: methods{"POST": x.destinations.purgeDestination},
			inPath: destination, bodySelects: true, resumable: true},
		{path: one + "/test", methods: methods{"POST": x.sender.testEndpoint}, inPath: endpoint},
		{path: one + "/stream", methods: methods{"GET": x.streams.streamEvents}, endless: true},
		{path: one + "/traffic", methods: methods{"GET": x.overviews.readTraffic}},
	}
}

func (x *resources) operationRoutes() []route {
	return []route{
		{path: "/v1/alerts", methods: methods{"GET": x.alerts.readAlerts, "PATCH": x.alerts.updateAlerts}},
		{path: "/v1/alerts/history", methods: methods{"GET": x.alerts.listAlerts}},
		{path: "/v1/alerts/test", methods: methods{"POST": x.alerts.testAlerts}},
		{path: "/v1/recoveries", methods: methods{"GET": x.recoveries.listRecoveries, "POST": x.recoveries.createRecovery},
			bodySelects: true, resumable: true},
		// an action that is in effect already changes nothing
		{path: "/v1/recoveries/{recovery}", methods: methods{"GET": x.recoveries.readRecovery,
			"POST": x.recoveries.actOnRecovery},
			inPath: finds(x.recoveries.recoveryInPath), bodySelects: true, resumable: true},
		{path: "/v1/recoveries/{recovery}/items", methods: methods{"GET": x.recoveries.listRecoveryItems}},
		{path: "/v1/overview", methods: methods{"GET": x.overviews.readOverview}},
		{path: "/v1/usage", methods: methods{"GET": x.usage.readUsage}},
		{path: "/v1/usage/daily", methods: methods{"GET": x.usage.readUsageDays}},
		{path: "/v1/me", methods: methods{"GET": x.keys.me}},
		{path: "/v1/audit", methods: methods{"GET": x.audit.listAudit}},
	}
}
