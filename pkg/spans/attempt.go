package spans

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Attempt is the span of one attempt at a destination.
type Attempt struct {
	recorder *Recorder
	span     trace.Span
	ctx      context.Context // of children

	mu     sync.Mutex // guards the fields below: hooks run on other goroutines, even after the request has ended
	ended  bool
	secure bool                 // the connection's handshake was recorded: net/http calls its hooks again
	begun  map[string]time.Time // by step
}

// Attempt begins the span of an attempt. It returns nil unless the event is sampled.
func (r *Recorder) Attempt(work *event.Work, start time.Time) *Attempt {
	if r == nil || work.Event.Trace == "" {
		return nil
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.Int("http.request.resend_count", work.Attempt-1),
			attribute.String("messaging.message.id", work.Event.ID.Text(id.Event)),
			attribute.String("eventrelay.endpoint.id", work.Event.Endpoint),
			attribute.String("eventrelay.destination.id", work.Dest),
			attribute.String("eventrelay.trigger", string(work.Trigger)),
		)}
	if work.Run != "" {
		options = append(options, trace.WithAttributes(attribute.String("eventrelay.run.id", work.Run)))
	}
	parent := r.parentOf(work)
	switch {
	case parent == nil: // a replay
		parent, options = context.Background(), append(options, trace.WithNewRoot(), linkTo(work.Event.Trace))
	case work.Trace != "":
		options = append(options, linkTo(work.Trace))
	}
	if work.Run == "" {
		from := work.Event.ReceivedAt()
		if !work.Due.IsZero() {
			from = work.Due
		}
		if from.Before(start) {
			r.child(parent, "wait", from, start, attribute.String("eventrelay.destination.id", work.Dest))
		}
	}
	ctx, span := r.tracer.Start(parent, "attempt", options...)
	return &Attempt{recorder: r, span: span, ctx: ctx, begun: map[string]time.Time{}}
}

func linkTo(traceparent string) trace.SpanStartOption {
	return trace.WithLinks(trace.Link{SpanContext: parse(traceparent)})
}

// Propagate sets the header traceparent, in place of one that was received, and returns its value.
func (a *Attempt) Propagate(h http.Header) string {
	if a == nil {
		return ""
	}
	text := format(a.span.SpanContext())
	h["Traceparent"] = []string{text}
	delete(h, "Tracestate") // of the trace whose traceparent was replaced
	return text
}

// Hook adds the steps of the connection to the hooks of a request: DNS, connect, TLS, and the wait for the answer.
func (a *Attempt) Hook(h *httptrace.ClientTrace) {
	if a == nil {
		return
	}
	h.DNSStart = func(httptrace.DNSStartInfo) { a.beginStep("DNS") }
	h.DNSDone = func(httptrace.DNSDoneInfo) { a.endStep("DNS") }
	h.ConnectStart = func(_, address string) { a.beginStep(connecting + address) }
	h.ConnectDone = func(_, address string, _ error) { a.endStep(connecting + address) }
	h.TLSHandshakeStart = func() { a.beginStep(handshake) }
	h.TLSHandshakeDone = func(tls.ConnectionState, error) { a.endStep(handshake) }
	h.WroteRequest = func(httptrace.WroteRequestInfo) { a.beginStep("first byte") }
	next := h.GotFirstResponseByte
	h.GotFirstResponseByte = func() {
		a.endStep("first byte")
		if next != nil {
			next()
		}
	}
}

func (a *Attempt) beginStep(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || name == handshake && a.secure {
		return
	}
	if strings.HasPrefix(name, connecting) {
		a.secure = false
	}
	a.begun[name] = a.recorder.now()
}

func (a *Attempt) endStep(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	start, ok := a.begun[name]
	if a.ended || !ok {
		return
	}
	delete(a.begun, name)
	a.secure = a.secure || name == handshake
	if address, connects := strings.CutPrefix(name, connecting); connects {
		a.recorder.child(a.ctx, "connect", start, a.recorder.now(), attribute.String("network.peer.address", address))
		return
	}
	a.recorder.child(a.ctx, name, start, a.recorder.now())
}

// Names of steps; connecting is followed by the address, because two connections may be tried at the same time.
const (
	connecting = "connect "
	handshake  = "TLS"
)

// End ends the span with the result of the attempt.
func (a *Attempt) End(result *event.Attempt, end time.Time) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if result.RemoteIP.IsValid() {
		a.span.SetAttributes(attribute.String("network.peer.address", result.RemoteIP.String()))
	}
	operation := "http.request.method"
	if result.Method == event.Produce {
		operation = "messaging.operation.name"
	}
	a.span.SetAttributes(attribute.String(operation, result.Method))
	failure := string(result.ErrorCode)
	if result.Code != 0 {
		a.span.SetAttributes(attribute.Int("http.response.status_code", result.Code))
		if result.Code >= http.StatusBadRequest {
			failure = strconv.Itoa(result.Code)
		}
	}
	if failure != "" {
		a.span.SetAttributes(attribute.String("error.type", failure))
		a.span.SetStatus(codes.Error, "")
	}
	a.span.End(trace.WithTimestamp(end))
}
