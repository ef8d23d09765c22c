package api

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A change is seen after readyEvery, and one that makes a check hang after readyTimeout more.
const (
	readyEvery   = time.Second
	readyTimeout = 1500 * time.Millisecond
)

// Check is one thing that a node needs to serve.
type Check struct {
	Name string
	Func func(context.Context) error
}

type checkView struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
}

// Readiness checks in the background whether a node can serve, so that GET /readyz, which anybody may send, costs no
// engine anything, however often it is sent.
type Readiness struct {
	log    *slog.Logger
	checks []Check
	states atomic.Pointer[[]checkView]
	done   chan struct{} // closed after the first round
}

// NewReadiness starts nothing. Before the first round of checks the node is not ready.
func NewReadiness(log *slog.Logger, checks []Check) *Readiness {
	r := &Readiness{log: log, checks: checks, done: make(chan struct{})}
	first := make([]checkView, len(checks))
	for i, c := range checks {
		first[i] = checkView{Name: c.Name}
	}
	r.states.Store(&first)
	return r
}

// last is what the last round has found; nothing without a Readiness.
func (r *Readiness) last() []checkView {
	if r == nil {
		return []checkView{}
	}
	return *r.states.Load()
}

// Checked is closed after the first round.
func (r *Readiness) Checked() <-chan struct{} { return r.done }

// Run checks every second until ctx ends.
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

// round makes all checks at once, and logs what has changed: in the first round what fails.
func (r *Readiness) round(ctx context.Context, first bool) {
	limited, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	before, now := r.last(), make([]checkView, len(r.checks))
	errs := make([]error, len(r.checks))
	var all sync.WaitGroup
	for i, c := range r.checks {
		all.Go(func() { errs[i] = c.Func(limited) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return // the node stops: a check that was broken off says nothing
	}
	for i, c := range r.checks {
		now[i] = checkView{c.Name, errs[i] == nil}
		switch name := slog.String("check", c.Name); {
		case errs[i] != nil && (first || before[i].OK):
			r.log.LogAttrs(ctx, slog.LevelWarn, "not ready", name, slog.String("error", errs[i].Error()))
		case errs[i] == nil && !first && !before[i].OK:
			r.log.LogAttrs(ctx, slog.LevelInfo, "ready again", name)
		}
	}
	r.states.Store(&now)
}
