package drain

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
	records  prometheus.Counter
	flooded  prometheus.Counter
}

// results are the values of the label result of relay_drain_requests_total.
var results = []string{"accepted", "paused", "rate_limited", "too_large", "too_slow", "unsupported_encoding",
	"bad_signature", "unavailable", "unreadable", "failed"}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_drain_requests_total",
			Help: "Requests to log drains with a valid URL, by result: accepted, paused (nothing was stored), rate_limited, " +
				"too_large, too_slow, unsupported_encoding, unreadable, bad_signature, unavailable (the log did not confirm the " +
				"hits), failed.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_drain_scanned_bytes_total", Help: "Decompressed bytes that were scanned.",
		}),
		records: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_drain_hit_records_total", Help: "Hits of drains that the log has acknowledged.",
		}),
		flooded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_drain_flooded_secrets_total",
			Help: "Secrets that were counted in the finding flood, because the drain or the account has too many findings.",
		}),
	}
	for _, result := range results { // from the start, so that an alert on increase() sees the first one
		m.requests.WithLabelValues(result)
	}
	r.MustRegister(m.requests, m.bytes, m.records, m.flooded)
	return m
}
