package conflog

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/metric"
)

type metrics struct {
	records          *prometheus.CounterVec // by result
	writes           *prometheus.CounterVec // by outcome
	snapshots        *prometheus.CounterVec // by outcome
	peerWaitTimeouts prometheus.Counter

	unauthentic *prometheus.CounterVec // by topic
}

func newMetrics(reg prometheus.Registerer, l *Log) *metrics {
	gauge := func(name, help string, read func() float64) { metric.GaugeOf(reg, name, help, read) }
	gauge("relay_control_sequence", "Sequence number of the last record of the configuration log that this node "+
		"has read.",
		func() float64 { return float64(l.view.Load().seq) })
	gauge("relay_control_level", "Level of the configuration log; 0 while it is empty.",
		func() float64 { level, _ := l.Level(); return float64(level) })
	gauge("relay_control_supported_level", "Highest level of the configuration log that this version supports. "+
		"relay migrate --finalize raises the log to it.",
		func() float64 { _, newest := l.Level(); return float64(newest) })
	gauge("relay_control_lease_age_seconds", "Time since this node last confirmed that it knows the whole "+
		"configuration log.",
		func() float64 { age, _ := l.Lease(); return age.Seconds() })
	gauge("relay_clock_skew_seconds", "Lower bound of how far the broker's clock is ahead of this node's.",
		func() float64 { return l.ClockSkew().Seconds() })
	gauge("relay_control_nodes", "Nodes that sent a heartbeat in the last 5 s, this one included.",
		func() float64 { return float64(len(l.peers.living(l.now(), l.timing.Lease))) })
	gauge("relay_control_outbox_entries", "Applied changes that are not yet copied to the audit log; at 100,000 changes "+
		"are refused.",
		func() float64 { return float64(l.view.Load().Len(KindOutbox)) })
	gauge("relay_control_state_bytes", "Size of the configuration as JSON.",
		func() float64 { return float64(l.view.Load().bytes()) })
	gauge("relay_control_state_limit_bytes", "Maximum size of the configuration as JSON.",
		func() float64 { return MaxStateBytes })
	return &metrics{
		records: metric.Counters[string](reg, "relay_control_records_total",
			"Records of the configuration log with a valid MAC that this node read, by result.", "result"),
		writes: metric.Counters[string](reg, "relay_control_writes_total",
			"Changes that this node tried to write to the configuration log, except those of imports, by outcome.",
			"outcome"),
		snapshots: metric.Counters[string](reg, "relay_control_snapshots_total",
			"Snapshots of the configuration that this node wrote or failed to write, by outcome.", "outcome"),
		peerWaitTimeouts: metric.Counter(reg, "relay_control_peer_wait_timeouts_total",
			"Writes that were answered before every other node had applied them (after 300 ms)."),
		unauthentic: metric.Counters(reg, "relay_control_unauthenticated_records_total",
			"Records without a valid MAC in a topic of the configuration, which this node ignored.",
			"topic", slices.Collect(maps.Keys(l.warned))...),
	}
}
