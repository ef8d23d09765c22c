package write

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eventrelay/relay/pkg/metric"
	"github.com/eventrelay/relay/store"
)

type writerMetrics struct {
	rows           *prometheus.CounterVec // label: table
	flushes        prometheus.Histogram
	insertFailures prometheus.Counter
	commitFailures prometheus.Counter
	deadLetters    *prometheus.CounterVec // label: source topic
	parts          prometheus.Gauge
	throttled      prometheus.Gauge
	buffered       prometheus.Gauge
}

func newWriterMetrics(reg prometheus.Registerer) *writerMetrics {
	return &writerMetrics{
		rows: metric.Counters[string](reg, "relay_store_rows_total",
			"Rows inserted into ClickHouse; a row that is inserted again counts again.", "table"),
		flushes: promauto.With(reg).NewHistogram(prometheus.HistogramOpts{
			Name: "relay_store_flush_seconds", Help: "Duration of a flush with retries, including the offset commit unless " +
				"that follows a disk sync.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 14)}),
		insertFailures: metric.Counter(reg, "relay_store_insert_failures_total",
			"Inserts that failed because ClickHouse was unavailable or overloaded, and were retried."),
		commitFailures: metric.Counter(reg, "relay_store_commit_failures_total",
			"Offset commits that failed and are retried."),
		deadLetters: metric.Counters(reg, "relay_store_dead_letters_total",
			"Records that could not be stored and were sent to the dead letter topic.", "topic", store.Topics()...),
		parts: metric.Gauge(reg, "relay_store_parts",
			"Parts in the ClickHouse partition that has most of them; ClickHouse rejects inserts at about 3,000."),
		throttled: metric.Gauge(reg, "relay_store_throttled",
			"Consumer groups of the writer that flush less often because ClickHouse has too many parts to merge."),
		buffered: metric.Gauge(reg, "relay_store_buffered_rows", "Rows in memory that wait for the next flush."),
	}
}
