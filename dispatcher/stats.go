package dispatcher

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
)

// stats shows lanes and retry topics as they are when it is asked.
type stats struct {
	cfg        Config
	lanes      *lane.Lanes
	tierDepths func() map[string]int // of the retry topics
}

// Describe is called by prometheus.
func (s *stats) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, out) }

// Collect is called by prometheus.
func (s *stats) Collect(out chan<- prometheus.Metric) {
	gauges := func(name, help string, values map[string]int, labels ...string) {
		desc := prometheus.NewDesc("relay_dispatch_"+name, help, labels, nil)
		for value, n := range values {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), []string{value}[:len(labels)]...)
		}
	}
	gauge := func(name, help string, n int) { gauges(name, help, map[string]int{"": n}) }
	census := s.lanes.Census()
	gauge("in_flight", "Deliveries that are queued, sent or being recorded.", census.Deliveries)
	gauge("in_flight_bytes", "Bytes of the deliveries in flight.", census.Bytes)
	gauge("in_flight_max", "Deliveries that this node may have in flight.", s.cfg.MaxInFlight)
	gauge("in_flight_bytes_max", "Bytes of deliveries that this node may have in flight.", s.cfg.MaxInFlightBytes)
	gauge("sending", "Requests to destinations that are running.", census.Sending)
	gauge("sending_max", "Requests to destinations that this node may send at once.", s.cfg.MaxSending)
	gauges("lanes", "Destinations in memory by state: all of them, fewer requests at once than max_in_flight because of "+
		"failures, waiting for a token, breaker open, breaker half-open.", census.States, "state")
	gauges("parked", "Parked deliveries that this node has seen, by reason.", census.Parked, "reason")
	gauges("tier_records", "Records of the retry topics that wait for their time, as of the last fetch of each partition.",
		s.tierDepths(), "tier")
}

// depths counts what waits in the retry topics, in memory and in the log.
func (d *Dispatcher) tierDepths() map[string]int {
	all := make(map[string]int, len(d.tiers))
	for _, t := range d.tiers {
		all[t.Topic] = 0
	}
	for _, p := range d.assignment() {
		if p.delay > 0 {
			p.mu.Lock()
			all[p.id.Topic] += len(p.waiting) + int(d.lag(p.id))
			p.mu.Unlock()
		}
	}
	return all
}
