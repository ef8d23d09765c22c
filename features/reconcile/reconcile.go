// Package reconcile fetches events that a provider could not deliver, because the relay was down or could not be
// reached.
//
// Stripe's API has the events themselves: they are stored as if they had arrived. GitHub is asked to deliver again.
// Both say which deliveries failed, and both are asked for all of them at the start of a node, afterwards for those
// since the last pass. So nothing has to be remembered, and a takeover loses nothing: what is fetched again is left out
// by its deduplication key, which the endpoint keeps as long as the provider keeps its events
// ([config.Endpoint.DedupWindow]).
//
// One goroutine per endpoint makes one request at a time. Begin with Runner.Run, then stripe.go and github.go.
package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eventrelay/relay/ingest"
	"github.com/eventrelay/relay/ingest/assigned"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/wait"
)

// overlap is how far before the start of the last complete pass the next one looks: failed attempts are listed late.
const overlap = 15 * time.Minute

// maxTurns is how many answers a node reads at the same time.
const maxTurns = 4

// Counts say what a pass has found.
type Counts struct {
	Found   int `json:"found"`    // events that the provider says were not delivered
	Stored  int `json:"stored"`   // of them fetched and stored as new events
	Asked   int `json:"asked"`    // of them asked for again
	GivenUp int `json:"given_up"` // of them asked for as often as they may be, counted once
}

// Status is what is shown of an endpoint.
type Status struct {
	At     time.Time `json:"at"`   // when the last pass ended
	Next   time.Time `json:"next"` // when the next one begins
	Last   Counts    `json:"last"`
	Total  Counts    `json:"total"` // since the node began
	Since  time.Time `json:"since"` // how far back the last pass looked
	Error  string    `json:"error,omitempty"`
	Failed int       `json:"failed"` // passes in a row
}

type takeFunc func(ctx context.Context, records []ingest.Record) (stored int, err error)

// provider is the API of a provider, for one endpoint.
type provider interface {
	// pass fetches the events that were not delivered since from, and adds to count.
	pass(ctx context.Context, from time.Time, count *Counts, take takeFunc) error
}

// Deps are the dependencies of a Runner; all are required.
type Deps struct {
	Log       *slog.Logger
	Endpoints assigned.Endpoints
	Keyring   *seal.Keyring
	HTTP      http.RoundTripper // an egress.Transport
	MaxBody   int64             // of an event, in bytes
	// Take stores records that are not stored yet.
	Take    func(ctx context.Context, ep *config.Endpoint, records []ingest.Record) (stored int, err error)
	Show    func(endpoint string, s Status, life time.Duration) // to all nodes
	Metrics prometheus.Registerer
}

// Runner reconciles endpoints with their providers.
type Runner struct {
	deps    Deps
	events  *prometheus.CounterVec
	failing prometheus.Gauge
	turns   chan struct{} // see client
}

// New makes a Runner. It starts nothing.
func New(deps Deps) *Runner {
	f := promauto.With(deps.Metrics)
	return &Runner{deps: deps, turns: make(chan struct{}, maxTurns),
		events: f.NewCounterVec(prometheus.CounterOpts{Name: "relay_reconciled_events_total",
			Help: "Events that providers could not deliver: stored (fetched), asked (for another delivery) or given_up."},
			[]string{"result"}),
		failing: f.NewGauge(prometheus.GaugeOpts{Name: "relay_reconciliations_failing",
			Help: "Endpoints for which this node cannot ask their provider now."})}
}

// Run reconciles all endpoints until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	return assigned.Run(ctx, r.deps.Endpoints, func(ep *config.Endpoint) bool { return ep.Reconcile != nil }, r.keepAsking)
}

// keepAsking makes passes for an endpoint until ctx ends.
func (r *Runner) keepAsking(ctx context.Context, ep *config.Endpoint) {
	opened, err := ep.Inbound.Open(r.deps.Keyring, ep.ID)
	var api provider
	if err == nil {
		api, err = r.open(ep, opened.Reconcile)
	}
	every := time.Duration(ep.Reconcile.EverySeconds) * time.Second
	pause := wait.Backoff{First: min(every, 30*time.Second), Longest: max(every, 15*time.Minute)}
	s, from := Status{}, time.Time(ep.Reconcile.Since)
	defer func() {
		if s.Failed > 0 {
			r.failing.Dec()
		}
	}()
	for ctx.Err() == nil {
		began := time.Now()
		from = later(from, began.Add(-kinds.Horizon(ep.Provider)))
		s.Last, s.Since = Counts{}, from
		if api != nil {
			err = api.pass(ctx, from, &s.Last, func(ctx context.Context, records []ingest.Record) (int, error) {
				return r.deps.Take(ctx, ep, records)
			})
		}
		if ctx.Err() != nil {
			return
		}
		r.add(&s.Total, s.Last)
		s.At, s.Next, s.Error = time.Now(), time.Now().Add(wait.Jitter(every)), ""
		if err != nil {
			s.Failed++
			s.Error, s.Next = err.Error(), s.At.Add(pause.After(s.Failed))
			if s.Failed == 1 {
				r.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot ask the provider of an endpoint what it could not deliver",
					slog.String("endpoint", ep.ID), slog.String("error", s.Error))
				r.failing.Inc()
			}
		} else {
			if s.Failed > 0 {
				r.failing.Dec()
			}
			s.Failed, from = 0, later(from, began.Add(-overlap))
		}
		r.deps.Show(ep.ID, s, 2*time.Until(s.Next)+time.Minute)
		_ = wait.For(ctx, time.Until(s.Next))
	}
}

func (r *Runner) open(ep *config.Endpoint, s *kinds.Reconcile) (provider, error) {
	c := &client{http: r.deps.HTTP, turns: r.turns, credential: string(s.Credential)}
	switch ep.Provider {
	case "stripe":
		return newStripe(c, s.APIURL, s.Types, r.deps.MaxBody), nil
	case "github":
		return newGitHub(c, s.APIURL, s.Hook, s.Types), nil
	}
	return nil, fmt.Errorf("reconcile does not know the provider %q", ep.Provider)
}

func (r *Runner) add(total *Counts, last Counts) {
	total.Found += last.Found
	total.Stored += last.Stored
	total.Asked += last.Asked
	total.GivenUp += last.GivenUp
	r.events.WithLabelValues("stored").Add(float64(last.Stored))
	r.events.WithLabelValues("asked").Add(float64(last.Asked))
	r.events.WithLabelValues("given_up").Add(float64(last.GivenUp))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
