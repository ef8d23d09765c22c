package limit

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	errors          *prometheus.CounterVec // by kind of exchange
	leases          *prometheus.CounterVec // by result
	tokensRequested prometheus.Counter
	tokensGranted   prometheus.Counter
	localSeconds    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, l *Limiter) *metrics {
	m := &metrics{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_limit_redis_errors_total", Help: "Exchanges with Redis that failed or timed out.",
		}, []string{"exchange"}),
		leases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_limit_leases_total", Help: "Requested token leases by result: granted in full, in part, or " +
				"denied.",
		}, []string{"result"}),
		tokensRequested: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "relay_limit_tokens_requested_total", Help: "Tokens requested by leases."}),
		tokensGranted: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "relay_limit_tokens_granted_total", Help: "Tokens granted to leases."}),
		localSeconds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_limit_local_seconds_total",
			Help: "Time in which Redis was unavailable and this node limited for itself.",
		}),
	}
	// All label values exist from the start, so that a rate sees the first failure.
	for _, exchange := range []string{"claim", "held", "lease", "probe"} {
		m.errors.WithLabelValues(exchange)
	}
	for _, result := range []string{"granted", "part", "denied"} {
		m.leases.WithLabelValues(result)
	}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	reg.MustRegister(m.errors, m.leases, m.tokensRequested, m.tokensGranted, m.localSeconds,
		gauge("relay_limit_breaker_open", "1 while the circuit breaker for Redis is open, else 0.", func() float64 {
			if l.breaker.isOpen() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "relay_limit_buckets_evicted_total", Help: "Token buckets evicted to make room for new ones, because " +
				"memory holds the most that it may.",
		}, func() float64 { return float64(l.buckets.evicted.Load()) }),
		gauge("relay_limit_buckets", "Token buckets in memory.", func() float64 { return float64(l.buckets.len()) }),
	)
	return m
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
