package dispatcher

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
)

// stats shows lanes and tiers as they are when it is asked.
type stats struct {
	lanes          *lane.Lanes
	cfg            Config
	depths         func() map[string]int64
	jobs, bytes    *prometheus.Desc
	states, parked *prometheus.Desc
	depth          *prometheus.Desc
	sending, most  *prometheus.Desc
	maxJobs        *prometheus.Desc
	maxBytes       *prometheus.Desc
}

// newStats asks depths for the depth of each retry topic.
func newStats(ls *lane.Lanes, cfg Config, depths func() map[string]int64) *stats {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("relay_dispatch_"+name, help, labels, nil)
	}
	return &stats{
		lanes:    ls,
		cfg:      cfg,
		depths:   depths,
		jobs:     desc("in_flight", "Deliveries that are queued, sent or being recorded."),
		bytes:    desc("in_flight_bytes", "Bytes of the deliveries in flight."),
		maxJobs:  desc("in_flight_max", "Deliveries that this node may have in flight."),
		maxBytes: desc("in_flight_bytes_max", "Bytes of deliveries that this node may have in flight."),
		sending:  desc("sending", "Requests to destinations that are running."),
		most:     desc("sending_max", "Requests to destinations that this node may send at once."),
		states:   desc("lanes", "Destinations in memory by state: all of them, fewer requests at once than max_in_flight because of failures, waiting for a token, breaker open, breaker half-open.", "state"),
		parked:   desc("parked", "Parked deliveries that this node has seen, by reason.", "reason"),
		depth:    desc("tier_records", "Records of the retry topics that wait for their time, as of the last fetch of each partition.", "tier"),
	}
}

// Describe is called by prometheus.
func (s *stats) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.jobs, s.bytes, s.maxJobs, s.maxBytes, s.states, s.parked, s.depth, s.sending, s.most} {
		out <- d
	}
}

// Collect is called by prometheus.
func (s *stats) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	census := s.lanes.Census()
	for state, n := range census.States {
		gauge(s.states, n, state)
	}
	for reason, n := range census.Parked {
		gauge(s.parked, n, string(reason))
	}
	for tier, n := range s.depths() {
		gauge(s.depth, int(n), tier)
	}
	gauge(s.sending, census.Sending)
	gauge(s.most, s.cfg.MaxSending)
	gauge(s.maxJobs, s.cfg.MaxInFlight)
	gauge(s.maxBytes, s.cfg.MaxInFlightBytes)
	gauge(s.jobs, census.Deliveries)
	gauge(s.bytes, census.Bytes)
}

// depths counts what waits in the retry topics, in memory and in the log.
func (d *Dispatcher) depths() map[string]int64 {
	all := make(map[string]int64, len(d.tiers))
	for _, t := range d.tiers {
		all[t.Topic] = 0
	}
	for _, p := range d.assignment() {
		if p.delay > 0 {
			p.mu.Lock()
			all[p.id.Topic] += int64(len(p.waiting)) + d.behind(p.id)
			p.mu.Unlock()
		}
	}
	return all
}
