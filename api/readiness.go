package api

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A change shows after readyEvery; one that makes a check hang shows after readyTimeout more.
const (
	readyEvery   = time.Second
	readyTimeout = 1500 * time.Millisecond
)

// Check is one condition that a node needs to serve requests, or without which it serves only some of them.
type Check struct {
	Name     string
	Func     func(context.Context) error
	Optional bool // the node is ready without it, and /readyz shows that it fails
	// Every is how often the check is repeated while it passes; 0 = each second, as while it fails.
	Every time.Duration
}

type checkView struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
}

// blocks reports whether the node is not ready because of this check.
func (c checkView) blocks() bool { return c.Required && !c.OK }

// Readiness checks in the background whether a node can serve requests. GET /readyz, which needs no key, only reads
// the result, so it costs the engines nothing.
type Readiness struct {
	log    *slog.Logger
	checks []Check
	states atomic.Pointer[[]checkView]
	stops  atomic.Bool
	rounds atomic.Uint64
	done   chan struct{} // closed after the first round

	checkedAt []time.Time // by check; used by Run alone
}

// NewReadiness starts nothing. The node is not ready until the first round of checks has passed.
func NewReadiness(log *slog.Logger, checks []Check) *Readiness {
	r := &Readiness{log: log, checks: checks, done: make(chan struct{}),
		checkedAt: make([]time.Time, len(checks))}
	first := make([]checkView, len(checks))
	for i, c := range checks {
		first[i] = checkView{Name: c.Name, Required: !c.Optional}
	}
	r.states.Store(&first)
	return r
}

// last returns the result of the latest round, and no checks for a nil Readiness.
func (r *Readiness) last() []checkView {
	if r == nil {
		return []checkView{}
	}
	checks := *r.states.Load()
	if r.stops.Load() {
		checks = append(slices.Clone(checks), checkView{Name: stoppingCheck, Required: true})
	}
	return checks
}

// stoppingCheck fails, and exists, from Stop on.
const stoppingCheck = "stopping"

// Stop makes the node not ready for good: it takes requests for a while and then ends.
func (r *Readiness) Stop() { r.stops.Store(true) }

var readinessDesc = prometheus.NewDesc("relay_readiness_check_failed",
	"1 while a check of /readyz fails, else 0. The node is not ready while a required check fails.",
	[]string{"check", "required"}, nil)

// Describe implements prometheus.Collector.
func (r *Readiness) Describe(out chan<- *prometheus.Desc) { out <- readinessDesc }

// Collect implements prometheus.Collector.
func (r *Readiness) Collect(out chan<- prometheus.Metric) {
	for _, check := range r.last() {
		failed := 1.0
		if check.OK {
			failed = 0
		}
		out <- prometheus.MustNewConstMetric(readinessDesc, prometheus.GaugeValue, failed, check.Name,
			strconv.FormatBool(check.Required))
	}
}

// Checked returns a channel that is closed after the first round.
func (r *Readiness) Checked() <-chan struct{} { return r.done }

// Rounds returns how many rounds have ended: a node whose number stays the same hangs.
func (r *Readiness) Rounds() uint64 { return r.rounds.Load() }

// Run repeats the checks every second until ctx ends.
func (r *Readiness) Run(ctx context.Context) error {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		r.round(ctx, first)
		if first {
			close(r.done)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round runs all checks that are due at the same time and logs changes; in the first round it logs what fails.
func (r *Readiness) round(ctx context.Context, first bool) {
	limited, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	before, now := r.last(), make([]checkView, len(r.checks))
	errs := make([]error, len(r.checks))
	var all sync.WaitGroup
	skipped := make([]bool, len(r.checks))
	for i, c := range r.checks {
		// Half a round of tolerance: ticks are never exactly apart.
		if skipped[i] = before[i].OK && time.Since(r.checkedAt[i]) < c.Every-readyEvery/2; skipped[i] {
			continue
		}
		r.checkedAt[i] = time.Now()
		all.Go(func() { errs[i] = c.Func(limited) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return // the node stops: an interrupted check says nothing
	}
	for i, c := range r.checks {
		if now[i] = (checkView{c.Name, errs[i] == nil, !c.Optional}); skipped[i] {
			continue
		}
		message := "readiness check fails, this node is not ready"
		if c.Optional {
			message = "check fails, this node serves what does not need it"
		}
		switch name := slog.String("check", c.Name); {
		case errs[i] != nil && (first || before[i].OK):
			r.log.LogAttrs(ctx, slog.LevelWarn, message, name, slog.String("error", errs[i].Error()))
		case errs[i] == nil && !first && !before[i].OK:
			r.log.LogAttrs(ctx, slog.LevelInfo, "readiness check passes again", name)
		}
	}
	r.states.Store(&now)
	r.rounds.Add(1)
}
