package drain

import (
	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/metric"
)

// newStage returns what drains share with reports, and registers its metrics.
func newStage(deps Deps) *intake.Stage {
	return &intake.Stage{
		Deps: deps.Deps, Bounds: intake.Bounds{Config: deps.Config, Findings: deps.Findings},
		Counters:  intake.NewCounters(deps.Node, deps.Partitions, deps.Producer),
		Forbidden: "bad_signature",
		Requests: metric.Counters(deps.Metrics, "relay_drain_requests_total",
			"Requests to log drains with a valid URL, by result: accepted, paused (nothing was stored), rate_limited, "+
				"too_large, too_slow, unsupported_encoding, unreadable, bad_signature, unavailable (the log did not confirm the "+
				"hits), failed.", "result",
			"accepted", "paused", "rate_limited", "too_large", "too_slow", "unsupported_encoding", "bad_signature",
			"unavailable", "unreadable", "failed"),
		Records: metric.Counter(deps.Metrics, "relay_drain_hit_records_total",
			"Hits of drains that the log has acknowledged."),
		Flooded: metric.Counter(deps.Metrics, "relay_drain_flooded_secrets_total",
			"Secrets that were counted in the finding flood, because the drain or the account has too many findings."),
	}
}
