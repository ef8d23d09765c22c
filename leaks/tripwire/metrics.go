package tripwire

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	uses    *prometheus.CounterVec
	dropped *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		uses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_tripwire_uses_total",
			Help: "Requests with the secret of a tripwire, by secret: key, url. Tests are counted too.",
		}, []string{"secret"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_tripwire_dropped_total",
			Help: "Uses of tripwires without a hit, by cause: queue_full, log (it did not confirm the hit), " +
				"no_keys (of findings).",
		}, []string{"cause"}),
	}
	for _, secret := range []string{"key", "url"} {
		m.uses.WithLabelValues(secret)
	}
	for _, cause := range []string{"queue_full", "log", "no_keys"} {
		m.dropped.WithLabelValues(cause)
	}
	r.MustRegister(m.uses, m.dropped)
	return m
}
