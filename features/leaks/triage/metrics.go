package triage

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
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

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		hits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_finding_hits_total", Help: "Hits of findings that were read, by source; repeated ones count again."},
			[]string{"source"}),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_finding_transitions_total",
			Help: "Findings that were opened or reopened by a hit or by time, and floods that go on for another day."},
			[]string{"to"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_finding_refused_changes_total",
			Help: "Changes of findings that were refused because a bound of the configuration is reached."}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_finding_forgotten_total", Help: "Findings that were forgotten after 400 days without a hit."}),
		undecodable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_finding_undecodable_records_total",
			Help: "Records of findings that the triage skipped because they cannot be decoded."}),
	}
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "relay_finding_dropped_hits_total",
		Help: "Hits that no list shows: their finding was not opened because a bound of the configuration is reached."},
		func() float64 { return float64(m.dropped.Load()) })
	for _, c := range []prometheus.Collector{m.hits, m.transitions, m.refused, dropped, m.forgotten, m.undecodable} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of findings: %w", err)
		}
	}
	return m, nil
}
