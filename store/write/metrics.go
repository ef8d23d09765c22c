package write

import (
	"github.com/prometheus/client_golang/prometheus"

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
	m := &writerMetrics{
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_store_rows_total", Help: "Rows inserted into ClickHouse; a row that is inserted again counts again."},
			[]string{"table"}),
		flushes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relay_store_flush_seconds", Help: "Duration of a flush with retries, including the offset commit unless " +
				"that follows a disk sync.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 14)}),
		insertFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_store_insert_failures_total", Help: "Inserts that failed because ClickHouse was unavailable or " +
				"overloaded, and were retried."}),
		commitFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_store_commit_failures_total", Help: "Offset commits that failed and are retried."}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_store_dead_letters_total",
			Help: "Records that could not be stored and were sent to the dead letter topic."},
			[]string{"topic"}),
		parts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_store_parts",
			Help: "Parts in the ClickHouse partition that has most of them; ClickHouse rejects inserts at about 3,000."}),
		throttled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_store_throttled", Help: "Consumer groups of the writer that flush less often because ClickHouse has " +
				"too many parts to merge."}),
		buffered: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_store_buffered_rows", Help: "Rows in memory that wait for the next flush."}),
	}
	for _, topic := range store.Topics() { // exported with 0, so that an alert sees the first increase
		m.deadLetters.WithLabelValues(topic)
	}
	if reg != nil {
		reg.MustRegister(m.rows, m.flushes, m.insertFailures, m.commitFailures, m.deadLetters, m.parts, m.throttled,
			m.buffered)
	}
	return m
}
