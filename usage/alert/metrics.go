package alert

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of the stage.
type metrics struct {
	transitions  *prometheus.CounterVec // by rule and new state
	sendAttempts *prometheus.CounterVec // by channel and result
	digests      prometheus.Counter
	dropped      prometheus.Counter
	undecodable  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_alert_transitions_total", Help: "Transitions of alerts, by rule and new state (firing or resolved)."},
			[]string{"rule", "to"}),
		sendAttempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_alert_send_attempts_total", Help: "Attempts to send alert notices, by channel and result (ok or an " +
				"error code)."},
			[]string{"channel", "result"}),
		digests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_digests_total",
			Help: "Digests that this node tried to mail because of the limit of 60 alert mails an hour."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_dropped_total", Help: "Targets of alert notices that were given up: not " +
				"reached for 24 hours, or refused for good."}),
		undecodable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_undecodable_records_total", Help: "Records of outcomes and events that alerts skipped " +
				"because they cannot be decoded."}),
	}
	for _, c := range []prometheus.Collector{m.transitions, m.sendAttempts, m.digests, m.dropped, m.undecodable} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register alert metrics: %w", err)
		}
	}
	return m, nil
}
