package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// /readyz answers from one check per second, shows a change within a second, or within 2.5 s if a check hangs, and
// only changes are logged.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var state atomic.Pointer[string]
		set := func(s string) { state.Store(&s) }
		set("well")
		var out bytes.Buffer
		r := NewReadiness(slog.New(slog.NewTextHandler(&out, nil)), []Check{
			{Name: "log", Func: func(context.Context) error { return nil }},
			{Name: "store", Func: func(ctx context.Context) error {
				asked.Add(1)
				switch *state.Load() {
				case "hangs":
					<-ctx.Done()
					return ctx.Err()
				case "broken":
					return errors.New("dial clickhouse at db.internal")
				}
				return nil
			}},
		})
		a := &public{ready: r}
		is := func(when string, status int, store bool) {
			t.Helper()
			w := httptest.NewRecorder()
			a.serveReadiness(w)
			var answer struct{ Checks []checkView }
			must.Do(t, json.Unmarshal(w.Body.Bytes(), &answer))
			if w.Code != status || len(answer.Checks) != 2 || answer.Checks[1].OK != store ||
				strings.Contains(w.Body.String(), "db.internal") {
				t.Errorf("%s: %d %s", when, w.Code, w.Body)
			}
			if failed := failedChecks(t, r); len(failed) != 2 || (failed["store"] == 0) != store {
				t.Errorf("%s: the metric says %v", when, failed)
			}
		}
		is("before the first round", 503, false)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		synctest.Wait()
		is("at first", 200, true)
		for range 1000 {
			is("often", 200, true)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("1,000 requests caused %d checks", n)
		}
		for _, c := range []struct {
			state  string
			within time.Duration
			status int
		}{{"broken", time.Second, 503}, {"well", time.Second, 200}, {"hangs", readyEvery + readyTimeout, 503},
			{"well", readyEvery + readyTimeout, 200}} {
			set(c.state)
			time.Sleep(c.within)
			synctest.Wait()
			is(c.state, c.status, c.status == 200)
		}
		set("broken")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(out.String(), "not ready"); n != 3 || strings.Count(out.String(), "passes again") != 2 ||
			!strings.Contains(out.String(), "db.internal") {
			t.Errorf("%d lines for three failures:\n%s", n, out.String())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A node is ready while an optional check fails, and says which one does.
func TestReadyWithoutOptionalParts(t *testing.T) {
	fails := func(context.Context) error { return errors.New("down") }
	passes := func(context.Context) error { return nil }
	for _, c := range []struct {
		log, store func(context.Context) error
		status     int
		answer     string
	}{
		{passes, passes, 200, `{"status":"ready","checks":[{"name":"log","ok":true,"required":true},` +
			`{"name":"store","ok":true,"required":false}]}`},
		{passes, fails, 200, `{"status":"ready","checks":[{"name":"log","ok":true,"required":true},` +
			`{"name":"store","ok":false,"required":false}]}`},
		{fails, passes, 503, `{"status":"not ready","checks":[{"name":"log","ok":false,"required":true},` +
			`{"name":"store","ok":true,"required":false}]}`},
	} {
		var out bytes.Buffer
		r := NewReadiness(slog.New(slog.NewTextHandler(&out, nil)), []Check{
			{Name: "log", Func: c.log}, {Name: "store", Func: c.store, Optional: true},
		})
		r.round(t.Context(), true)
		w := httptest.NewRecorder()
		(&public{ready: r}).serveReadiness(w)
		var got, want any
		must.Do(t, errors.Join(json.Unmarshal(w.Body.Bytes(), &got), json.Unmarshal([]byte(c.answer), &want)))
		if w.Code != c.status || !reflect.DeepEqual(got, want) {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.answer)
		}
		if strings.Contains(out.String(), "not ready") != (c.status == 503) {
			t.Errorf("%d: %s", c.status, out.String())
		}
	}
}

// A check with an interval of its own is repeated less often while it passes, and each second while it fails.
func TestReadinessIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, fails atomic.Int64
		r := NewReadiness(slog.New(slog.DiscardHandler), []Check{
			{Name: "log", Func: func(context.Context) error { return nil }},
			{Name: "store", Every: 5 * time.Second, Optional: true, Func: func(context.Context) error {
				asked.Add(1)
				if fails.Load() != 0 {
					return errors.New("down")
				}
				return nil
			}},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for _, c := range []struct {
			fails, least, most int64
			failed             float64
		}{{0, 12, 13, 0}, {1, 55, 60, 1}, {0, 12, 13, 0}} {
			fails.Store(c.fails)
			time.Sleep(time.Minute - time.Millisecond)
			synctest.Wait()
			if n := asked.Swap(0); n < c.least || n > c.most { // the first round may be over before this loop begins
				t.Errorf("failing %d: asked %d times in a minute, want %d to %d", c.fails, n, c.least, c.most)
			}
			if failed := failedChecks(t, r); failed["store"] != c.failed || failed["log"] != 0 {
				t.Errorf("failing %d: the metric says %v", c.fails, failed)
			}
		}
		cancel()
		is.OK(t, <-done)
	})
}

// A node that is told to stop is not ready from that moment on, whatever its checks say.
func TestStoppingNodeIsNotReady(t *testing.T) {
	r := NewReadiness(slog.New(slog.DiscardHandler), []Check{
		{Name: "log", Func: func(context.Context) error { return nil }},
	})
	for _, want := range []struct {
		status int
		answer string
	}{
		{200, `{"status":"ready","checks":[{"name":"log","ok":true,"required":true}]}`},
		{503, `{"status":"not ready","checks":[{"name":"log","ok":true,"required":true},` +
			`{"name":"stopping","ok":false,"required":true}]}`},
	} {
		r.round(t.Context(), false)
		w := httptest.NewRecorder()
		(&public{ready: r}).serveReadiness(w)
		var got, expected any
		must.Do(t, errors.Join(json.Unmarshal(w.Body.Bytes(), &got), json.Unmarshal([]byte(want.answer), &expected)))
		if w.Code != want.status || !reflect.DeepEqual(got, expected) {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, want.status, want.answer)
		}
		r.Stop()
	}
	if failed := failedChecks(t, r); failed["stopping"] != 1 {
		t.Errorf("the metric says %v", failed)
	}
}

// failedChecks returns the metric by check.
func failedChecks(t *testing.T, r *Readiness) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r)
	families := must.Get(registry.Gather())(t)
	failed := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		failed[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue() // labels are sorted by name: check, required
	}
	return failed
}
