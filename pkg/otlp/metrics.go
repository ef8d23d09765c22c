package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// Registry is where metrics are registered and read: a *prometheus.Registry.
type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// Metrics exports a registry.
type Metrics struct {
	producer metric.Producer
	to       Collector
	options  []otlpmetrichttp.Option
	resource *resource.Resource
	every    time.Duration
	log      *slog.Logger
	count    *prometheus.CounterVec
}

// NewMetrics returns what exports a registry, nil if there is no collector. It opens no connection.
func NewMetrics(cfg Config, registry Registry, log *slog.Logger) (*Metrics, error) {
	address, headers, client, err := cfg.Metrics.destination("/v1/metrics")
	if err != nil || address == "" {
		return nil, err
	}
	m := &Metrics{
		to:       cfg.Metrics,
		producer: bridge.NewMetricProducer(bridge.WithGatherer(registry)), resource: Resource(cfg.Node, cfg.Version),
		every: cfg.Every, log: log,
		options: []otlpmetrichttp.Option{otlpmetrichttp.WithEndpointURL(address), otlpmetrichttp.WithHeaders(headers),
			otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression), otlpmetrichttp.WithHTTPClient(client)},
		count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "relay_metric_exports_total",
			Help: "Exports of the metrics over OTLP by result: exported or failed."}, []string{"result"}),
	}
	registry.MustRegister(m.count)
	for _, result := range []string{resultExported, resultFailed} {
		m.count.WithLabelValues(result)
	}
	return m, nil
}

const (
	resultExported = "exported"
	resultFailed   = "failed"
)

// Run exports at the interval until ctx ends. What is counted after the last export is lost, as it is to a Prometheus
// that scrapes.
func (m *Metrics) Run(ctx context.Context) error {
	exporter, err := otlpmetrichttp.New(ctx, m.options...)
	if err != nil {
		return fmt.Errorf("start the export of metrics: %w", err)
	}
	defer func() { _ = exporter.Shutdown(context.WithoutCancel(ctx)) }() // waits for nothing
	var complained time.Time
	for tick := time.NewTicker(m.every); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
		err := m.export(ctx, exporter)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			m.count.WithLabelValues(resultExported).Inc()
		default:
			m.count.WithLabelValues(resultFailed).Inc()
			if time.Since(complained) >= complainEvery {
				complained = time.Now()
				m.log.LogAttrs(ctx, slog.LevelWarn, "cannot export metrics to RELAY_METRICS_URL", m.to.Complaint(err))
			}
		}
	}
}

func (m *Metrics) export(ctx context.Context, exporter *otlpmetrichttp.Exporter) error {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	scopes, err := m.producer.Produce(ctx)
	if err != nil && len(scopes) == 0 {
		return err
	}
	return exporter.Export(ctx, &metricdata.ResourceMetrics{Resource: m.resource, ScopeMetrics: scopes})
}
