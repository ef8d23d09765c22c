package limit

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	errors *prometheus.CounterVec // by what was asked
}

func newMetrics(reg prometheus.Registerer, l *Limiter) *metrics {
	m := &metrics{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_limit_redis_errors_total", Help: "Exchanges with Redis that failed or took too long.",
		}, []string{"exchange"}),
	}
	if reg == nil {
		return m
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	reg.MustRegister(m.errors,
		gauge("relay_limit_breaker_open", "1 while Redis is not asked because it did not answer.", func() float64 {
			if l.breaker.isOpen() {
				return 1
			}
			return 0
		}),
		gauge("relay_limit_buckets", "Token buckets in memory.", func() float64 { return float64(l.buckets.len()) }),
	)
	return m
}
