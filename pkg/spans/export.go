package spans

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/eventrelay/relay/pkg/metric"
	"github.com/eventrelay/relay/pkg/otlp"
)

// Config configures a Recorder.
type Config struct {
	URL     string // of the collector (OTLP over HTTP); empty: no traces
	Headers string // of each request to it, as name=value,name=value; values may be percent-encoded
	Sample  string // share of events that are traced, 0 to 1
	Node    string
	Version string
	// CAFile and DNSServer are those of egress.NewOperatorDialer.
	CAFile, DNSServer string
}

func (c Config) collector() otlp.Collector {
	return otlp.Collector{URL: c.URL, Headers: c.Headers, CAFile: c.CAFile, DNSServer: c.DNSServer}
}

// Deps are the dependencies of a Recorder; all are required.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
}

// Bounds of the export. What does not fit is dropped.
const (
	maxQueued     = 2048             // spans that wait
	maxBatch      = 512              // spans of one request
	batchPause    = 2 * time.Second  // longest wait for a full batch
	exportTimeout = 10 * time.Second // of a batch with its repeats
	stopTimeout   = 2 * time.Second  // for what is left when the node stops
	complainEvery = time.Minute      // one log line about failures
)

// tracesPath is the path of OTLP over HTTP, for a URL without one.
const tracesPath = "/v1/traces"

// Validate returns the first setting that cannot be used, and its environment variable.
func (c Config) Validate() (env string, err error) {
	if _, err := c.collector().Address(tracesPath); err != nil {
		return "RELAY_TRACES_URL", err
	}
	if _, err := c.share(); err != nil {
		return "RELAY_TRACES_SAMPLE", err
	}
	if _, err := c.collector().Header(); err != nil {
		return "RELAY_TRACES_HEADERS", err
	}
	return "", nil
}

// share returns the share of events that are traced.
func (c Config) share() (float64, error) {
	share, err := strconv.ParseFloat(cmp.Or(c.Sample, "0"), 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("%q is not a number from 0 to 1", c.Sample)
	}
	return share, nil
}

// New returns a Recorder, nil if there is no collector. It opens no connection and starts no goroutine.
func New(cfg Config, deps Deps) (*Recorder, error) {
	if env, err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", env, err)
	}
	address, _ := cfg.collector().Address(tracesPath)
	if address == nil {
		return nil, nil
	}
	share, _ := cfg.share()
	headers, _ := cfg.collector().Header()
	requests, err := cfg.collector().Client()
	if err != nil {
		return nil, err
	}
	client := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(address.String()), otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithHTTPClient(requests))
	e := &exporter{inner: otlptrace.NewUnstarted(client), to: cfg.collector(), log: deps.Log, now: deps.Now,
		count: newCounter(deps.Metrics)}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.AlwaysSample()), // Accept has decided
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: 256, AttributeCountLimit: 32, EventCountLimit: 8, LinkCountLimit: 4,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
		}),
		sdktrace.WithResource(otlp.Resource(cfg.Node, cfg.Version)))
	e.provider = provider
	return &Recorder{tracer: provider.Tracer("eventrelay"), now: deps.Now, sample: share, exporter: e,
		ready: make(chan struct{})}, nil
}

func newCounter(registry prometheus.Registerer) *prometheus.CounterVec {
	return metric.Counters(registry, "relay_trace_spans_total", "Spans of traces by result: ended, and of these exported "+
		"or failed. The rest waits, or was dropped because the queue was full.", "result", resultEnded, resultExported,
		resultFailed)
}

const (
	resultEnded    = "ended"
	resultExported = "exported"
	resultFailed   = "failed"
)

// Run exports spans until ctx ends, and then for two seconds what is left.
func (r *Recorder) Run(ctx context.Context) error {
	e := r.exporter
	stop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	e.stop = stop
	if err := e.inner.Start(stop); err != nil {
		return fmt.Errorf("start the export of traces: %w", err)
	}
	e.provider.RegisterSpanProcessor(sdktrace.NewBatchSpanProcessor(e, sdktrace.WithMaxQueueSize(maxQueued),
		sdktrace.WithMaxExportBatchSize(maxBatch), sdktrace.WithBatchTimeout(batchPause),
		sdktrace.WithExportTimeout(exportTimeout)))
	e.provider.RegisterSpanProcessor(endedCounter{e.count.WithLabelValues(resultEnded)})
	close(r.ready)
	<-ctx.Done()
	last, done := context.WithTimeout(stop, stopTimeout)
	defer done()
	_ = e.provider.Shutdown(last) // what was not exported is counted
	return nil
}

// Ready is closed when ended spans are exported; what ends before is not.
func (r *Recorder) Ready() <-chan struct{} { return r.ready }

// exporter counts spans around the exporter of the SDK, and bounds its time and its log lines.
type exporter struct {
	inner      *otlptrace.Exporter
	to         otlp.Collector
	provider   *sdktrace.TracerProvider
	log        *slog.Logger
	now        func() time.Time
	count      *prometheus.CounterVec
	stop       context.Context // ends exports when the node has stopped
	complained atomic.Int64    // unix seconds of the last line
}

// ExportSpans sends a batch. A failure is counted and logged here, so the SDK sees none.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stop, cancel)()
	err := e.inner.ExportSpans(ctx, spans)
	if err == nil {
		e.count.WithLabelValues(resultExported).Add(float64(len(spans)))
		return nil
	}
	e.count.WithLabelValues(resultFailed).Add(float64(len(spans)))
	now := e.now().Unix()
	last := e.complained.Load()
	if now-last >= int64(complainEvery/time.Second) && e.complained.CompareAndSwap(last, now) {
		e.log.LogAttrs(ctx, slog.LevelWarn, "cannot export traces to RELAY_TRACES_URL", slog.Int("spans", len(spans)),
			e.to.Complaint(err))
	}
	return nil
}

// Shutdown ends the exporter of the SDK.
func (e *exporter) Shutdown(ctx context.Context) error { return e.inner.Shutdown(ctx) }

// endedCounter is a SpanProcessor that counts.
type endedCounter struct{ ended prometheus.Counter }

func (endedCounter) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (c endedCounter) OnEnd(sdktrace.ReadOnlySpan)                   { c.ended.Inc() }
func (endedCounter) Shutdown(context.Context) error                  { return nil }
func (endedCounter) ForceFlush(context.Context) error                { return nil }
