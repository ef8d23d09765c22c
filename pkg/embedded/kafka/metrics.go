package kafka

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type metrics struct {
	barrier  *prometheus.HistogramVec // by topics
	files    *prometheus.CounterVec   // by topics
	requests *prometheus.CounterVec   // by kind of request
}

// newMetrics registers on reg unless it is nil.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		barrier: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "relay_embedded_kafka_barrier_seconds",
			Help:    "Time that one barrier of the embedded broker took to bring records to the disk.",
			Buckets: prometheus.ExponentialBuckets(100e-6, 2, 16), // 0.1 ms to 3.3 s
		}, []string{"topics"}),
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_embedded_kafka_synced_total",
			Help: "Partitions and state files that barriers of the embedded broker brought to the disk.",
		}, []string{"topics"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_embedded_kafka_requests_total",
			Help: "Requests that the embedded broker took, by kind: produce, fetch and all others.",
		}, []string{"kind"}),
	}
	if reg != nil {
		reg.MustRegister(m.barrier, m.files, m.requests)
	}
	return m
}

// observer returns what a barrier reports its rounds to.
func (m *metrics) observer(topics string) func(files int, took time.Duration) {
	barrier, files := m.barrier.WithLabelValues(topics), m.files.WithLabelValues(topics)
	return func(n int, took time.Duration) {
		barrier.Observe(took.Seconds())
		files.Add(float64(n))
	}
}

// counter returns what counts the requests of a connection by their kind.
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
