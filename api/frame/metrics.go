package frame

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/web"
)

// Metrics count the answers of the API, by route.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	mu     sync.RWMutex // guards series
	series map[labels]series
}

// labels are the labels of one answer: route, method and status.
type labels struct {
	route, method string
	status        int // or cutOff
}

// cutOff is the status of an answer that broke off.
const cutOff = -1

// series are the metrics for one set of labels. They are cached, because looking them up costs more than counting.
type series struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

// NewMetrics registers the metrics of the API; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_api_requests_total",
			Help: "Requests that the API answered. The status cut_off is an answer that broke off.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "relay_api_request_seconds", Help: "Time until a request was answered.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method"}),
		series: make(map[labels]series),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.seconds)
	}
	m.seriesOf(labels{"none", "any", http.StatusNotFound}) // the metrics exist before the first request
	return m
}

// Done counts an answer. Requests without a route have the labels route="none" and method="any".
func (m *Metrics) Done(x web.Exchange) {
	if x.Route == "" {
		x.Route, x.Method = "none", "any"
	}
	if x.CutOff {
		x.Status = cutOff
	}
	s := m.seriesOf(labels{x.Route, x.Method, x.Status})
	s.requests.Inc()
	s.seconds.Observe(x.Elapsed.Seconds())
}

func (m *Metrics) seriesOf(l labels) series {
	m.mu.RLock()
	s, ok := m.series[l]
	m.mu.RUnlock()
	if ok {
		return s
	}
	status := "cut_off"
	if l.status != cutOff {
		status = strconv.Itoa(l.status)
	}
	s = series{m.requests.WithLabelValues(l.route, l.method, status),
		m.seconds.WithLabelValues(l.route, l.method)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series[l] = s
	return s
}
