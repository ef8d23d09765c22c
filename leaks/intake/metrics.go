package intake

import "github.com/prometheus/client_golang/prometheus"

// NewCounter registers a counter.
func NewCounter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.MustRegister(c)
	return c
}

// NewCounterVec registers counters by a label. Those of the given values are there from the start, so that an alert on
// increase() sees the first one.
func NewCounterVec[S ~string](r prometheus.Registerer, name, help, label string, values ...S) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		c.WithLabelValues(string(value))
	}
	r.MustRegister(c)
	return c
}
