package dispatcher

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Re-checks of parked deliveries do not read the body: it is read once per event, for both destinations, when the
// event is read. After a change of the endpoint, workers read it once more, and the current filter counts.
func TestParkedDeliveriesDoNotReadBodies(t *testing.T) {
	const events = 50
	endpoint := simEndpoint("ep_1", "dst_down", "dst_other")
	endpoint.Destinations[0].Filter = &filter.Filter{Body: map[string]any{"id": 1.0}}
	endpoint.Destinations[1].Filter = &filter.Filter{Body: map[string]any{"id": 2.0}}
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		up := time.Now().Add(30 * time.Minute)
		s.answer = func(_ string, now time.Time) (time.Duration, int) {
			if now.Before(up) {
				return time.Millisecond, 0
			}
			return time.Millisecond, 200
		}
		for range events {
			s.accept(endpoint)
		}
		time.Sleep(15 * time.Minute)
		read := func() float64 { return testutil.ToFloat64(s.d.metrics.filterEvaluations) }
		if n, passes := read(), s.passesInAll(); n != events || passes < 10*events {
			t.Errorf("%v bodies were read for %d events that were parked %d times", n, events, passes)
		}
		if n := s.statuses(); n["skipped filtered"] != events || n["skipped"]+n["delivered"] != 0 {
			t.Errorf("%v", n)
		}
		// This change leaves the filters alone; the next one sets a filter that matches nothing.
		s.view.change("ep_1", func(e *config.Endpoint) { e.Name = "renamed" })
		time.Sleep(3 * time.Hour)
		if n := read(); n > 2*events {
			t.Errorf("%v bodies were read after a change of the endpoint, for %d events", n, events)
		}
		if n := s.statuses(); n["delivered"] != events {
			t.Errorf("%v", n)
		}
	})
}

// The reader and the timer let a delivery pass if they would have to read its body. A worker evaluates the filter.
func TestOnlyWorkersReevaluateFilters(t *testing.T) {
	endpoint := simEndpoint("ep_1", "dst_1")
	endpoint.Destinations[0].Filter = &filter.Filter{Body: map[string]any{"id": 2.0}}
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		eventID := must.Get(s.ids.New(0))(t)
		work := &event.Work{
			Event: &event.Event{
				ID: eventID, Account: "acc_1", Endpoint: "ep_1", Method: "POST", Body: []byte(`{"id":1}`), Dests: []string{"dst_1"},
			},
			Dest: "dst_1", Trigger: event.TriggerInitial, Attempt: 1,
		}
		again := func() *event.Work { // as it comes back from a retry topic
			record, err := work.Record()
			must.Do(t, err)
			back, err := event.DecodeWork(record)
			must.Do(t, err)
			return back
		}
		step := func(what string, readBody bool, want event.Reason, bodies float64) {
			t.Helper()
			work = again()
			is.Equal(t, s.d.rules.Check(work, readBody).Reason, want, "%s: ends", what)
			is.Equal(t, testutil.ToFloat64(s.d.metrics.filterEvaluations), bodies, "%s: bodies were read", what)
		}
		step("the reader", false, "", 0)
		step("a worker", true, event.Filtered, 1)
		step("the reader, after the change", false, event.Filtered, 1)
		s.view.change("ep_1", func(e *config.Endpoint) {
			e.Destinations[0].Filter = &filter.Filter{Body: map[string]any{"id": 1.0}}
		})
		step("the reader, after a change", false, "", 1)
		step("a worker, after a change", true, "", 2)
		step("a worker, after the change", true, "", 2)
		s.view.change("ep_1", func(e *config.Endpoint) { e.Destinations[0].Filter = &filter.Filter{Types: []string{"x"}} })
		step("a filter on the type", false, event.Filtered, 2)
	})
}

// The cache of compiled filters is bounded by the number of conditions, however many endpoints there are.
func TestCompiledFiltersAreBounded(t *testing.T) {
	var b bodyFilters
	body := map[string]any{}
	for i := range 1000 {
		body[string(rune('a'+i%26))+string(rune('a'+i/26))] = "x"
	}
	for i := range 300 {
		endpoint := simEndpoint("ep_"+time.Duration(i).String(), "dst_1")
		endpoint.Destinations[0].Filter = &filter.Filter{Body: body}
		for endpoint.Rev = range int64(3) {
			b.compiled(endpoint)
		}
		if b.conditions > maxConditions || b.conditions != len(b.endpoints)*len(body) {
			t.Fatalf("%d conditions of %d endpoints", b.conditions, len(b.endpoints))
		}
	}
}
