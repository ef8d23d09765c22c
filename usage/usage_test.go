package usage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/usage"
)

// fakeStore is a store with one account.
type fakeStore struct {
	daily  []event.DayUse
	recent int64
	took   time.Duration // duration of a count
	err    error
	counts atomic.Int64
	span   event.UsageSpan // of the last count
}

func (f *fakeStore) Usage(_ context.Context, of event.UsageOf, span event.UsageSpan) (event.Figures, error) {
	f.counts.Add(1)
	f.span = span
	if of.Account != "acc_1" {
		return event.Figures{}, f.err
	}
	time.Sleep(f.took)
	return event.Figures{Daily: f.daily, Recent: f.recent, QueryTime: f.took, AsOf: time.Now()}, f.err
}

type counter func(context.Context) error

func (c counter) CountUsage(ctx context.Context) error { return c(ctx) }

func newUsage(t *testing.T, f *fakeStore, now func() time.Time,
	change ...func(*usage.Config, *usage.Deps)) *usage.Usage {
	t.Helper()
	cfg := usage.DefaultConfig()
	deps := usage.Deps{
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Store: f, Now: now,
		Created: func(string) time.Time { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) },
	}
	for _, c := range change {
		c(&cfg, &deps)
	}
	u := must.Get(usage.New(cfg, deps))(t)
	return u
}

func utc(text string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05.999999999", text)
	if err != nil {
		panic(err)
	}
	return t
}

// A period is a calendar month in UTC, whatever the time zone of the clock, from its first moment to its last.
func TestPeriodIsACalendarMonthInUTC(t *testing.T) {
	f := func(now time.Time, from, to, recent string) {
		t.Helper()
		store := &fakeStore{}
		r := must.Get(newUsage(t, store, func() time.Time { return now }).
			Usage(t.Context(), event.UsageOf{Account: "acc_1"}))(t)
		want := event.UsageSpan{From: utc(from), To: utc(to), Recent: utc(recent)}
		if diff := cmp.Diff(want, store.span); diff != "" || !r.From.Equal(want.From) || !r.To.Equal(want.To) {
			t.Errorf("%v: %s", now, diff)
		}
		if first, last := r.Daily[0].Day, r.Daily[len(r.Daily)-1].Day; !first.Equal(want.From) ||
			last.Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
			t.Errorf("%v: days from %v to %v", now, first, last)
		}
	}
	f(utc("2026-08-21T22:24:36"), "2026-08-01T00:00:00", "2026-09-01T00:00:00", "2026-08-14T22:00:00")
	f(utc("2026-08-01T00:00:00"), "2026-08-01T00:00:00", "2026-09-01T00:00:00", "2026-07-25T00:00:00")
	f(utc("2026-08-31T23:59:59.999999999"), "2026-08-01T00:00:00", "2026-09-01T00:00:00", "2026-08-24T23:00:00")
	f(utc("2027-12-31T23:59:59"), "2027-12-01T00:00:00", "2028-01-01T00:00:00", "2027-12-24T23:00:00")
	f(utc("2028-02-29T12:00:00"), "2028-02-01T00:00:00", "2028-03-01T00:00:00", "2028-02-22T12:00:00")
	kiritimati := time.FixedZone("UTC+14", 14*3600)
	f(time.Date(2026, 9, 1, 13, 0, 0, 0, kiritimati), "2026-08-01T00:00:00", "2026-09-01T00:00:00", "2026-08-24T23:00:00")
}

