package scan

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/metric"
)

type metrics struct {
	running  prometheus.Gauge
	ended    *prometheus.CounterVec
	duration prometheus.Histogram
	requests *prometheus.CounterVec
}

// Values of the label result of relay_scan_requests_total.
const (
	requestAnswered = "answered"
	requestRefused  = "refused"
	requestBlocked  = "blocked"
	requestFailed   = "failed"
)

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		running: metric.Gauge(r, "relay_scan_running", "Leak scans that this node runs now: 0 or 1."),
		ended: metric.Counters(r, "relay_scan_ended_total",
			"Leak scans that this node has ended, by result: completed, failed (its report says why).", "result",
			leak.ScanCompleted, leak.ScanFailed),
		duration: promauto.With(r).NewHistogram(prometheus.HistogramOpts{
			Name:    "relay_scan_duration_seconds",
			Help:    "Time from the first start of a leak scan to its report, on all nodes that have begun it.",
			Buckets: []float64{5, 10, 20, 40, 60, 90, 120, 180, 300},
		}),
		requests: metric.Counters(r, "relay_scan_requests_total",
			"Requests of leak scans to websites, by result: answered, refused (429 or 503), blocked (an address that is "+
				"not public), failed (no answer).", "result",
			requestAnswered, requestRefused, requestBlocked, requestFailed),
	}
}

func (m *metrics) countRequest(answer *http.Response, err error) {
	result := requestAnswered
	switch {
	case isBlocked(err):
		result = requestBlocked
	case err != nil:
		result = requestFailed
	case answer.StatusCode == http.StatusTooManyRequests, answer.StatusCode == http.StatusServiceUnavailable:
		result = requestRefused
	}
	m.requests.WithLabelValues(result).Inc()
}

// countScan counts a scan that has ended.
func (m *metrics) countScan(s *leak.Scan) {
	m.ended.WithLabelValues(s.Status).Inc()
	m.duration.Observe(s.FinishedAt.Sub(s.StartedAt).Seconds())
}
