// Package api serves the HTTP API under /v1, and the answers to whoever watches the process: /healthz
// and /readyz.
//
// In flow requests with an API key. Reads of the configuration are answered from memory, reads of events
// by the store; changes go through the configuration log, events and replays through the topics events
// and commands. Out flow JSON answers in the shapes of the contract, errors included: handlers return
// errors, and one function decides what each of them becomes.
//
// Guaranteed: every input is judged once, at the edge, and a fault names its parameter; nothing is
// answered 2xx before the log has it durably; signing secrets are in the answer that makes them and in no
// other, in no error and in no log line. The order of refusals is 401, 429, 403, 404, 400.
//
// Backpressure: the log that does not take an event, a store that is away and a lease that ran out are
// answered 503 with Retry-After. Nothing is queued here but, for 5 s and within a bound, repeats of a request that
// is running and replays of one endpoint. Run watches over replay runs whose node has died.
package api

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// Config of the stage.
type Config struct {
	BaseURL        string // the public address, without a trailing slash
	MaxBody        int64  // bytes of a sent event, and of any other body
	RetentionDays  int    // how long events can be read
	Version        string // of the program, for GET /v1/me
	TrustedProxies []netip.Prefix
	AllowedHosts   []string       // host names under which it answers besides the base URL's
	KeepAlive      time.Duration  // the longest silence in an event stream; 0 = 15 s
	AlertDomains   notify.Domains // that alert mails may go to
	// Requests a second and key, on all nodes together; 0 = no limit.
	RateRead, RateWrite, RateSend int
}

// Validate reports every fault at once.
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
	handler    http.Handler
	idempotent *idempotentCalls
	streams    *streams
	watch      runWatch
}

// New returns the stage. It dials nothing and starts nothing.
func New(cfg Config, deps Deps) (*API, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	scanner, err := secrets.New()
	if err != nil {
		return nil, err
	}
	c := &core{
		maxBody: cfg.MaxBody, retentionDays: cfg.RetentionDays, clock: deps.Now, ids: deps.IDs, config: deps.Config,
	}
	x := newResources(&cfg, &deps, c, scanner)
	a := &API{
		idempotent: &idempotentCalls{core: c, answers: deps.Answers, keyring: deps.Keyring, log: deps.Log},
		streams:    x.streams,
		watch:      runWatch{core: c, runs: deps.Runs, selection: deps.Selection, log: deps.Log},
	}
	front := &web.Front{Log: deps.Log, Proxies: cfg.TrustedProxies, BaseURL: cfg.BaseURL,
		Done: newMetrics(deps.Metrics).done}
	a.handler = front.Wrap(newRouter(&cfg, &deps, x.routes(), a.idempotent).serve)
	return a, nil
}

// Drain ends the event streams: requests that would not end by themselves. For a stop.
func (a *API) Drain() { a.streams.open.drain() }

// Handler serves /v1, /healthz, /readyz and the documentation, and answers 404 to everything else.
func (a *API) Handler() http.Handler { return a.handler }

// Run ends the runs whose node has died while it queued them, until ctx ends.
func (a *API) Run(ctx context.Context) error { return a.watch.run(ctx) }

// resources serve the routes of /v1, each with what it works with and nothing more.
type resources struct {
	sender       *sender
	events       *events
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
}

