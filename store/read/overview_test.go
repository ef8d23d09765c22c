package read_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// The overview and the traffic of an endpoint have exactly the requests that were made: first attempts, retries,
// replays, on busy and on bad endpoints, and no others.
func TestOverviewCountsRequests(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	now := time.Now().UTC().Truncate(time.Hour).Add(30 * time.Minute)
	minute := now.Truncate(time.Minute)
	request := func(endpoint int, dest string, status event.Status, trigger event.Trigger, at time.Time, ms int) {
		e := b.Event(endpoint)
		b.ProduceEvents(e)
		b.ProduceOutcomes(b.Outcome(e, dest, status, func(o *event.Outcome) {
			o.Attempt.StartedAt, o.Attempt.Trigger = at, trigger
			o.Attempt.Duration = time.Duration(ms) * time.Millisecond
		}))
	}
	request(0, "dst_a", event.Delivered, event.TriggerInitial, minute, 10)
	request(0, "dst_a", event.Retrying, event.TriggerInitial, minute, 30)
	request(0, "dst_b", event.Delivered, event.TriggerRetry, minute, 10)
	request(0, "dst_b", event.Delivered, event.TriggerReplay, minute.Add(-20*time.Minute), 10)
	request(0, "dst_a", event.Delivered, event.TriggerInitial, now.Add(-2*time.Hour), 10)
	request(1, "dst_c", event.Failed, event.TriggerInitial, minute.Add(-10*time.Minute), 50)
	request(1, "dst_c", event.Delivered, event.TriggerInitial, now.Add(-30*time.Hour), 10) // before the last day
	request(2, "dst_d", event.Delivered, event.TriggerInitial, now.Add(-20*time.Hour), 10)
	b.WaitCaughtUp(r)
	show := func(m event.Measured) string {
		return fmt.Sprint(m.Attempts, m.Delivered, m.Failed, m.First.Attempts, m.First.Delivered)
	}
	o := must.Get(r.Overview(t.Context(), storetest.Account, event.TrafficDay, now))(t)
	if show(o.Hour) != "5 3 2 3 1" || o.Hour.Latency.P50 != 10 || o.Hour.Latency.P99 < 40 || !o.AsOf.IsZero() {
		t.Errorf("the last hour has %s, %v, as of %s", show(o.Hour), o.Hour.Latency, o.AsOf)
	}
	var minutes []string
	for _, s := range o.Minutes {
		minutes = append(minutes, s.At.Format("04 ")+show(s.Measured))
	}
	is.Same(t, minutes, []string{"10 1 1 0 0 0", "20 1 0 1 1 0", "30 3 2 1 2 1"})
	list := func(groups []event.MeasuredGroup) (all []string) {
		for _, g := range groups {
			text := g.ID + " " + show(g.Hour)
			for _, s := range g.Day {
				text += fmt.Sprintf(", %.0f h ago %d of %d", now.Truncate(time.Hour).Sub(s.At).Hours(), s.Failed, s.Attempts)
			}
			all = append(all, text)
		}
		return all
	}
	busiest := []string{"ep_0 4 3 1 2 1, 2 h ago 0 of 1, 0 h ago 1 of 4", "ep_1 1 0 1 1 0, 0 h ago 1 of 1",
		"ep_2 0 0 0 0 0, 20 h ago 0 of 1"}
	is.Same(t, list(o.Busiest), busiest)
	is.Same(t, list(o.Worst), []string{busiest[1], busiest[0]})
	is.Equal(t, fmt.Sprint(o.Busiest[0].Destinations), "[{dst_a {2 1 1}} {dst_b {2 2 0}}]",
		"the destinations of the busiest endpoint have")
	d := must.Get(r.DestinationTraffic(t.Context(), storetest.Account, "ep_0", event.TrafficDay, now))(t)
	if diff := cmp.Diff([]string{"dst_a 2 1 1 2 1, 2 h ago 0 of 1, 0 h ago 1 of 2", "dst_b 2 2 0 0 0, 0 h ago 0 of 2"},
		list(d.Destinations)); diff != "" {
		t.Error(diff)
	}
	for span, want := range map[event.TrafficRange]string{
		event.TrafficHour:      "dst_a 2 1 1 2 1 in 1 steps, dst_b 2 2 0 0 0 in 2 steps", // two minutes
		event.TrafficDay:       "dst_a 3 2 1 3 2 in 2 steps, dst_b 2 2 0 0 0 in 1 steps",
		event.TrafficRanges[4]: "dst_c 2 1 1 2 1 in 2 steps",
	} {
		endpoint := "ep_0"
		if span == event.TrafficRanges[4] {
			endpoint = "ep_1"
		}
		d, err := r.DestinationTraffic(t.Context(), storetest.Account, endpoint, span, now)
		var got []string
		for _, g := range d.Destinations {
			got = append(got, fmt.Sprintf("%s %s in %d steps", g.ID, show(g.Total), len(g.Steps)))
		}
		if text := strings.Join(got, ", "); err != nil || text != want {
			t.Errorf("%s: %s, %v; want %s", span.Name, text, err, want)
		}
	}
	for i, want := range []string{"4 2 0", "5 3 0", "6 4 0", "7 3 1", "8 - 0", "8 - 0"} {
		span := event.TrafficRanges[i]
		x := must.Get(r.Overview(t.Context(), storetest.Account, span, now))(t).Range
		steps := fmt.Sprint(len(x.Steps))
		if span.Step > time.Hour { // depends on the time of day
			steps = "-"
		}
		is.Equal(t, fmt.Sprint(x.Total.Attempts, " ", steps, " ", len(x.DayBefore)), want, span.Name)
	}
	before := must.Get(r.DestinationTraffic(t.Context(), storetest.Account, "ep_1", event.TrafficDay, now))(t)
	if n := len(before.Destinations[0].DayBefore); n != 1 {
		t.Errorf("the day before has %d hours with requests", n)
	}
	if none, err := r.Overview(t.Context(), "acc_2", event.TrafficHour, now); err != nil || none.Hour.Attempts != 0 ||
		none.Busiest == nil || len(none.Busiest)+len(none.Worst)+len(none.Minutes) != 0 {
		t.Errorf("another account has %+v, %v", none, err)
	}
}
