// Package usage says what an account has used in the current month, and what that will come to.
//
// In: the counts of the store, which come from the events themselves and are exact. Out: the figures of GET
// /v1/usage and of the alert on the allowance. Nothing is ever refused for having used too much.
//
// Run lets this node's writer count the hours that have ended; every writer counts the hours it has written to, so it
// does not matter which of them are alive. A period is a calendar month in UTC.
//
// Backpressure: a count that was expensive is kept for a few seconds; callers who come while one runs wait for it.
package usage

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// Config of the stage.
type Config struct {
	// Allowance is the number of events a month that is agreed on, 0 = none.
	Allowance int64
	// CountEvery is the pause between two looks for hours that have ended.
	CountEvery time.Duration
	// Keep is how long a count is kept that took longer than Cheap: then counting costs a small part of the time.
	CacheFor, CacheAbove time.Duration
}

// DefaultConfig is a service without an allowance.
func DefaultConfig() Config {
	return Config{CountEvery: 10 * time.Second, CacheFor: 5 * time.Second, CacheAbove: 100 * time.Millisecond}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if c.Allowance < 0 {
		errs = append(errs, errors.New("usage allowance: must not be negative"))
	}
	if min(c.CountEvery, c.CacheFor, c.CacheAbove) <= 0 {
		errs = append(errs, errors.New("usage intervals: must be positive"))
	}
	return errors.Join(errs...)
}

// Counter is the writer of this node.
type Counter interface {
	// CountUsage counts the hours that have ended.
	CountUsage(ctx context.Context) error
}

// Figures are the counts of the store.
type Store interface {
	Usage(ctx context.Context, account string, span event.UsageSpan) (event.Figures, error)
}

// Deps are what the stage works with.
type Deps struct {
	Log     *slog.Logger
	Store   Store
	Counter Counter // nil on a node without a writer
	// Created is when an account began.
	Created func(account string) time.Time
	Now     func() time.Time
}

// Usage is the stage.
type Usage struct {
	cfg  Config
	deps Deps

	mu       sync.Mutex // guards accounts
	accounts map[string]*account
}

// account is the last count of one account. Who holds slot may count and change the rest.
type account struct {
	slot   chan struct{} // 1
	usage  *event.Usage
	began  time.Time // of the count
	keepTo time.Time
}

// New checks the configuration. It starts nothing.
func New(cfg Config, deps Deps) (*Usage, error) {
	err := cfg.Validate()
	if deps.Log == nil || deps.Store == nil || deps.Created == nil || deps.Now == nil {
		err = errors.Join(err, errors.New("usage: a dependency is missing"))
	}
	if err != nil {
		return nil, err
	}
	return &Usage{cfg: cfg, deps: deps, accounts: make(map[string]*account)}, nil
}

// Run counts until ctx ends. What fails is tried again: the log and the reads do not depend on it.
func (u *Usage) Run(ctx context.Context) error {
	if u.deps.Counter == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(u.cfg.CountEvery)
	defer tick.Stop()
	for failing := false; ; {
		err := u.deps.Counter.CountUsage(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			u.deps.Log.LogAttrs(ctx, slog.LevelWarn, "count usage", slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// currentAge is how old what Current says may be: it is asked again and again, and a count has its price.
const currentAge = 30 * time.Second

// Current is what the account has used of its allowance in this month, half a minute ago at most. Without an allowance
// nothing is counted, and both are 0.
func (u *Usage) Current(ctx context.Context, accountID string) (total, allowance int64, err error) {
	if u.cfg.Allowance == 0 {
		return 0, 0, nil
	}
	report, err := u.report(ctx, accountID, currentAge)
	if err != nil {
		return 0, 0, err
	}
	return report.Total(), report.Allowance, nil
}

// Usage is what the account has used in this month. Whatever was acknowledged before AsOf is in it. The answer is
// shared: it must not be changed.
func (u *Usage) Usage(ctx context.Context, accountID string) (*event.Usage, error) {
	return u.report(ctx, accountID, 0)
}

// report is Usage, from a count that was made within age if there is one.
func (u *Usage) report(ctx context.Context, accountID string, age time.Duration) (*event.Usage, error) {
	asked := u.deps.Now().Add(-age)
	u.mu.Lock()
	a := u.accounts[accountID]
	if a == nil { // there are as many as accounts that have keys
		a = &account{slot: make(chan struct{}, 1)}
		u.accounts[accountID] = a
	}
	u.mu.Unlock()
	select {
	case a.slot <- struct{}{}:
		defer func() { <-a.slot }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := u.deps.Now().UTC()
	if a.usage != nil && (now.Before(a.keepTo) || asked.Before(a.began)) && now.Before(a.usage.To) {
		return a.usage, nil
	}
	report, err := u.count(ctx, accountID, now)
	if err != nil {
		return nil, err
	}
	a.usage, a.began, a.keepTo = report, now, time.Time{}
	if report.QueryTime > u.cfg.CacheAbove {
		a.keepTo = now.Add(u.cfg.CacheFor)
	}
	return report, nil
}

// recentDays is how far back the rate of a projection reaches.
const recentDays = 7

// count asks the store and completes its answer.
func (u *Usage) count(ctx context.Context, accountID string, now time.Time) (*event.Usage, error) {
	r := &event.Usage{Allowance: u.cfg.Allowance}
	r.From = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	r.To = r.From.AddDate(0, 1, 0)
	recent := now.Truncate(time.Hour).AddDate(0, 0, -recentDays)
	var err error
	if r.Figures, err = u.deps.Store.Usage(
		ctx, accountID, event.UsageSpan{From: r.From, To: r.To, Recent: recent}); err != nil {
		return nil, err
	}
	r.Use = r.Figures.Sum()
	r.Daily = everyDay(r.Daily, r.From, now)
	created := u.deps.Created(accountID)
	r.Projection = project(r, now, recent, created)
	return r, nil
}

// everyDay adds the days without use, from the first of the period up to now.
func everyDay(days []event.DayUse, from, now time.Time) []event.DayUse {
	all := make([]event.DayUse, 0, 31)
	for day := from; !day.After(now); day = day.AddDate(0, 0, 1) {
		one := event.DayUse{Day: day}
		if len(days) > 0 && days[0].Day.Equal(day) {
			one, days = days[0], days[1:]
		}
		all = append(all, one)
	}
	return append(all, days...) // events may be a little ahead of now
}

// shortest and certain bound what a rate is taken from: a rate of minutes says nothing about a month, one of less than
// a day little.
const shortest, certain = time.Hour, 24 * time.Hour

// project lets the rate of the recent days go on to the end of the period.
func project(r *event.Usage, now, recent, created time.Time) event.Projection {
	if created.After(recent) {
		recent = created
	}
	rate := float64(r.Recent) / float64(max(now.Sub(recent), shortest))
	total := float64(r.Use.Total()) + math.Round(rate*float64(r.To.Sub(now)))
	return event.Projection{
		Events:  int64(min(total, math.MaxInt64/2)),
		Certain: now.Sub(r.From) >= certain && now.Sub(created) >= certain,
	}
}
