package spans_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/spanstest"
)

const callers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

// start runs a recorder for a collector until stop is called.
func start(t testing.TB, cfg spans.Config) (r *spans.Recorder, registry *prometheus.Registry, logs *bytes.Buffer,
	stop func()) {
	t.Helper()
	registry, logs = prometheus.NewRegistry(), &bytes.Buffer{}
	r, err := spans.New(cfg, spans.Deps{Log: slog.New(slog.NewTextHandler(logs, nil)), Metrics: registry, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		is.OK(t, r.Run(ctx))
	})
	<-r.Ready()
	stop = sync.OnceFunc(func() { cancel(); run.Wait() })
	t.Cleanup(stop)
	return r, registry, logs, stop
}

func newEvent(t testing.TB, source event.Source) *event.Event {
	t.Helper()
	d := must.Get(id.NewGenerator(nil).New(3))(t)
	return &event.Event{
		ID: d, Account: "acc_1", Endpoint: "ep_1", Source: source, Verdict: event.VerdictVerified, Method: "POST",
		Query: "key=query-secret", Header: []event.Field{{Name: "Authorization", Value: "header-secret"}},
		Body: []byte("body-secret"), Dests: []string{"dst_1"},
	}
}

// accept accepts an event of a provider.
func accept(t testing.TB, r *spans.Recorder, e *event.Event, caller string) {
	t.Helper()
	a := r.Accept(time.Now())
	a.Step("verify")
	a.Linked(e, e.Endpoint, caller)
	a.End(e, nil)
	if event.TraceID(e.Trace) == "" {
		t.Fatalf("the event is not traced: %q", e.Trace)
	}
}

// attempt makes an attempt whose answer has a code, and returns its traceparent.
func attempt(r *spans.Recorder, work *event.Work, code int, failure event.ErrorCode) string {
	h := http.Header{"Traceparent": {callers}, "Tracestate": {"vendor=1"}}
	a := r.Attempt(work, time.Now())
	sent := a.Propagate(h)
	hooks := httptrace.ClientTrace{}
	a.Hook(&hooks)
	if a != nil {
		hooks.DNSStart(httptrace.DNSStartInfo{})
		hooks.DNSDone(httptrace.DNSDoneInfo{})
		hooks.ConnectStart("tcp", "203.0.113.7:443")
		hooks.ConnectDone("tcp", "203.0.113.7:443", nil)
		for range 2 { // the guard's handshake, then net/http's, which has nothing left to do
			hooks.TLSHandshakeStart()
			hooks.TLSHandshakeDone(tls.ConnectionState{}, nil)
		}
		hooks.WroteRequest(httptrace.WroteRequestInfo{})
		hooks.GotFirstResponseByte()
	}
	a.End(&event.Attempt{Code: code, ErrorCode: failure, URL: "https://a.example/path-secret"}, time.Now())
	if a != nil { // late hooks of a connection that nobody waits for any more
		hooks.ConnectStart("tcp", "203.0.113.8:443")
		hooks.ConnectDone("tcp", "203.0.113.8:443", errors.New("late"))
	}
	if sent != "" && (h.Get("Traceparent") != sent || h.Get("Tracestate") != "") {
		return "wrong headers"
	}
	return sent
}

// One trace has the acceptance and all attempts of an event; a replay has its own, linked to it.
func TestTraceOfAnEvent(t *testing.T) {
	c := spanstest.New(t, nil)
	r, registry, _, stop := start(t, spans.Config{
		URL: c.URL, Sample: "1", Headers: "Authorization=Bearer%20collector-token, X-Team=a", Node: "node-1", Version: "1.2",
	})
	e := newEvent(t, event.SourceProvider)
	accept(t, r, e, callers)
	work := &event.Work{Event: e, Dest: "dst_1", Trigger: event.TriggerInitial, Attempt: 1}
	first := attempt(r, work, 503, "")
	r.Park(work, event.LaneFull, time.Now())
	retry := &event.Work{Event: e, Dest: "dst_1", Trigger: event.TriggerRetry, Attempt: 2, Trace: first,
		Due: time.Now().Add(-time.Second)}
	second := attempt(r, retry, 200, "")
	replay := &event.Work{Event: e, Dest: "dst_1", Trigger: event.TriggerReplay, Attempt: 1, Run: "run_1"}
	third := attempt(r, replay, 0, event.CodeTimeout)
	again := *replay
	again.Attempt, again.Trace = 2, third
	fourth := attempt(r, &again, 200, "")
	stop()
	all := c.Wait(t, map[string]int{"attempt": 4, "wait": 2, "park": 1, "produce": 1, "verify": 1, "DNS": 4})
	by := map[string]spanstest.Span{}
	for _, s := range all {
		by[s.Traceparent()] = s
	}
	accepted := by[e.Trace]
	if accepted.Name != "accept" || accepted.Parent != "" || len(accepted.Links) != 1 ||
		accepted.Links[0] != callers[3:52] || accepted.Attributes["http.route"] != "/in/{token}" ||
		accepted.Attributes["service.instance.id"] != "node-1" ||
		accepted.Attributes["messaging.message.id"] != e.ID.Text(id.Event) || accepted.Failed {
		t.Errorf("accepted: %+v", accepted)
	}
	for i, want := range []struct {
		traceparent, trace, parent, link string
		failed                           bool
		attribute, value                 string
	}{
		{first, accepted.Trace, accepted.ID, "", true, "error.type", "503"},
		{second, accepted.Trace, accepted.ID, first, false, "http.request.resend_count", "1"},
		{third, by[third].Trace, "", e.Trace, true, "error.type", "timeout"},
		{fourth, by[third].Trace, by[third].ID, third, false, "eventrelay.run.id", "run_1"},
	} {
		got := by[want.traceparent]
		if got.Name != "attempt" || got.Trace != want.trace || got.Parent != want.parent || got.Failed != want.failed ||
			got.Attributes[want.attribute] != want.value {
			t.Errorf("attempt %d: %+v", i+1, got)
		}
		links := strings.Join(got.Links, " ")
		if want.link != "" && links != want.link[3:52] || want.link == "" && links != "" {
			t.Errorf("attempt %d: linked to %q, want %q", i+1, links, want.link)
		}
	}
	if by[third].Trace == accepted.Trace {
		t.Error("the replay is in the trace of the event")
	}
	checkSteps(t, all)
	if n := len(spanstest.Named(all, "TLS")); n != 4 {
		t.Errorf("%d handshakes, want one for each of 4 attempts", n)
	}
	checkExport(t, c, registry, len(all))
}

