package write

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/store"
)

type writerMetrics struct {
	rows     *prometheus.CounterVec // by table
	flushes  prometheus.Histogram
	failures prometheus.Counter
	commits  prometheus.Counter
	dead     *prometheus.CounterVec // by source topic
	away     prometheus.Gauge
	parts    prometheus.Gauge
	crowded  prometheus.Gauge
	buffered prometheus.Gauge
}

func newWriterMetrics(reg prometheus.Registerer) *writerMetrics {
	m := &writerMetrics{
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_store_rows_total", Help: "Rows written to ClickHouse; a redo counts again."}, []string{"table"}),
		flushes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "relay_store_flush_seconds", Help: "Time of a flush: inserts and offset commit, retries included.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 14)}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_store_insert_failures_total", Help: "Inserts that failed and were tried again."}),
		commits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_store_commit_failures_total", Help: "Offset commits that failed, and are made again."}),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_store_dead_total", Help: "Records that were sent to the topic dead."}, []string{"topic"}),
		away: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_store_away", Help: "Shards of ClickHouse that do not take rows at the moment."}),
		parts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_store_parts",
			Help: "Parts of the partition that has most of them, as counted last; inserts are refused at some 3,000."}),
		crowded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_store_crowded",
			Help: "1 while rows are written less often because ClickHouse has too many parts to merge."}),
		buffered: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_store_buffered_rows", Help: "Rows that wait for the next flush."}),
	}
	for _, topic := range store.Topics() { // there before the first, whose increase an alert has to see
		m.dead.WithLabelValues(topic)
	}
	if reg != nil {
		reg.MustRegister(m.rows, m.flushes, m.failures, m.commits, m.dead, m.away, m.parts, m.crowded, m.buffered)
	}
	return m
}
