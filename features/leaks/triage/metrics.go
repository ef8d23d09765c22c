package triage

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eventrelay/relay/pkg/metric"
)

// metrics are the metrics of the triage.
type metrics struct {
	hits        *prometheus.CounterVec // by source
	transitions *prometheus.CounterVec // by transition
	refused     prometheus.Counter
	dropped     atomic.Int64
	forgotten   prometheus.Counter
	undecodable prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		hits: metric.Counters[string](reg, "relay_finding_hits_total",
			"Hits of findings that were read, by source; repeated ones count again.", "source"),
		transitions: metric.Counters[string](reg, "relay_finding_transitions_total",
			"Findings that were opened or reopened by a hit or by time, and floods that go on for another day.", "to"),
		refused: metric.Counter(reg, "relay_finding_refused_changes_total",
			"Changes of findings that were refused because a bound of the configuration is reached."),
		forgotten: metric.Counter(reg, "relay_finding_forgotten_total",
			"Findings that were forgotten after 400 days without a hit."),
		undecodable: metric.Counter(reg, "relay_finding_undecodable_records_total",
			"Records of findings that the triage skipped because they cannot be decoded."),
	}
	promauto.With(reg).NewCounterFunc(prometheus.CounterOpts{
		Name: "relay_finding_dropped_hits_total",
		Help: "Hits that no list shows: their finding was not opened because a bound of the configuration is reached."},
		func() float64 { return float64(m.dropped.Load()) })
	return m
}
