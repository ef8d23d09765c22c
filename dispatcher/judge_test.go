package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

func TestClassify(t *testing.T) {
	both := []string{"3xx", "4xx"}
	f := func(status int, failure event.ErrorCode, retryOn []string, want verdict) {
		t.Helper()
		if got := classify(status, failure, retryOn); got != want {
			t.Errorf("%d %s with retry_on %v: %+v, want %+v", status, failure, retryOn, got, want)
		}
	}
	again := func(code event.ErrorCode) verdict { return verdict{fate: retry, code: code} }
	final := func(code event.ErrorCode, r event.Reason) verdict { return verdict{fail, code, r} }
	for _, status := range []int{200, 201, 202, 204, 206, 299} {
		f(status, "", nil, verdict{fate: delivered})
	}
	for _, status := range []int{408, 409, 425, 429, 500, 502, 503, 504, 599, 101, 600, 999} {
		f(status, "", nil, again(event.CodeHTTPStatus))
	}
	f(410, "", both, final(event.CodeHTTPStatus, event.Gone410))
	f(410, "", []string{"410"}, final(event.CodeHTTPStatus, event.Gone410))
	f(400, "", both, again(event.CodeHTTPStatus))
	f(404, "", nil, final(event.CodeHTTPStatus, event.NotRetryable))
	f(404, "", []string{"404"}, again(event.CodeHTTPStatus))
	f(401, "", []string{"404", "3xx"}, final(event.CodeHTTPStatus, event.NotRetryable))
	for _, status := range []int{301, 302, 303, 307, 308} {
		f(status, "", both, again(event.CodeRedirectBlocked))
		f(status, "", []string{"4xx"}, final(event.CodeRedirectBlocked, event.NotRetryable))
	}
	f(304, "", both, again(event.CodeHTTPStatus))
	f(302, "", []string{"302"}, again(event.CodeRedirectBlocked))
	for _, code := range []event.ErrorCode{
		event.CodeTimeout, event.CodeDNS, event.CodeConnectionRefused, event.CodeConnectionReset, event.CodeNetworkUnreachable,
		event.CodeNetwork, event.CodeTLS, event.CodeAddressBlocked, event.CodeResponseTooLarge, event.CodeInternal,
	} {
		f(0, code, nil, again(code))
	}
}

// What was erased is not sent any more, nor what is too old.
func TestGonePayload(t *testing.T) {
	now := time.Now()
	erased, kept, old := &event.Event{ID: id.Lowest(now)}, &event.Event{ID: id.Lowest(now.Add(-time.Hour))}, &event.Event{ID: id.Lowest(now.AddDate(0, 0, -31))}
	d := &Dispatcher{cfg: Config{RetentionDays: 30}, now: func() time.Time { return now }, erased: func(e id.ID) bool { return e == erased.ID }}
	dest := &config.Destination{Enabled: true}
	job := id.Lowest(now).Text(id.Recovery)
	for _, c := range []struct {
		e    *event.Event
		run  string
		want ending
	}{
		{erased, "", ending{event.Failed, event.PayloadExpired}},
		{erased, job, ending{event.Skipped, event.PayloadExpired}},
		{old, "", ending{event.Failed, event.PayloadExpired}},
		{old, job, ending{event.Skipped, event.PayloadExpired}},
		{kept, "", ending{}},
	} {
		if got := d.endOf(&event.Work{Event: c.e, Run: c.run, Attempt: 1}, dest); got != c.want {
			t.Errorf("%s in run %q: %+v, want %+v", c.e.ID, c.run, got, c.want)
		}
	}
}

// The time of a chain costs nothing to know: every hop asks for it.
func TestBegan(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	e := &event.Event{ID: id.Lowest(at)}
	later := at.Add(time.Hour)
	for run, want := range map[string]time.Time{
		"": at, id.Lowest(later).Text(id.Run): later, id.Lowest(later).Text(id.Recovery): later, "run": at, "run_": at, "run_x": at,
	} {
		if got := began(&event.Work{Event: e, Run: run}); !got.Equal(want) {
			t.Errorf("run %q began %v, want %v", run, got, want)
		}
	}
	w := &event.Work{Event: e}
	if n := testing.AllocsPerRun(100, func() { began(w) }); n != 0 {
		t.Errorf("%v allocations for an automatic chain", n)
	}
}

func BenchmarkBegan(b *testing.B) {
	for name, run := range map[string]string{"automatic": "", "run": id.Lowest(time.Now()).Text(id.Run)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			w := &event.Work{Event: &event.Event{ID: id.Lowest(time.Now())}, Run: run}
			for b.Loop() {
				began(w)
			}
		})
	}
}
