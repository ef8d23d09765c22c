// Package spanstest is a collector for tests: it takes OTLP over HTTP, decodes it with the types of OpenTelemetry, and
// returns the spans, metrics and log records.
package spanstest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/test/must"
)

// Span is one exported span.
type Span struct {
	Name, Trace, ID, Parent string
	Links                   []string // trace and span, as in a traceparent
	Attributes              map[string]string
	Start, End              time.Time
	Failed                  bool
}

// Traceparent names the span to its children.
func (s Span) Traceparent() string { return "00-" + s.Trace + "-" + s.ID + "-01" }

// Point is one exported value of a metric: of a histogram, the number of its observations.
type Point struct {
	Name       string
	Attributes map[string]string // of the resource too
	Value      float64
}

// Record is one exported log record.
type Record struct {
	Body, Severity string
	Attributes     map[string]string // of the resource too
	Time           time.Time
}

// Collector receives spans, metrics and log records.
type Collector struct {
	URL string

	mu     sync.Mutex // guards what follows
	header http.Header
	spans  []Span
	points []Point // of the last export
	logs   []Record
	raw    []byte
	faults []error
}

// New starts a collector. before is called with each request before it is answered; it may be nil.
func New(t testing.TB, before func()) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before != nil {
			before()
		}
		if err := c.receive(r); err != nil {
			c.mu.Lock()
			c.faults = append(c.faults, err)
			c.mu.Unlock()
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Header returns the header of the last request.
func (c *Collector) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}

// Recorder runs a recorder of every event that exports to the collector; stop ends it.
func (c *Collector) Recorder(t *testing.T) (r *spans.Recorder, stop func()) {
	t.Helper()
	r = must.Get(spans.New(spans.Config{URL: c.URL, Sample: "1"},
		spans.Deps{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Now: time.Now}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = r.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); run.Wait() })
	t.Cleanup(stop)
	<-r.Ready()
	return r, stop
}

func (c *Collector) receive(r *http.Request) error {
	if r.Method != http.MethodPost || r.Header.Get("Content-Encoding") != "gzip" {
		return fmt.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
	}
	unzipped, err := gzip.NewReader(r.Body)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(unzipped)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header, c.raw = r.Header.Clone(), append(c.raw, raw...)
	switch r.URL.Path {
	case "/v1/traces":
		return c.receiveSpans(raw)
	case "/v1/metrics":
		return c.receivePoints(raw)
	case "/v1/logs":
		return c.receiveRecords(raw)
	}
	return fmt.Errorf("POST %s", r.URL)
}

func (c *Collector) receiveSpans(raw []byte) error {
	var batch collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &batch); err != nil {
		return err
	}
	for _, resource := range batch.GetResourceSpans() {
		shared := attributes(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, newSpan(s, shared))
			}
		}
	}
	return nil
}

func (c *Collector) receivePoints(raw []byte) error {
	var batch metrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(raw, &batch); err != nil {
		return err
	}
	c.points = nil
	for _, resource := range batch.GetResourceMetrics() {
		shared := attributes(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
					c.points = append(c.points, Point{m.GetName(), joined(p.GetAttributes(), shared), p.GetAsDouble()})
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					c.points = append(c.points, Point{m.GetName(), joined(p.GetAttributes(), shared), float64(p.GetCount())})
				}
			}
		}
	}
	return nil
}

func (c *Collector) receiveRecords(raw []byte) error {
	var batch logs.ExportLogsServiceRequest
	if err := proto.Unmarshal(raw, &batch); err != nil {
		return err
	}
	for _, resource := range batch.GetResourceLogs() {
		shared := attributes(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeLogs() {
			for _, r := range scope.GetLogRecords() {
				c.logs = append(c.logs, Record{r.GetBody().GetStringValue(), r.GetSeverityText(),
					joined(r.GetAttributes(), shared), time.Unix(0, int64(r.GetTimeUnixNano()))})
			}
		}
	}
	return nil
}

// joined returns attributes with those of the resource.
func joined(own []*common.KeyValue, shared map[string]string) map[string]string {
	all := attributes(own)
	maps.Copy(all, shared)
	return all
}

// Points returns the metrics of the last export.
func (c *Collector) Points() []Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.points)
}

// Records returns all log records.
func (c *Collector) Records() []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.logs)
}

// newSpan copies a span; its attributes include those of the resource.
func newSpan(s *traces.Span, shared map[string]string) Span {
	out := Span{
		Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Attributes: joined(s.GetAttributes(), shared),
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Failed: s.GetStatus().GetCode() == traces.Status_STATUS_CODE_ERROR,
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetTraceId())+"-"+hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

func attributes(of []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range of {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_IntValue:
			out[a.GetKey()] = fmt.Sprint(v.IntValue)
		default:
			out[a.GetKey()] = a.GetValue().GetStringValue()
		}
	}
	return out
}

// Contains reports whether any export contained a text.
func (c *Collector) Contains(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.raw, []byte(text))
}

// Wait returns all spans as soon as every name has at least the number of spans that want says.
func (c *Collector) Wait(t testing.TB, want map[string]int) []Span {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		c.mu.Lock()
		got, faults := append([]Span(nil), c.spans...), c.faults
		c.mu.Unlock()
		if len(faults) > 0 {
			t.Fatal(faults[0])
		}
		left := map[string]int{}
		for name, n := range want {
			if n -= len(Named(got, name)); n > 0 {
				left[name] = n
			}
		}
		if len(left) == 0 {
			return got
		}
		if wait.For(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("no spans %v; got %+v", left, got)
		}
	}
}

// Named returns the spans with a name.
func Named(all []Span, name string) (some []Span) {
	for _, s := range all {
		if s.Name == name {
			some = append(some, s)
		}
	}
	return some
}
