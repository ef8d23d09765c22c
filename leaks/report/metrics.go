package report

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	rejected *prometheus.CounterVec
	dropped  *prometheus.CounterVec
	records  prometheus.Counter
	flooded  prometheus.Counter
}

// Values of the labels, so that alerts on increase() see the first one.
var (
	results = []string{"accepted", "unknown_dsn", "wrong_origin", "rate_limited", "too_large", "unreadable",
		"unavailable", "failed"}
	reasons = []reason{invalidReport, invalidRule, invalidMask, invalidFingerprint, invalidWhere, overQuota}
)

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_report_requests_total",
			Help: "Requests of the SDK, by result: accepted, unknown_dsn, wrong_origin, rate_limited, too_large, unreadable, " +
				"unavailable (the log did not confirm the hits), failed.",
		}, []string{"result"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_report_rejected_total", Help: "Reports in accepted requests that were rejected, by reason.",
		}, []string{"reason"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_report_dropped_total",
			Help: "What applications say that they did not report, by reason: queue_full, sampled, send_failed, " +
				"masking_failed (the line was withheld).",
		}, []string{"reason"}),
		records: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_report_hit_records_total", Help: "Hits of the SDK that the log has acknowledged.",
		}),
		flooded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_report_flooded_secrets_total",
			Help: "Secrets that were counted in the finding flood, because the DSN or the account has too many findings, " +
				"or the DSN too many rows.",
		}),
	}
	for _, result := range results {
		m.requests.WithLabelValues(result)
	}
	for _, why := range reasons {
		m.rejected.WithLabelValues(string(why))
	}
	r.MustRegister(m.requests, m.rejected, m.dropped, m.records, m.flooded)
	return m
}
