package alert

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eventrelay/relay/pkg/metric"
)

// metrics are the metrics of the stage.
type metrics struct {
	transitions  *prometheus.CounterVec // by rule and new state
	sendAttempts *prometheus.CounterVec // by channel and result
	digests      prometheus.Counter
	dropped      prometheus.Counter
	undecodable  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		transitions: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "relay_alert_transitions_total", Help: "Transitions of alerts, by rule and new state (firing or resolved)."},
			[]string{"rule", "to"}),
		sendAttempts: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
			Name: "relay_alert_send_attempts_total", Help: "Attempts to send alert notices, by channel and result (ok or an " +
				"error code)."},
			[]string{"channel", "result"}),
		digests: metric.Counter(reg, "relay_alert_digests_total",
			"Digests that this node tried to mail because of the limit of 60 alert mails an hour."),
		dropped: metric.Counter(reg, "relay_alert_dropped_total",
			"Targets of alert notices that were given up: not reached for 24 hours, or refused for good."),
		undecodable: metric.Counter(reg, "relay_alert_undecodable_records_total",
			"Records of outcomes and events that alerts skipped because they cannot be decoded."),
	}
}
