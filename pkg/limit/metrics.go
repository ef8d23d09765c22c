package limit

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	errors          *prometheus.CounterVec // by what was asked
	leases          *prometheus.CounterVec // by result
	tokensRequested prometheus.Counter
	tokensGranted   prometheus.Counter
	localSeconds    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, l *Limiter) *metrics {
	m := &metrics{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_limit_redis_errors_total", Help: "Exchanges with Redis that failed or took too long.",
		}, []string{"exchange"}),
		leases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_limit_leases_total", Help: "Leases of tokens asked for, by how much of them was granted: granted, " +
				"part or denied.",
		}, []string{"result"}),
		tokensRequested: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "relay_limit_tokens_asked_total", Help: "Tokens that leases asked for."}),
		tokensGranted: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "relay_limit_tokens_granted_total", Help: "Tokens that leases granted."}),
		localSeconds: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_limit_local_seconds_total", Help: "Time in which Redis was away and this node limited for itself.",
		}),
	}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	reg.MustRegister(m.errors, m.leases, m.tokensRequested, m.tokensGranted, m.localSeconds,
		gauge("relay_limit_breaker_open", "1 while Redis is not asked because it did not answer.", func() float64 {
			if l.breaker.isOpen() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "relay_limit_evicted_total", Help: "Buckets that were forgotten before they were full, because there were " +
				"too many.",
		}, func() float64 { return float64(l.buckets.evicted.Load()) }),
		gauge("relay_limit_buckets", "Token buckets in memory.", func() float64 { return float64(l.buckets.len()) }),
	)
	return m
}

// countLease counts one answered lease, in thousandths of a token.
func (m *metrics) countLease(asked, granted int64) {
	result := "part"
	switch granted {
	case asked:
		result = "granted"
	case 0:
		result = "denied"
	}
	m.leases.WithLabelValues(result).Inc()
	m.tokensRequested.Add(float64(asked) / 1000)
	m.tokensGranted.Add(float64(granted) / 1000)
}
