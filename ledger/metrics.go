package ledger

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the figures of this node's partitions.
type metrics struct {
	accepted, delivered, failed, skipped, rejected, dead, inFlight, residue prometheus.Gauge
	unproven                                                                prometheus.Gauge
	last, seconds                                                           prometheus.Gauge
	records, passed, failures                                               prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	var err error
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "relay_ledger_" + name, Help: help})
		if e := reg.Register(g); e != nil && err == nil {
			err = fmt.Errorf("register ledger metrics: %w", e)
		}
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "relay_ledger_" + name, Help: help})
		if e := reg.Register(c); e != nil && err == nil {
			err = fmt.Errorf("register ledger metrics: %w", e)
		}
		return c
	}
	const of = " Deliveries of the ledger's window, per event and destination, in this node's partitions."
	return &metrics{
		accepted:  gauge("accepted", "Accepted."+of),
		delivered: gauge("delivered", "Delivered."+of),
		failed:    gauge("failed", "Failed."+of),
		skipped:   gauge("skipped", "Skipped, or without a destination."+of),
		rejected:  gauge("rejected", "Events that were rejected."+of),
		dead:      gauge("dead", "In the topic dead."+of),
		inFlight:  gauge("in_flight", "Not at their end, however old."+of),
		residue:   gauge("residue", "Lost: neither at their end nor on their way. Anything but 0 is an alarm."+of),
		unproven: gauge("unproven", "Chains in flight that were taken on their last word, without proof that their work "+
			"is in the log."),
		last:    gauge("last_run_timestamp_seconds", "When the log was last looked at, to the end."),
		seconds: gauge("last_run_seconds", "How long that took, its pauses included."),
		records: counter("records_total", "Records that were read."),
		passed: counter("passed_total", "Records of events and deliveries that were passed over because there were "+
			"too many."),
		failures: counter("failures_total", "Looks that could not be finished."),
	}, err
}

// show sets the gauges.
func (m *metrics) show(c Counts, unproven int, at time.Time, took time.Duration) {
	for g, n := range map[prometheus.Gauge]int{
		m.accepted: c.Accepted, m.delivered: c.Delivered, m.failed: c.Failed, m.skipped: c.Skipped, m.rejected: c.Rejected,
		m.dead: c.Dead, m.inFlight: c.InFlight, m.residue: c.Residue, m.unproven: unproven,
	} {
		g.Set(float64(n))
	}
	m.last.Set(float64(at.UnixMilli()) / 1000)
	m.seconds.Set(took.Seconds())
}
