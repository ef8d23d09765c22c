// Package metric makes metrics and registers them. A registerer that is nil registers nothing.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Counter returns a counter.
func Counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	return promauto.With(r).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters returns counters by a label. Those of the given values are there from the start, so that an alert on
// increase() sees the first one.
func Counters[S ~string](r prometheus.Registerer, name, help, label string, values ...S) *prometheus.CounterVec {
	c := promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		c.WithLabelValues(string(value))
	}
	return c
}

// Gauge returns a gauge.
func Gauge(r prometheus.Registerer, name, help string) prometheus.Gauge {
	return promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// GaugeOf registers a gauge that is read at each scrape.
func GaugeOf(r prometheus.Registerer, name, help string, read func() float64) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}
