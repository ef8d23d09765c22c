package dispatcher

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/stream"
)

// stats is a collector that reads lanes and retry topics at each scrape.
type stats struct {
	cfg        Config
	lanes      *lane.Lanes
	assignment *assignment
	now        func() time.Time
}

// Describe implements prometheus.Collector.
func (s *stats) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, out) }

// Collect implements prometheus.Collector.
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
	gauge("in_flight_max", "Limit of deliveries in flight on this node.", s.cfg.MaxInFlight)
	gauge("in_flight_bytes_max", "Limit of bytes of deliveries in flight on this node.", s.cfg.MaxInFlightBytes)
	gauge("sending", "Running requests to destinations.", census.Sending)
	gauge("sending_max", "Limit of concurrent requests to destinations on this node.", s.cfg.MaxSending)
	gauges("lanes", "Destinations in memory by state: all, in-flight window reduced by failures, waiting for a "+
		"rate limit token, circuit breaker open, circuit breaker half-open.", census.States, "state")
	gauges("parked", "Parked deliveries that this node has seen, by reason.", census.Parked, "reason")
	gauge("ordered", "Unfinished deliveries to ordered destinations.", census.Ordered)
	gauges("tier_records", "Records that wait in the retry topics, as of the last fetch of each partition.",
		s.tierDepths(), "tier")
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("relay_dispatch_backlog_age_seconds", "How far behind the "+
		"dispatcher reads events and commands: the age of the last record read from the partition with unread records "+
		"that is furthest behind. 0 without unread records.", nil, nil), prometheus.GaugeValue, s.backlogAge().Seconds())
}

// backlogAge returns how far behind this node reads events and commands.
func (s *stats) backlogAge() (oldest time.Duration) {
	now := s.now()
	for _, p := range s.assignment.all() {
		if p.delay > 0 || p.group.Lag(p.id) == 0 {
			continue
		}
		p.mu.Lock()
		if !p.lastRead.IsZero() {
			oldest = max(oldest, now.Sub(p.lastRead))
		}
		p.mu.Unlock()
	}
	return oldest
}

// tierDepths counts the records in each retry topic: those in memory and those not fetched yet.
func (s *stats) tierDepths() map[string]int {
	all := make(map[string]int)
	for _, t := range stream.Tiers() {
		all[t.Topic] = 0
	}
	for _, p := range s.assignment.all() {
		if p.delay > 0 {
			all[p.id.Topic] += p.depth()
		}
	}
	return all
}
