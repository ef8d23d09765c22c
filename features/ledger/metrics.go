package ledger

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/metric"
)

// metrics are the counts of this node's partitions.
type metrics struct {
	accepted, delivered, failed, skipped, rejected, dead, inFlight, lost prometheus.Gauge
	unproven                                                             prometheus.Gauge
	last, seconds                                                        prometheus.Gauge
	records, unaudited, failures                                         prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge { return metric.Gauge(reg, "relay_ledger_"+name, help) }
	counter := func(name, help string) prometheus.Counter { return metric.Counter(reg, "relay_ledger_"+name, help) }
	const (
		here = ", per event and destination, in this node's partitions."
		of   = ", per event and destination, of this node's events that are within the ledger's window or have not ended."
	)
	return &metrics{
		accepted:  gauge("accepted", "Accepted deliveries: the sum of the other seven counts"+of),
		delivered: gauge("delivered", "Deliveries that succeeded"+of),
		failed:    gauge("failed", "Deliveries that failed for good"+of),
		skipped: gauge("skipped", "Deliveries that were skipped, and events without a delivery (duplicates, no destination)"+
			of),
		rejected: gauge("rejected", "Events that were rejected"+of),
		dead:     gauge("dead", "Deliveries in the dead letter topic"+of),
		inFlight: gauge("in_flight", "Deliveries that have not ended, however old"+here),
		lost:     gauge("lost", "Lost deliveries (neither ended nor in flight), must be 0"+here),
		unproven: gauge("unproven", "Deliveries that count as in flight although no record was found in the log "+
			"that proves it."),
		last:    gauge("last_run_timestamp_seconds", "Unix time of the last complete run of the ledger."),
		seconds: gauge("last_run_duration_seconds", "Duration of the last complete run, throttling included."),
		records: counter("records_total", "Log records that the ledger has read."),
		unaudited: counter("unaudited_total", "Records, events and deliveries that the ledger skipped because there were "+
			"too many."),
		failures: counter("failures_total", "Runs of the ledger that failed."),
	}
}

// show sets the gauges from one complete run.
func (m *metrics) show(c Counts, unproven int, at time.Time, took time.Duration) {
	for g, n := range map[prometheus.Gauge]int{
		m.accepted: c.Accepted, m.delivered: c.Delivered, m.failed: c.Failed, m.skipped: c.Skipped, m.rejected: c.Rejected,
		m.dead: c.Dead, m.inFlight: c.InFlight, m.lost: c.Lost, m.unproven: unproven,
	} {
		g.Set(float64(n))
	}
	m.last.Set(float64(at.UnixMilli()) / 1000)
	m.seconds.Set(took.Seconds())
}