// A month that has ended has all its days, and its projection is what was used. Months are kept for 400 days.
func TestPeriod(t *testing.T) {
	store := &fakeStore{daily: []event.DayUse{{Day: utc("2026-02-03T00:00:00"), Use: event.Use{Received: 7, Sent: 2}}}}
	at := utc("2026-08-21T22:24:36")
	u := newUsage(t, store, func() time.Time { return at }, func(c *usage.Config, _ *usage.Deps) { c.Allowance = 5 })
	r := must.Get(u.Period(t.Context(), event.UsageOf{Account: "acc_1"}, utc("2026-02-01T00:00:00")))(t)
	to := utc("2026-03-01T00:00:00")
	is.Same(t, store.span, event.UsageSpan{From: utc("2026-02-01T00:00:00"), To: to, Recent: to})
	if len(r.Daily) != 28 || !r.Daily[27].Day.Equal(utc("2026-02-28T00:00:00")) || r.Total() != 9 || !r.To.Equal(to) ||
		r.Projection != (event.Projection{Events: 9, Certain: true}) || r.Over(r.Total()) != 4 {
		t.Errorf("%+v", r)
	}
	for now, oldest := range map[string]string{
		"2026-08-21T22:24:36": "2025-08-01T00:00:00", // 2025-07-17 and later are kept
		"2026-11-26T00:00:00": "2025-11-01T00:00:00", // 2025-10-22 and later
		"2026-11-05T00:00:00": "2025-10-01T00:00:00", // 2025-10-01 and later
		"2026-11-05T00:00:01": "2025-11-01T00:00:00", // all but the first second of 2025-10
	} {
		at = utc(now)
		if got := u.OldestPeriod(); !got.Equal(utc(oldest)) {
			t.Errorf("%s: the oldest month is %v", now, got)
		}
	}
	store.err = event.ErrUnavailable
	if _, err := u.Period(t.Context(), event.UsageOf{Account: "acc_1"}, to); !errors.Is(err, event.ErrUnavailable) {
		t.Error(err)
	}
}

