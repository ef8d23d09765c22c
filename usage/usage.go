// Package usage reports what an account has used in the current month and projects it to the end of the month.
//
// It reads the counts of the store, which come from the events themselves and are exact, and answers GET /v1/usage
// and the alert rule on the allowance. No event is ever refused because of usage.
//
// Run makes this node's store writer count the hours that have ended. Every writer counts all hours that it has
// written to, so the totals are complete whichever nodes run. A period is a calendar month in UTC.
//
// Backpressure: an expensive count is cached for a few seconds, and concurrent callers of one account share a count.
// Begin reading at Usage.cached.
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

// Config configures the stage.
type Config struct {
	// Allowance is the agreed number of events a month; 0 = none.
	Allowance int64
	// CountEvery is how often the writer counts the hours that have ended.
	CountEvery time.Duration
	// A count that took longer than CacheAbove is cached for CacheFor, so that counting takes a small part of the time.
	CacheFor, CacheAbove time.Duration
}

// DefaultConfig returns the configuration of a service without an allowance.
func DefaultConfig() Config {
	return Config{CountEvery: 10 * time.Second, CacheFor: 5 * time.Second, CacheAbove: 100 * time.Millisecond}
}

// Validate reports all invalid fields at once.
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

// Counter is this node's store writer.
type Counter interface {
	// CountUsage counts the usage of the hours that have ended.
	CountUsage(ctx context.Context) error
}

// Store returns the counts of a span.
type Store interface {
	Usage(ctx context.Context, of event.UsageOf, span event.UsageSpan) (event.Figures, error)
}

