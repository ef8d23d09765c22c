package report

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/metric"
)

// newStage returns what reports share with drains, and registers its metrics.
func newStage(deps Deps) *intake.Stage {
	return &intake.Stage{
		Deps: deps.Deps, Bounds: intake.Bounds{Config: deps.Config, Findings: deps.Findings},
		Counters:  intake.NewCounters(deps.Node, deps.Partitions, deps.Producer),
		Forbidden: "wrong_origin",
		Requests: metric.Counters(deps.Metrics, "relay_report_requests_total",
			"Requests of the SDK, by result: accepted, unknown_dsn, wrong_origin, rate_limited, too_large, unreadable, "+
				"unavailable (the log did not confirm the hits), failed.", "result",
			"accepted", "unknown_dsn", "wrong_origin", "rate_limited", "too_large", "unreadable", "unavailable", "failed"),
		Records: metric.Counter(deps.Metrics, "relay_report_hit_records_total",
			"Hits of the SDK that the log has acknowledged."),
		Flooded: metric.Counter(deps.Metrics, "relay_report_flooded_secrets_total",
			"Secrets that were counted in the finding flood, because the DSN or the account has too many findings, "+
				"or the DSN too many rows."),
	}
}

// metrics are those of the reports within requests.
type metrics struct{ rejected, dropped *prometheus.CounterVec }

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		rejected: metric.Counters(r, "relay_report_rejected_total",
			"Reports in accepted requests that were rejected, by reason.", "reason",
			invalidReport, invalidRule, invalidMask, invalidFingerprint, invalidWhere, overQuota),
		dropped: metric.Counters[string](r, "relay_report_dropped_total",
			"What applications say that they did not report, by reason: queue_full, sampled, send_failed, "+
				"masking_failed (the line was withheld).", "reason"),
	}
}
