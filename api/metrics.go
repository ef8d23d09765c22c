package api

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/web"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_api_requests_total", Help: "Requests answered by the API.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "relay_api_request_seconds", Help: "Time to the answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method"}),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.seconds)
	}
	return m
}

// done counts an answer. Requests without a route share one label, whatever their path and method.
func (m *metrics) done(x web.Exchange) {
	if x.Route == "" {
		x.Route, x.Method = "none", "any"
	}
	m.requests.WithLabelValues(x.Route, x.Method, strconv.Itoa(x.Status)).Inc()
	m.seconds.WithLabelValues(x.Route, x.Method).Observe(x.Elapsed.Seconds())
}
