package ingest

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The record of an accepted event names its span: in a trace of its own for a provider, whatever its headers say, and
// in the caller's trace for an API key. A rejected request is not traced, and without traces no record names a span.
func TestRecordsNameTheSpan(t *testing.T) {
	const callers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	recorder := must.Get(spans.New(spans.Config{URL: "http://127.0.0.1:1", Sample: "1"},
		spans.Deps{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now}))(t)
	for name, r := range map[string]*spans.Recorder{"on": recorder, "off": nil} {
		w := newWorld(t, options{spans: r})
		w.want(w.post("{}", "Traceparent", callers), http.StatusOK)
		w.change(func(ep *config.Endpoint) { ep.Verification = w.verification(verify.GitHub, "secret-of-the-provider") })
		w.want(w.post("{}", "Traceparent", callers), http.StatusUnauthorized)
		sent := &event.Event{Source: event.SourceAPI, Verdict: event.VerdictUnverified, Method: "POST", Trace: callers}
		must.Do(t, w.ingest.Acceptor().Accept(t.Context(), sent, w.EndpointByToken(token)))
		seen := 0
		for _, e := range w.stored() {
			trace := event.TraceID(e.Trace)
			switch {
			case e.Verdict == event.VerdictRejected || r == nil:
				is.Equal(t, e.Trace, "", "%s: %s has the span", name, e.Verdict)
			case e.Trace == callers || trace == "" || (trace == callers[3:35]) != (e.Source == event.SourceAPI):
				t.Errorf("%s: %s has the span %q", name, e.Source, e.Trace)
			}
			seen++
		}
		is.Equal(t, seen, 3, "%s: events are stored", name)
	}
}