// The days add up to the total, days without usage are included, and the total is compared with the allowance.
func TestDaysAddUpToTheTotal(t *testing.T) {
	store := &fakeStore{
		daily: []event.DayUse{
			{Day: utc("2026-08-02T00:00:00"), Use: event.Use{Received: 3, Sent: 1, Bytes: 10}},
			{Day: utc("2026-08-04T00:00:00"), Use: event.Use{Findings: 2, Bytes: 5}},
		},
	}
	at := utc("2026-08-04T10:00:00")
	f := func(allowance, over int64) {
		t.Helper()
		u := newUsage(t, store, func() time.Time { return at }, func(c *usage.Config, _ *usage.Deps) {
			c.Allowance = allowance
		})
		r := must.Get(u.Usage(t.Context(), event.UsageOf{Account: "acc_1"}))(t)
		if r.Use != (event.Use{Received: 3, Sent: 1, Findings: 2, Bytes: 15}) || r.Total() != 6 || r.Over(r.Total()) != over {
			t.Errorf("%+v", r)
		}
		var days []string
		for _, d := range r.Daily {
			days = append(days, fmt.Sprint(d.Day.Format("2006-01-02"), " ", d.Total()))
		}
		is.Equal(t, strings.Join(days, ", "), "2026-08-01 0, 2026-08-02 4, 2026-08-03 0, 2026-08-04 2", "days")
		total, limited, err := u.Current(t.Context(), "acc_1")
		if limited != allowance || (total == 6) != (allowance > 0) || err != nil {
			t.Errorf("%d of %d, %v", total, limited, err)
		}
	}
	f(0, 0)
	f(5, 1)
	f(6, 0)
	f(7, 0)
	// An event whose id is a little ahead of the clock belongs to its own day.
	store.daily = []event.DayUse{{Day: utc("2026-08-05T00:00:00"), Use: event.Use{Sent: 1}}}
	at = utc("2026-08-04T23:59:59")
	r, err := newUsage(t, store, func() time.Time { return at }).Usage(t.Context(), event.UsageOf{Account: "acc_1"})
	if err != nil || len(r.Daily) != 5 || r.Daily[4].Total() != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestProjection(t *testing.T) {
	f := func(now, created string, used, recent, want int64, certain bool) {
		t.Helper()
		store := &fakeStore{daily: []event.DayUse{{Day: utc("2026-08-01T00:00:00"), Use: event.Use{Sent: used}}},
			recent: recent}
		u := newUsage(t, store, func() time.Time { return utc(now) }, func(_ *usage.Config, d *usage.Deps) {
			d.Created = func(string) time.Time { return utc(created) }
		})
		r := must.Get(u.Usage(t.Context(), event.UsageOf{Account: "acc_1"}))(t)
		if r.Projection != (event.Projection{Events: want, Certain: certain}) {
			t.Errorf("%s, account of %s: %+v, want %d", now, created, r.Projection, want)
		}
	}
	old := "2026-01-01T00:00:00"
	f("2026-08-11T00:00:00", old, 1000, 700, 1000+21*100, true)                      // 100 a day, 21 days to go
	f("2026-08-11T00:00:00", old, 1000, 0, 1000, true)                               // nothing of late
	f("2026-08-31T23:59:59.999", old, 1000, 700, 1000, true)                         // nothing to come
	f("2026-08-01T00:00:00", old, 0, 700, 31*100, false)                             // the rate is of last month
	f("2026-08-01T23:59:59.999", old, 0, 0, 0, false)                                // less than a day of the period
	f("2026-08-02T00:00:00", old, 0, 0, 0, true)                                     //
	f("2026-08-11T00:00:00", "2026-08-09T00:00:00", 100, 100, 100+21*50, true)       // the account is two days old
	f("2026-08-11T00:00:00", "2026-08-10T00:00:00.001", 100, 100, 100+21*100, false) // not quite a day
	f("2026-08-11T00:00:00", "2026-08-10T23:59:59", 10, 10, 10+21*24*10, false)      // a second: counted as an hour
	f("2026-08-11T00:00:00", "2026-08-12T00:00:00", 10, 10, 10+21*24*10, false)      // a clock that is wrong
	f("2026-08-01T00:00:00", old, 1<<62, 1<<62, 1<<62, false)                        // it does not overflow
}

// The last 30 days end with today, in UTC, and each of them is there.
func TestLastDays(t *testing.T) {
	store := &fakeStore{daily: []event.DayUse{{Day: utc("2026-08-20T00:00:00"), Use: event.Use{Sent: 7}}}}
	zone := time.FixedZone("", 5*60*60)
	u := newUsage(t, store, func() time.Time { return utc("2026-08-21T22:24:36").In(zone) })
	d := must.Get(u.LastDays(t.Context(), event.UsageOf{Account: "acc_1"}))(t)
	from, to := utc("2026-07-23T00:00:00"), utc("2026-08-22T00:00:00")
	want := event.UsageSpan{From: from, To: to, Recent: from, EndpointDays: true}
	if diff := cmp.Diff(want, store.span); diff != "" || !d.From.Equal(from) || !d.To.Equal(to) {
		t.Errorf("the span is wrong: %s", diff)
	}
	if len(d.Daily) != 30 || !d.Daily[0].Day.Equal(from) || d.Daily[28].Sent != 7 || d.Daily[29].Total() != 0 {
		t.Errorf("the days are %v", d.Daily)
	}
	store.err = event.ErrUnavailable
	if _, err := u.LastDays(t.Context(), event.UsageOf{Account: "acc_1"}); !errors.Is(err, event.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// A cheap count is made for every call, an expensive one is cached for five seconds, and callers that arrive during a
// count share the next one.
func TestCountsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{took: 50 * time.Millisecond}
		u := newUsage(t, store, time.Now)
		ask := func() *event.Usage {
			r, err := u.Usage(t.Context(), event.UsageOf{Account: "acc_1"})
			is.OK(t, err)
			return r
		}
		counted := func(want int64) {
			t.Helper()
			is.Equal(t, store.counts.Swap(0), want, "counted … times")
		}
		ask()
		ask()
		counted(2)
		var wg sync.WaitGroup
		wg.Go(func() { ask() })
		time.Sleep(10 * time.Millisecond)
		for range 20 { // the running count began before they asked
			wg.Go(func() {
				asked := time.Now()
				if r := ask(); r.AsOf.Add(-store.took).Before(asked) {
					t.Error("the answer is older than the question")
				}
			})
		}
		wg.Wait()
		counted(2)
		store.took = 200 * time.Millisecond
		ask()
		for range 5 {
			ask()
		}
		counted(1)
		time.Sleep(5 * time.Second)
		ask()
		counted(1)

		ctx, leave := context.WithCancel(t.Context())
		time.Sleep(5 * time.Second)
		wg.Go(func() { ask() })
		synctest.Wait()
		wg.Go(func() {
			if _, err := u.Usage(ctx, event.UsageOf{Account: "acc_1"}); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller whose context was cancelled: %v", err)
			}
		})
		synctest.Wait()
		leave()
		wg.Wait()
	})
}