func newResources(cfg *Config, deps *Deps, c *core, scanner *secrets.Scanner) *resources {
	x := &resources{
		sender:   newSender(c, deps),
		events:   &events{core: c, events: deps.Events, erasures: deps.Erasures, answers: newAnswerLimiter()},
		payloads: &payloads{core: c, receipts: deps.Receipts, erasures: deps.Erasures},
		receipts: &receipts{core: c, receipts: deps.Receipts, secrets: scanner},
		runs:     &runs{runs: deps.Runs, selection: deps.Selection},
		endpoints: &endpoints{
			core: c, config: deps.Config, keyring: deps.Keyring, limiterStore: deps.LimiterStore, egress: deps.Egress,
			resolver: deps.Resolver, validateVerification: deps.ValidateVerification, baseURL: cfg.BaseURL,
		},
		alerts: &alerts{
			core: c, config: deps.Config, keyring: deps.Keyring, notifier: deps.Notifier, egress: deps.Egress,
			baseURL: cfg.BaseURL, domains: cfg.AlertDomains,
		},
		streams: &streams{
			core: c, feed: deps.Feed, keys: deps.Config, keepAlive: cfg.KeepAlive,
			open: openStreams{draining: make(chan struct{}), count: make(map[string]int)},
		},
		recoveries: &recoveries{core: c, config: deps.Config, recovery: deps.Recovery},
		usage:      &usage{deps.Usage},
		keys:       &keyInfo{cfg.Version},
		audit:      &auditLog{core: c, audit: deps.Audit},
	}
	x.destinations = &destinations{core: c, endpoints: x.endpoints, keyring: deps.Keyring}
	x.replays = &replays{
		core: c, planner: &planner{core: c, selection: deps.Selection, reverify: deps.Reverify}, events: x.events,
		erasures: deps.Erasures, runs: deps.Runs, selection: deps.Selection, commands: deps.Commands, keys: deps.Config,
		reverify: deps.Reverify,
	}
	return x
}

// routes is the table of /v1. Paths are tried in this order: the one that takes the load stands first.
func (x *resources) routes() []route {
	return []route{
		{sendPath, methods{"POST": x.sender.sendEvent}},
		{batchPath, methods{"POST": x.sender.sendBatch}},
		{"/v1/events", methods{"GET": x.events.listEvents}},
		{"/v1/events/{event}", methods{"GET": x.events.readEvent}},
		{"/v1/events/{event}/attempts", methods{"GET": x.events.listAttempts}},
		{"/v1/events/{event}/payload", methods{"DELETE": x.payloads.erasePayload}},
		{"/v1/events/{event}/replay", methods{"POST": x.replays.replayEvent}},
		{"/v1/events/{event}/processing", methods{"POST": x.receipts.receiveProcessing}},
		{"/v1/replays", methods{"GET": x.runs.listRuns, "POST": x.replays.replayEvents}},
		{"/v1/replays/{run}", methods{"GET": x.runs.readRun}},
		{"/v1/endpoints", methods{"GET": x.endpoints.listEndpoints, "POST": x.endpoints.createEndpoint}},
		{"/v1/endpoints/{endpoint}", methods{"GET": x.endpoints.readEndpoint, "PATCH": x.endpoints.updateEndpoint,
			"DELETE": x.endpoints.deleteEndpoint}},
		{"/v1/endpoints/{endpoint}/rotate-token", methods{"POST": x.endpoints.rotateToken}},
		{"/v1/endpoints/{endpoint}/destinations", methods{"POST": x.destinations.createDestination}},
		{"/v1/endpoints/{endpoint}/destinations/{destination}",
			methods{"PATCH": x.destinations.updateDestination, "DELETE": x.destinations.deleteDestination}},
		{"/v1/endpoints/{endpoint}/destinations/{destination}/rotate_secret", methods{"POST": x.destinations.rotateSecret}},
		{"/v1/endpoints/{endpoint}/destinations/{destination}/purge", methods{"POST": x.destinations.purgeDestination}},
		{"/v1/alerts", methods{"GET": x.alerts.readAlerts, "PATCH": x.alerts.updateAlerts}},
		{"/v1/alerts/test", methods{"POST": x.alerts.testAlerts}},
		{"/v1/endpoints/{endpoint}/test", methods{"POST": x.sender.testEndpoint}},
		{"/v1/endpoints/{endpoint}/stream", methods{"GET": x.streams.streamEvents}},
		{"/v1/recoveries", methods{"GET": x.recoveries.listRecoveries, "POST": x.recoveries.createRecovery}},
		{"/v1/recoveries/{recovery}", methods{"GET": x.recoveries.readRecovery, "POST": x.recoveries.actOnRecovery}},
		{"/v1/recoveries/{recovery}/items", methods{"GET": x.recoveries.listRecoveryItems}},
		{"/v1/usage", methods{"GET": x.usage.readUsage}},
		{"/v1/me", methods{"GET": x.keys.me}},
		{"/v1/audit", methods{"GET": x.audit.listAudit}},
	}
}