// checkSteps checks the spans below attempts.
func checkSteps(t *testing.T, all []spanstest.Span) {
	t.Helper()
	parents := map[string]spanstest.Span{}
	for _, s := range all {
		parents[s.ID] = s
	}
	for name, parent := range map[string]string{"DNS": "attempt", "connect": "attempt", "first byte": "attempt",
		"verify": "accept", "produce": "accept", "wait": "accept", "park": "accept"} {
		for _, s := range spanstest.Named(all, name) {
			if parents[s.Parent].Name != parent || s.End.Before(s.Start) {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
	for _, s := range spanstest.Named(all, "connect") {
		is.Equal(t, s.Attributes["network.peer.address"], "203.0.113.7:443", "a hook that came late: %+v", s)
	}
}

// checkExport checks the request, the counters, and that nothing secret was exported.
func checkExport(t *testing.T, c *spanstest.Collector, registry *prometheus.Registry, n int) {
	t.Helper()
	if c.Header().Get("Authorization") != "Bearer collector-token" || c.Header().Get("X-Team") != "a" {
		t.Errorf("the collector got %v", c.Header())
	}
	for _, secret := range []string{"query-secret", "header-secret", "body-secret", "path-secret"} {
		if c.Contains(secret) {
			t.Errorf("%s was exported", secret)
		}
	}
	is.Equal(t, counted(t, registry, "exported"), n, "spans count as exported, %d arrived", n)
}

func counted(t *testing.T, registry *prometheus.Registry, result string) int {
	t.Helper()
	families := must.Get(registry.Gather())(t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == result {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return -1
}

// An API key's trace is continued; whether it is recorded is decided here.
func TestSentEventContinuesTheTraceOfItsCaller(t *testing.T) {
	c := spanstest.New(t, nil)
	r, _, _, _ := start(t, spans.Config{URL: c.URL, Sample: "1"})
	for caller, continued := range map[string]bool{
		callers: true, callers[:53] + "01": true, "": false, "00-" + strings.Repeat("0", 32) + callers[35:]: false,
		"ff" + callers[2:]: false, callers + "-more": false, "01" + callers[2:] + "-more": true,
		strings.ToUpper(callers): false, "01" + callers[2:] + "-" + strings.Repeat("a", 600): false,
	} {
		e := newEvent(t, event.SourceAPI)
		e.Trace = caller
		a := r.Sent(e, "ep_1")
		a.End(e, errors.New("not stored"))
		if got := event.TraceID(e.Trace); got == "" || (got == callers[3:35]) != continued || e.Trace == caller {
			t.Errorf("%q becomes %q", caller, e.Trace)
		}
	}
	quiet := must.Get(spans.New(spans.Config{URL: c.URL, Sample: "0"},
		spans.Deps{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now}))(t)
	for name, r := range map[string]*spans.Recorder{"off": nil, "not sampled": quiet} {
		e := newEvent(t, event.SourceAPI)
		e.Trace = callers[:53] + "01"
		if a := r.Sent(e, "ep_1"); a != nil || e.Trace != "" {
			t.Errorf("%s: the caller's traceparent is kept: %q", name, e.Trace)
		}
	}
}

// path is what an event costs where traces are off or it is not sampled.
func path(r *spans.Recorder, e *event.Event, work *event.Work, h http.Header, hooks *httptrace.ClientTrace,
	result *event.Attempt, now time.Time) {
	a := r.Accept(now)
	a.Step("verify")
	a.Linked(e, e.Endpoint, callers)
	a.End(e, nil)
	r.Sent(e, e.Endpoint).End(e, nil)
	s := r.Attempt(work, now)
	result.Trace = s.Propagate(h)
	s.Hook(hooks)
	s.End(result, now)
	r.Park(work, event.LaneFull, now)
}

func TestUntracedEventsCostNothing(t *testing.T) {
	quiet := must.Get(spans.New(spans.Config{URL: "http://127.0.0.1:1", Sample: "0"},
		spans.Deps{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now}))(t)
	off, err := spans.New(spans.Config{Sample: "1"}, spans.Deps{})
	if err != nil || off != nil {
		t.Fatalf("%v, %v: want no recorder", off, err)
	}
	for name, r := range map[string]*spans.Recorder{"off": off, "not sampled": quiet} {
		e, h, hooks, result, now := newEvent(t, event.SourceProvider), http.Header{}, &httptrace.ClientTrace{},
			&event.Attempt{}, time.Now()
		work := &event.Work{Event: e, Dest: "dst_1", Attempt: 1}
		is.Equal(t, testing.AllocsPerRun(100, func() { path(r, e, work, h, hooks, result, now) }), 0,
			"%s: allocations", name)
		if len(h) != 0 || hooks.DNSStart != nil || e.Trace != "" || result.Trace != "" {
			t.Errorf("%s: %v, %q, %q", name, h, e.Trace, result.Trace)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	c := spanstest.New(b, nil)
	for name, share := range map[string]string{"off": "", "unsampled": "0", "sampled": "1"} {
		b.Run(name, func(b *testing.B) {
			var r *spans.Recorder
			if share != "" {
				r, _, _, _ = start(b, spans.Config{URL: c.URL, Sample: share})
			}
			e, h, hooks, result, now := newEvent(b, event.SourceProvider), http.Header{}, &httptrace.ClientTrace{},
				&event.Attempt{}, time.Now()
			work := &event.Work{Event: e, Dest: "dst_1", Attempt: 1}
			b.ReportAllocs()
			for b.Loop() {
				path(r, e, work, h, hooks, result, now)
			}
		})
	}
}

// A collector that does not answer, or refuses, makes nobody wait: spans are dropped.
func TestCollectorThatHangs(t *testing.T) {
	hangs := make(chan struct{})
	c := spanstest.New(t, func() { <-hangs })
	r, registry, _, stop := start(t, spans.Config{URL: c.URL, Sample: "1"})
	const n = 10000 // more than the queue and a batch
	for range n {
		accept(t, r, newEvent(t, event.SourceProvider), "")
	}
	close(hangs)
	stop()
	ended, exported := counted(t, registry, "ended"), counted(t, registry, "exported")
	if ended < n || exported >= ended {
		t.Errorf("%d spans ended, %d were exported", ended, exported)
	}
}

func TestCollectorThatRefuses(t *testing.T) {
	r, registry, logs, stop := start(t, spans.Config{URL: "http://127.0.0.1:1", Sample: "1", Headers: "a=header-secret"})
	for counted(t, registry, "failed") < 3 {
		accept(t, r, newEvent(t, event.SourceProvider), "")
	}
	stop()
	if text := logs.String(); strings.Count(text, "cannot export traces") != 1 || strings.Contains(text, "header-secret") {
		t.Errorf("logged:\n%s", text)
	}
	is.Equal(t, testutil.CollectAndCount(registry, "relay_trace_spans_total"), 3, "series")
}

func TestConfig(t *testing.T) {
	for _, x := range []struct{ url, sample, headers, env string }{
		{"", "", "", ""}, {"http://collector:4318", "0.5", "a=b", ""}, {"https://x.example/otlp/v1/traces", "1", "", ""},
		{"", "1", "a=%41,,b=c=d", ""},
		{"collector:4318", "1", "", "RELAY_TRACES_URL"}, {"grpc://collector:4317", "1", "", "RELAY_TRACES_URL"},
		{"http://user:secret@collector", "1", "", "RELAY_TRACES_URL"}, {"http://c/?a=secret", "1", "", "RELAY_TRACES_URL"},
		{"http://", "1", "", "RELAY_TRACES_URL"},
		{"", "1.1", "", "RELAY_TRACES_SAMPLE"}, {"", "-1", "", "RELAY_TRACES_SAMPLE"}, {"", "NaN", "", "RELAY_TRACES_SAMPLE"},
		{"", "half", "", "RELAY_TRACES_SAMPLE"},
		{"", "1", "secret", "RELAY_TRACES_HEADERS"}, {"", "1", "=secret", "RELAY_TRACES_HEADERS"},
		{"", "1", "a=secret%0a", "RELAY_TRACES_HEADERS"}, {"", "1", "a b=secret", "RELAY_TRACES_HEADERS"},
		{"", "1", "a=%secret", "RELAY_TRACES_HEADERS"},
	} {
		env, err := spans.Config{URL: x.url, Sample: x.sample, Headers: x.headers}.Validate()
		if env != x.env || (err != nil) != (env != "") || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %q, %v", x, env, err)
		}
	}
}
