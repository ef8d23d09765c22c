package limit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eventrelay/relay/pkg/metric"
)

type metrics struct {
	errors          *prometheus.CounterVec // by kind of exchange
	leases          *prometheus.CounterVec // by result
	tokensRequested prometheus.Counter
	tokensGranted   prometheus.Counter
	localSeconds    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, l *Limiter) *metrics {
	metric.GaugeOf(reg, "relay_limit_breaker_open", "1 while the circuit breaker for Redis is open, else 0.",
		func() float64 {
			if l.breaker.isOpen() {
				return 1
			}
			return 0
		})
	promauto.With(reg).NewCounterFunc(prometheus.CounterOpts{
		Name: "relay_limit_buckets_evicted_total", Help: "Token buckets evicted to make room for new ones, because " +
			"memory holds the most that it may.",
	}, func() float64 { return float64(l.buckets.evicted.Load()) })
	metric.GaugeOf(reg, "relay_limit_buckets", "Token buckets in memory.",
		func() float64 { return float64(l.buckets.len()) })
	return &metrics{
		errors: metric.Counters(reg, "relay_limit_redis_errors_total", "Exchanges with Redis that failed or timed out.",
			"exchange", "claim", "held", "lease", "probe"),
		leases: metric.Counters(reg, "relay_limit_leases_total",
			"Requested token leases by result: granted in full, in part, or denied.", "result", "granted", "part", "denied"),
		tokensRequested: metric.Counter(reg, "relay_limit_tokens_requested_total", "Tokens requested by leases."),
		tokensGranted:   metric.Counter(reg, "relay_limit_tokens_granted_total", "Tokens granted to leases."),
		localSeconds: metric.Counter(reg, "relay_limit_local_seconds_total",
			"Time in which Redis was unavailable and this node limited for itself."),
	}
}

// countLease counts one answered lease, in thousandths of a token.
func (m *metrics) countLease(requested, granted int64) {
	result := "part"
	switch granted {
	case requested:
		result = "granted"
	case 0:
		result = "denied"
	}
	m.leases.WithLabelValues(result).Inc()
	m.tokensRequested.Add(float64(requested) / 1000)
	m.tokensGranted.Add(float64(granted) / 1000)
}
