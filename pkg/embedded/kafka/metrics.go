package kafka

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type metrics struct {
	barrier  *prometheus.HistogramVec // by kind of topics
	files    *prometheus.CounterVec   // by kind of topics
	requests *prometheus.CounterVec   // by kind of request
}

// newMetrics creates the metrics and registers them unless reg is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		barrier: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "relay_embedded_kafka_barrier_seconds",
			Help:    "Duration of one sync round of the embedded broker, by kind of topics: durable or other.",
			Buckets: prometheus.ExponentialBuckets(100e-6, 2, 16), // 0.1 ms to 3.3 s
		}, []string{"topics"}),
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_embedded_kafka_synced_files_total",
			Help: "Partitions and state files that the embedded broker synced to disk, by kind of topics: durable or other.",
		}, []string{"topics"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_embedded_kafka_requests_total",
			Help: "Requests to the embedded broker, by kind: produce, fetch or other.",
		}, []string{"kind"}),
	}
	if reg != nil {
		reg.MustRegister(m.barrier, m.files, m.requests)
	}
	return m
}

// observer returns the function to which a barrier reports its rounds.
func (m *metrics) observer(topics string) func(files int, took time.Duration) {
	barrier, files := m.barrier.WithLabelValues(topics), m.files.WithLabelValues(topics)
	return func(n int, took time.Duration) {
		barrier.Observe(took.Seconds())
		files.Add(float64(n))
	}
}

// counter returns a function that counts requests by kind.
func (m *metrics) counter() func(kmsg.Key) {
	produce, fetch, other := m.requests.WithLabelValues("produce"), m.requests.WithLabelValues("fetch"),
		m.requests.WithLabelValues("other")
	return func(k kmsg.Key) {
		switch k {
		case kmsg.Produce:
			produce.Inc()
		case kmsg.Fetch:
			fetch.Inc()
		default:
			other.Inc()
		}
	}
}
