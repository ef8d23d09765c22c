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
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
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
	cfg     Config
	deps    Deps
	secrets *secrets.Scanner
	handler http.Handler
	hosts   map[string]bool                  // see checkHost
	pages   func() (map[string]*page, error) // public, by path; made when the first is asked for
	// of *bytes.Buffer: request bodies, returned when nothing refers to them any more
	bodies sync.Pool
	// repeats that wait for the first call with their Idempotency-Key, and replays for their turn
	waiting              atomic.Int64
	streams              streams
	replaying            scopes
	lookups              lookups
	answers              answers
	batchBodies, batches chan struct{} // one element for each batch that is in memory, or being stored
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
	a := &API{
		cfg: cfg, deps: deps, pages: sync.OnceValues(publicPages), secrets: scanner,
		bodies:      sync.Pool{New: func() any { return new(bytes.Buffer) }},
		streams:     streams{draining: make(chan struct{}), open: make(map[string]int)},
		answers:     newAnswers(),
		batchBodies: make(chan struct{}, maxBatchBodies), batches: make(chan struct{}, maxBatches),
	}
	a.hosts = hostsOf(cfg)
	front := &web.Front{Log: deps.Log, Proxies: cfg.TrustedProxies, BaseURL: cfg.BaseURL,
		Done: newMetrics(deps.Metrics).done}
	a.handler = front.Wrap(a.router().serve)
	return a, nil
}

// Drain ends the event streams: requests that would not end by themselves. For a stop.
func (a *API) Drain() { a.streams.drain() }

// Handler serves /v1, /healthz, /readyz and the documentation, and answers 404 to everything else.
func (a *API) Handler() http.Handler { return a.handler }