// Deps are the dependencies of the stage.
type Deps struct {
	Log     *slog.Logger
	Store   Store
	Counter Counter // nil on a node without a writer
	// Created returns when an account was created.
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

// account is the cached count of one account. The holder of slot may count and change the other fields.
type account struct {
	slot        chan struct{} // capacity 1
	usage       *event.Usage
	countedAt   time.Time // when the count began
	cachedUntil time.Time
}

// New validates its arguments. It starts nothing.
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

// Run makes the writer count every Config.CountEvery until ctx ends. Of several errors in a row the first is logged,
// and the next tick tries again. Reads do not depend on it: they count the hours that are not counted yet.
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
			u.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot count the usage of ended hours", slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// maxCurrentAge bounds the age of the count that Current returns. It is called often, and a count is expensive.
const maxCurrentAge = 30 * time.Second

// Current returns the usage of this month and the allowance. The count is at most 30 s old. Without an allowance
// nothing is counted and both are 0.
func (u *Usage) Current(ctx context.Context, accountID string) (total, allowance int64, err error) {
	if u.cfg.Allowance == 0 {
		return 0, 0, nil
	}
	report, err := u.cached(ctx, accountID, maxCurrentAge)
	if err != nil {
		return 0, 0, err
	}
	return report.Total(), report.Allowance, nil
}

// Usage returns the usage of this month. It includes everything that was acknowledged before AsOf. The result is
// shared and must not be changed. That of endpoints is not cached.
func (u *Usage) Usage(ctx context.Context, of event.UsageOf) (*event.Usage, error) {
	if of.Endpoints != nil {
		return u.count(ctx, of, u.deps.Now().UTC())
	}
	return u.cached(ctx, of.Account, 0)
}

// ofAccount adds to the whole of an account when it was created, and its allowance.
func (u *Usage) ofAccount(of event.UsageOf) event.UsageOf {
	if of.Endpoints == nil {
		of.Allowance, of.Created = u.cfg.Allowance, u.deps.Created(of.Account)
	}
	return of
}

// cached returns a count that began within age, or one that is cached, or makes one.
func (u *Usage) cached(ctx context.Context, accountID string, age time.Duration) (*event.Usage, error) {
	notBefore := u.deps.Now().Add(-age)
	u.mu.Lock()
	a := u.accounts[accountID]
	if a == nil { // bounded by the accounts that have API keys
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
	if a.usage != nil && (now.Before(a.cachedUntil) || notBefore.Before(a.countedAt)) && now.Before(a.usage.To) {
		return a.usage, nil
	}
	report, err := u.count(ctx, event.UsageOf{Account: accountID}, now)
	if err != nil {
		return nil, err
	}
	a.usage, a.countedAt, a.cachedUntil = report, now, time.Time{}
	if report.QueryTime > u.cfg.CacheAbove {
		a.cachedUntil = now.Add(u.cfg.CacheFor)
	}
	return report, nil
}

// keptFor is how long the store keeps the counts of days (store/schema/baseline/usage_day.sql).
const keptFor = 400 * 24 * time.Hour

// OldestPeriod returns the first day of the oldest month whose days are all kept.
func (u *Usage) OldestPeriod() time.Time {
	kept := u.deps.Now().UTC().Add(-keptFor)
	month := time.Date(kept.Year(), kept.Month(), 1, 0, 0, 0, 0, time.UTC)
	if month.Before(kept) {
		month = month.AddDate(0, 1, 0)
	}
	return month
}

// Period returns the usage of a month that has ended; from is its first moment. Its projection is what was used. The
// allowance is that of now. It is not cached.
func (u *Usage) Period(ctx context.Context, of event.UsageOf, from time.Time) (*event.Usage, error) {
	r := &event.Usage{From: from, To: from.AddDate(0, 1, 0), Allowance: u.ofAccount(of).Allowance}
	var err error
	if r.Figures, err = u.deps.Store.Usage(
		ctx, of, event.UsageSpan{From: r.From, To: r.To, Recent: r.To}); err != nil {
		return nil, err
	}
	r.Use = r.Figures.Sum()
	r.Daily = everyDay(r.Daily, r.From, r.To.Add(-1))
	r.Projection = event.Projection{Events: r.Use.Total(), Certain: true}
	return r, nil
}

// recentDays is the span of the rate that a projection uses.
const recentDays = 7

// count reads the counts from the store and adds days without usage, and the projection.
func (u *Usage) count(ctx context.Context, of event.UsageOf, now time.Time) (*event.Usage, error) {
	of = u.ofAccount(of)
	r := &event.Usage{Allowance: of.Allowance}
	r.From = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	r.To = r.From.AddDate(0, 1, 0)
	recent := now.Truncate(time.Hour).AddDate(0, 0, -recentDays)
	var err error
	if r.Figures, err = u.deps.Store.Usage(
		ctx, of, event.UsageSpan{From: r.From, To: r.To, Recent: recent}); err != nil {
		return nil, err
	}
	r.Use = r.Figures.Sum()
	r.Daily = everyDay(r.Daily, r.From, now)
	r.Projection = project(r, now, recent, of.Created)
	return r, nil
}

// lastDays is how many days LastDays returns, today included.
const lastDays = 30

// LastDays returns the use in the last 30 days in UTC, by day, and by day and endpoint. It is not cached.
func (u *Usage) LastDays(ctx context.Context, of event.UsageOf) (*event.UsageDays, error) {
	now := u.deps.Now().UTC()
	d := &event.UsageDays{To: time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC)}
	d.From = d.To.AddDate(0, 0, -lastDays)
	var err error
	d.Figures, err = u.deps.Store.Usage(ctx, of, event.UsageSpan{
		From: d.From, To: d.To, Recent: d.From, EndpointDays: true})
	if err != nil {
		return nil, err
	}
	d.Daily = everyDay(d.Daily, d.From, now)
	return d, nil
}

// everyDay adds the days without usage from the start of a span to now.
func everyDay(days []event.DayUse, from, now time.Time) []event.DayUse {
	all := make([]event.DayUse, 0, 31)
	for day := from; !day.After(now); day = day.AddDate(0, 0, 1) {
		one := event.DayUse{Day: day}
		if len(days) > 0 && days[0].Day.Equal(day) {
			one, days = days[0], days[1:]
		}
		all = append(all, one)
	}
	return append(all, days...) // ids of events may be a little ahead of now
}

// minRateSpan is the shortest span that a rate is computed from, so that a few minutes are not projected to a month.
// A projection is certain once the period and the account are certainAfter old.
const minRateSpan, certainAfter = time.Hour, 24 * time.Hour

// project extends the rate of the recent days to the end of the period.
func project(r *event.Usage, now, recent, created time.Time) event.Projection {
	if created.After(recent) {
		recent = created
	}
	rate := float64(r.Recent) / float64(max(now.Sub(recent), minRateSpan))
	total := float64(r.Use.Total()) + math.Round(rate*float64(r.To.Sub(now)))
	return event.Projection{
		Events:  int64(min(total, math.MaxInt64/2)),
		Certain: now.Sub(r.From) >= certainAfter && now.Sub(created) >= certainAfter,
	}
}