// A cached count is not used after its month has ended.
func TestCachedCountEndsWithItsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // bubbles begin at midnight of 2000-01-01
		store := &fakeStore{took: time.Second}
		u := newUsage(t, store, time.Now)
		time.Sleep(31*24*time.Hour - 3*time.Second)
		for _, want := range []time.Month{time.January, time.February} {
			r := must.Get(u.Usage(t.Context(), event.UsageOf{Account: "acc_1"}))(t)
			is.Equal(t, r.From.Month(), want, r)
			time.Sleep(2 * time.Second)
		}
	})
}

// Current returns a count of the last 30 s, and counts nothing without an allowance. Usage counts for every call.
func TestCurrentIsAtMostHalfAMinuteOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		limited := newUsage(t, store, time.Now, func(c *usage.Config, _ *usage.Deps) { c.Allowance = 5 })
		unlimited := newUsage(t, store, time.Now)
		f := func(u *usage.Usage, want int64) {
			t.Helper()
			if _, _, err := u.Current(t.Context(), "acc_1"); err != nil {
				t.Error(err)
			}
			is.Equal(t, store.counts.Swap(0), want, "counted … times")
		}
		f(unlimited, 0)
		f(limited, 1)
		time.Sleep(30*time.Second - time.Millisecond)
		f(limited, 0)
		time.Sleep(time.Millisecond)
		f(limited, 1)
		if _, err := limited.Usage(t.Context(), event.UsageOf{Account: "acc_1"}); err != nil || store.counts.Swap(0) != 1 {
			t.Error("Usage returns an old count")
		}
	})
}

func TestErrorsAreNotCached(t *testing.T) {
	store := &fakeStore{err: event.ErrUnavailable}
	u := newUsage(t, store, time.Now, func(c *usage.Config, _ *usage.Deps) { c.Allowance = 5 })
	for range 2 {
		if _, _, err := u.Current(t.Context(), "acc_1"); !errors.Is(err, event.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
	store.err = nil
	if _, _, err := u.Current(t.Context(), "acc_1"); err != nil {
		t.Errorf("%v", err)
	}
}

// The writer counts at once and then every ten seconds, also after errors; an outage is logged once.
func TestRunCountsAndLogsAnOutageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		unavailable := errors.New("clickhouse is unavailable")
		var failing atomic.Bool
		var calls atomic.Int64
		u := newUsage(t, &fakeStore{}, time.Now, func(_ *usage.Config, d *usage.Deps) {
			d.Log = slog.New(slog.NewTextHandler(&log, nil))
			d.Counter = counter(func(context.Context) error {
				calls.Add(1)
				if failing.Load() {
					return unavailable
				}
				return nil
			})
		})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			is.OK(t, u.Run(ctx))
		})
		synctest.Wait()
		is.Equal(t, calls.Load(), 1, "calls at the start")
		failing.Store(true)
		time.Sleep(30*time.Second + time.Millisecond)
		failing.Store(false)
		time.Sleep(10 * time.Second)
		failing.Store(true)
		time.Sleep(20 * time.Second)
		stop()
		wg.Wait()
		if n := strings.Count(log.String(), "clickhouse is unavailable"); calls.Load() != 7 || n != 2 {
			t.Errorf("%d calls, %d lines\n%s", calls.Load(), n, log.String())
		}
		idle, stopIdle := context.WithCancel(t.Context())
		wg.Go(func() {
			is.OK(t, newUsage(t, &fakeStore{}, time.Now).Run(idle))
		})
		synctest.Wait()
		stopIdle()
		wg.Wait()
	})
}

func TestNewReportsAllFaults(t *testing.T) {
	_, err := usage.New(usage.Config{Allowance: -1}, usage.Deps{})
	for _, fault := range []string{"allowance", "intervals", "dependency"} {
		is.Failed(t, err, fault, "does not name the %s", fault)
	}
}
