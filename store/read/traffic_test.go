package read_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/write"
)

// TestTrafficByMinuteAndHour counts requests by the minute of a day and by the hour of a longer span, in all and for
// each endpoint.
func TestTrafficByMinuteAndHour(t *testing.T) {
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	hour := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	day := hour.Truncate(24*time.Hour).AddDate(0, 0, -4)
	for _, x := range []struct {
		endpoint int
		status   event.Status
		at       time.Time
	}{
		{0, event.Delivered, hour.Add(-time.Millisecond)}, // outside a span that begins with the hour
		{0, event.Delivered, hour}, {0, event.Retrying, hour.Add(59 * time.Second)},
		{1, event.Delivered, hour.Add(61 * time.Second)},
		{0, event.Failed, hour.Add(time.Hour)}, {0, event.Delivered, hour.Add(2 * time.Hour)},
		// on a day that is counted by the day
		{1, event.Delivered, day.Add(12 * time.Hour)}, {1, event.Retrying, day.Add(13 * time.Hour)},
	} {
		e := b.Event(x.endpoint)
		b.ProduceEvents(e)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", x.status, func(o *event.Outcome) { o.Attempt.StartedAt = x.at }))
	}
	// waits until everything is stored
	if _, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 1}); err != nil {
		t.Fatal(err)
	}
	check := func(account string, from, to time.Time, want event.Traffic) {
		t.Helper()
		got, err := r.Traffic(t.Context(), account, from, to)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	ok, failed := event.Requests{Attempts: 1, Delivered: 1}, event.Requests{Attempts: 1, Failed: 1}
	both := event.Requests{Attempts: 2, Delivered: 1, Failed: 1}
	check(storetest.Account, hour.Add(30*time.Second), hour.Add(time.Hour+time.Second), event.Traffic{
		Step: time.Minute,
		Points: []event.TrafficPoint{
			{At: hour, Requests: both}, {At: hour.Add(time.Minute), Requests: ok}, {At: hour.Add(time.Hour), Requests: failed}},
		Endpoints: []event.EndpointTraffic{{Endpoint: "ep_0", Requests: event.Requests{Attempts: 3, Delivered: 1, Failed: 2}},
			{Endpoint: "ep_1", Requests: ok}},
	})
	check(storetest.Account, hour.Add(time.Minute).AddDate(0, 0, -2), hour.Add(time.Minute), event.Traffic{
		Step: time.Hour,
		Points: []event.TrafficPoint{
			{At: hour.Add(-time.Hour), Requests: ok}, {At: hour, Requests: event.Requests{Attempts: 3, Delivered: 2, Failed: 1}},
		},
		Endpoints: []event.EndpointTraffic{{Endpoint: "ep_0", Requests: event.Requests{Attempts: 3, Delivered: 2, Failed: 1}},
			{Endpoint: "ep_1", Requests: ok}},
	})
	check(storetest.Account, day.Add(-2*time.Hour), day.AddDate(0, 0, 1), event.Traffic{
		Step: time.Hour,
		Points: []event.TrafficPoint{
			{At: day.Add(12 * time.Hour), Requests: ok}, {At: day.Add(13 * time.Hour), Requests: failed},
		},
		Endpoints: []event.EndpointTraffic{{Endpoint: "ep_1", Requests: both}},
	})
	if n := b.QuerySum("SELECT sum(attempts) FROM attempts_day FINAL WHERE t = toDateTime('" + day.Format(time.DateTime) +
		"', 'UTC')"); n != 2 {
		t.Errorf("%d requests of a whole day are counted by the day", n)
	}
	check("acc_2", hour.AddDate(0, 0, -2), hour, event.Traffic{Step: time.Hour})
}
