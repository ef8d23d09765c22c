// Package spans records what becomes of sampled events as OpenTelemetry spans, and exports them to the collector of the
// operator (RELAY_TRACES_URL).
//
// A trace begins when an event is accepted. The event's record carries the context of that span (event.Event.Trace),
// so any node continues it: each attempt is a span of the same trace, retries are linked to the attempt before them. A
// replay begins a trace of its own, linked to the one of the event. No request from outside decides what is sampled. Of
// a request without an API key, traceparent becomes a link only.
//
// A nil *Recorder is the recorder of a node without traces. All methods accept nil receivers and then do nothing, so
// that a caller needs no condition. Events that are not sampled cost a random number. Spans hold names, ids, sizes,
// codes and times; never a body, a header, a token or a URL.
//
// Backpressure: ended spans wait in a queue of 2,048; what finds it full is dropped and counted. Nothing waits for the
// collector. Run owns all goroutines. Begin with Recorder.Accept and Recorder.Attempt.
package spans

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Recorder begins spans.
type Recorder struct {
	tracer   trace.Tracer
	now      func() time.Time
	sample   float64
	exporter *exporter
	ready    chan struct{} // closed when Run exports
}

// Accepting is the span of an event that is being accepted, with its steps.
type Accepting struct {
	recorder *Recorder
	start    time.Time
	steps    []step
	span     trace.Span
}

type step struct {
	name  string
	start time.Time
}

// Accept decides whether the event of a request is sampled. It returns nil if not.
func (r *Recorder) Accept(start time.Time) *Accepting {
	if r == nil || rand.Float64() >= r.sample {
		return nil
	}
	return &Accepting{recorder: r, start: start, steps: make([]step, 0, 2)}
}

// Step begins the next step.
func (a *Accepting) Step(name string) {
	if a != nil {
		a.steps = append(a.steps, step{name, a.recorder.now()})
	}
}

// Linked begins the span of a provider's event, which has its account and id or gets them later. caller is the header
// traceparent of the request, which anybody may have written: it becomes a link.
func (a *Accepting) Linked(e *event.Event, endpoint, caller string) {
	if a == nil {
		return
	}
	options := []trace.SpanStartOption{trace.WithNewRoot()}
	if from := parse(caller); from.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	a.begin(context.Background(), e, endpoint, routeIngest, options)
	a.Step("produce")
}

// Routes of accepted events: the path of an ingest URL is a secret.
const (
	routeIngest = "/in/{token}"
	routeSend   = "/v1/endpoints/{endpoint_id}/events"
	routeTest   = "/v1/endpoints/{endpoint_id}/test"
)

// Sent begins the span of an event that an API key has sent, if it is sampled. Before, e.Trace is the header
// traceparent of the request: its trace is continued. Afterwards it is the span, or empty.
func (r *Recorder) Sent(e *event.Event, endpoint string) *Accepting {
	caller := e.Trace
	e.Trace = ""
	if r == nil {
		return nil
	}
	a := r.Accept(r.now())
	if a == nil {
		return nil
	}
	route, ctx := routeSend, context.Background()
	if e.Source == event.SourceTest {
		route = routeTest
	}
	if from := parse(caller); from.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
	}
	a.begin(ctx, e, endpoint, route, nil)
	a.Step("produce")
	return a
}

func (a *Accepting) begin(
	ctx context.Context, e *event.Event, endpoint, route string, options []trace.SpanStartOption,
) {
	_, a.span = a.recorder.tracer.Start(ctx, "accept", append(options, trace.WithTimestamp(a.start),
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("http.request.method", e.Method),
			attribute.String("http.route", route),
			attribute.Int("messaging.message.body.size", len(e.Body)),
			attribute.String("eventrelay.endpoint.id", endpoint),
			attribute.String("eventrelay.event.source", string(e.Source)),
			attribute.String("eventrelay.event.verification", string(e.Proof())),
		))...)
	e.Trace = format(a.span.SpanContext())
}

// End ends the span when the log has answered. It may be called from any goroutine, once.
func (a *Accepting) End(e *event.Event, err error) {
	if a == nil || a.span == nil {
		return
	}
	now := a.recorder.now()
	ctx := trace.ContextWithSpan(context.Background(), a.span)
	for i, s := range a.steps {
		end := now
		if i+1 < len(a.steps) {
			end = a.steps[i+1].start
		}
		a.recorder.child(ctx, s.name, s.start, end)
	}
	a.span.SetAttributes(attribute.String("messaging.message.id", e.ID.Text(id.Event)))
	if err != nil {
		a.span.SetStatus(codes.Error, "not stored")
		a.span.SetAttributes(attribute.String("error.type", "not_stored"))
	}
	a.span.End(trace.WithTimestamp(now))
}

// child records a span that has ended.
func (r *Recorder) child(ctx context.Context, name string, start, end time.Time, attributes ...attribute.KeyValue) {
	_, span := r.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(end))
}

// Park records that a delivery was put into a retry topic because its lane could not send it.
func (r *Recorder) Park(work *event.Work, reason event.Reason, at time.Time) {
	if r == nil || work.Event.Trace == "" {
		return
	}
	if ctx := r.parentOf(work); ctx != nil {
		r.child(ctx, "park", at, at, attribute.String("eventrelay.reason", string(reason)),
			attribute.String("eventrelay.destination.id", work.Dest))
	}
}

// parentOf returns the context of the spans of a delivery: the accepted event, or the last attempt of a replay. It is
// nil for the first attempt of a replay.
func (r *Recorder) parentOf(work *event.Work) context.Context {
	parent := work.Event.Trace
	if work.Run != "" {
		parent = work.Trace
	}
	if from := parse(parent); from.IsValid() {
		return trace.ContextWithRemoteSpanContext(context.Background(), from)
	}
	return nil
}

// format writes a span's context as a traceparent (W3C Trace Context).
func format(c trace.SpanContext) string {
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// parse reads a traceparent; the result is not valid if the text is not one. What follows the four parts is ignored, as
// the specification asks of later versions. The flag "sampled" is set: what is sampled is decided here, not by callers.
func parse(text string) trace.SpanContext {
	if len(text) < traceparentLength || len(text) > maxTraceparent || text[2] != '-' || text[35] != '-' ||
		text[52] != '-' || text[:2] == "ff" || text[:2] == "00" && len(text) != traceparentLength ||
		len(text) > traceparentLength && text[traceparentLength] != '-' {
		return trace.SpanContext{}
	}
	traceID, err := trace.TraceIDFromHex(text[3:35])
	spanID, err2 := trace.SpanIDFromHex(text[36:52])
	if errors.Join(err, err2) != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

const (
	traceparentLength = 55
	maxTraceparent    = 512
)
