package conflog

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	records          *prometheus.CounterVec // by result
	writes           *prometheus.CounterVec // by outcome
	snapshots        *prometheus.CounterVec // by outcome
	peerWaitTimeouts prometheus.Counter

	unauthentic *prometheus.CounterVec // by topic
}

func newMetrics(reg prometheus.Registerer, l *Log) *metrics {
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_control_records_total", Help: "Records of the configuration log applied or refused by this node.",
		}, []string{"result"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_control_writes_total", Help: "Records written to the configuration log by this node.",
		}, []string{"outcome"}),
		snapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_control_snapshots_total", Help: "Snapshots of the configuration written by this node.",
		}, []string{"outcome"}),
		peerWaitTimeouts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_control_peer_wait_timeouts_total", Help: "Writes that did not wait any longer for another node to " +
				"apply them.",
		}),
		unauthentic: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_control_unauthenticated_records_total",
			Help: "Records without a valid MAC that this node found in a topic of the configuration and ignored.",
		}, []string{"topic"}),
	}
	for topic := range l.warned { // so that they are there before the first one
		m.unauthentic.WithLabelValues(topic)
	}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	reg.MustRegister(m.records, m.writes, m.snapshots, m.peerWaitTimeouts, m.unauthentic,
		gauge("relay_control_sequence", "Records of the configuration log that this node has seen.",
			func() float64 { return float64(l.view.Load().seq) }),
		gauge("relay_control_lease_age_seconds", "Time since this node was last sure to know the whole configuration log.",
			func() float64 { age, _ := l.Lease(); return age.Seconds() }),
		gauge("relay_clock_skew_seconds", "How far the broker's clock is ahead of this node's, as far as a heartbeat "+
			"proves it.",
			func() float64 { return l.ClockSkew().Seconds() }),
		gauge("relay_control_nodes", "Nodes heard of in the last 5 s, this one included.",
			func() float64 { return float64(len(l.peers.living(l.now(), l.timing.Lease))) }),
		gauge("relay_control_outbox_entries", "Changes that are applied and wait to be written to the audit log; at "+
			"100,000 nothing "+
			"is changed any more.",
			func() float64 { return float64(l.view.Load().Len(KindOutbox)) }),
		gauge("relay_control_state_bytes", "Size of the configuration as JSON.",
			func() float64 { return float64(l.view.Load().bytes()) }),
		gauge("relay_control_state_limit_bytes", "Size that the configuration may have.",
			func() float64 { return MaxStateBytes }),
	)
	return m
}
