package otlp

import (
	"context"
	"encoding"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// Bounds of the export of logs. What does not fit is dropped.
const (
	maxQueued      = 2048            // records that wait
	maxBatch       = 512             // records of one request
	batchPause     = 2 * time.Second // longest wait for a full batch
	lastExport     = time.Second     // for what is left when the node stops
	maxAttributes  = 64              // of a record
	maxAttributeLn = 1024            // characters of a value
)

// Logs exports the records of a log.
type Logs struct {
	inner   slog.Handler // the log of the process
	cfg     Config
	logger  log.Logger
	queue   chan sdklog.Record
	options []otlploghttp.Option

	exported, failed, dropped atomic.Int64
}

// NewLogs returns what exports a log, nil if there is no collector. Records wait in the queue until Run exports them.
// It opens no connection.
func NewLogs(cfg Config, inner slog.Handler) (*Logs, error) {
	address, headers, client, err := cfg.Logs.destination("/v1/logs")
	if err != nil || address == "" {
		return nil, err
	}
	l := &Logs{inner: inner, cfg: cfg, queue: make(chan sdklog.Record, maxQueued), options: []otlploghttp.Option{
		otlploghttp.WithEndpointURL(address), otlploghttp.WithHeaders(headers), otlploghttp.WithHTTPClient(client),
		otlploghttp.WithCompression(otlploghttp.GzipCompression)}}
	l.logger = sdklog.NewLoggerProvider(sdklog.WithProcessor(queue{l}),
		sdklog.WithResource(Resource(cfg.Node, cfg.Version)),
		sdklog.WithAttributeCountLimit(maxAttributes), sdklog.WithAttributeValueLengthLimit(maxAttributeLn)).
		Logger("eventrelay")
	return l, nil
}

// Handler returns the handler of the log: it passes records on to the log of the process, and exports them.
func (l *Logs) Handler() slog.Handler { return handler{Handler: l.inner, logs: l} }

// queue is the processor that keeps records until Run takes them.
type queue struct{ *Logs }

func (queue) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

func (q queue) OnEmit(_ context.Context, r *sdklog.Record) error {
	select {
	case q.queue <- r.Clone():
	default:
		q.dropped.Add(1)
	}
	return nil
}

func (queue) Shutdown(context.Context) error   { return nil }
func (queue) ForceFlush(context.Context) error { return nil }

// Describe implements prometheus.Collector.
func (l *Logs) Describe(out chan<- *prometheus.Desc) { out <- recordsTotal }

// Collect implements prometheus.Collector.
func (l *Logs) Collect(out chan<- prometheus.Metric) {
	for result, n := range map[string]*atomic.Int64{resultExported: &l.exported, resultFailed: &l.failed,
		"dropped": &l.dropped} {
		out <- prometheus.MustNewConstMetric(recordsTotal, prometheus.CounterValue, float64(n.Load()), result)
	}
}

var recordsTotal = prometheus.NewDesc("relay_log_records_total",
	"Log records over OTLP by result: exported, failed, or dropped because the queue was full.", []string{"result"}, nil)

// Run exports records until ctx ends, and then for a second what is left.
func (l *Logs) Run(ctx context.Context) error {
	exporter, err := otlploghttp.New(ctx, l.options...)
	if err != nil {
		return fmt.Errorf("start the export of logs: %w", err)
	}
	defer func() { _ = exporter.Shutdown(context.WithoutCancel(ctx)) }() // waits for nothing
	ends, end := context.WithCancel(context.WithoutCancel(ctx))          // a second after ctx
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastExport, end) })()
	var complained time.Time
	for {
		batch := l.next(ctx)
		if len(batch) == 0 {
			return nil
		}
		if err := l.export(ends, exporter, batch); err != nil && time.Since(complained) >= complainEvery {
			complained = time.Now() // past the queue: an export would fail again
			slog.New(l.inner).LogAttrs(ends, slog.LevelWarn, "cannot export logs to RELAY_LOGS_URL",
				slog.String("node", l.cfg.Node), slog.Int("records", len(batch)), l.cfg.Logs.Complaint(err))
		}
	}
}

func (l *Logs) export(ctx context.Context, exporter *otlploghttp.Exporter, batch []sdklog.Record) error {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	err := exporter.Export(ctx, batch)
	if err != nil {
		l.failed.Add(int64(len(batch)))
	} else {
		l.exported.Add(int64(len(batch)))
	}
	return err
}

// next waits for a record and, for a pause, for a full batch. When ctx has ended it returns what waits.
func (l *Logs) next(ctx context.Context) (batch []sdklog.Record) {
	select {
	case r := <-l.queue:
		batch = append(batch, r)
	case <-ctx.Done():
		return l.waiting(nil)
	}
	pause := time.NewTimer(batchPause)
	defer pause.Stop()
	for len(batch) < maxBatch {
		select {
		case r := <-l.queue:
			batch = append(batch, r)
		case <-pause.C:
			return batch
		case <-ctx.Done():
			return l.waiting(batch)
		}
	}
	return batch
}

// waiting adds records to a batch without waiting for any.
func (l *Logs) waiting(batch []sdklog.Record) []sdklog.Record {
	for len(batch) < maxBatch {
		select {
		case r := <-l.queue:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// handler exports what it passes on. Values are exported as the text of the log has them: what masks itself there, by
// String or MarshalText, does so here.
type handler struct {
	slog.Handler
	logs       *Logs
	group      string // prefix of the names of attributes
	attributes []attribute.KeyValue
}

func (h handler) WithAttrs(all []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(all)
	h.attributes = slices.Clip(h.attributes)
	for _, a := range all {
		h.attributes = appendAttribute(h.attributes, h.group, a)
	}
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	h.group += name + "."
	return h
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	var out log.Record
	out.SetTimestamp(r.Time)
	out.SetSeverity(log.Severity(r.Level) + log.SeverityInfo) // both count in fours
	out.SetSeverityText(r.Level.String())
	out.SetBody(attribute.StringValue(r.Message))
	out.AddAttributes(h.attributes...)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttributes(appendAttribute(nil, h.group, a)...)
		return true
	})
	h.logs.logger.Emit(context.WithoutCancel(ctx), out)
	return h.Handler.Handle(ctx, r)
}

// appendAttribute appends an attribute; a group becomes an attribute for each of its members.
func appendAttribute(all []attribute.KeyValue, group string, a slog.Attr) []attribute.KeyValue {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, x := range v.Group() {
			all = appendAttribute(all, group, x)
		}
		return all
	}
	return append(all, attribute.KeyValue{Key: attribute.Key(group + a.Key), Value: valueOf(v)})
}

func valueOf(v slog.Value) attribute.Value {
	switch v.Kind() {
	case slog.KindBool:
		return attribute.BoolValue(v.Bool())
	case slog.KindInt64:
		return attribute.Int64Value(v.Int64())
	case slog.KindFloat64:
		return attribute.Float64Value(v.Float64())
	case slog.KindTime:
		return attribute.StringValue(v.Time().Format(time.RFC3339Nano))
	case slog.KindAny:
		if m, ok := v.Any().(encoding.TextMarshaler); ok {
			if text, err := m.MarshalText(); err == nil {
				return attribute.StringValue(string(text))
			}
		}
	}
	return attribute.StringValue(v.String())
}
