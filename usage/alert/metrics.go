package alert

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the figures of the stage.
type metrics struct {
	transitions *prometheus.CounterVec // by rule and what became of it
	messages    *prometheus.CounterVec // by channel and result
	digests     prometheus.Counter
	dropped     prometheus.Counter
	unreadable  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_alert_transitions_total", Help: "Alerts that fired or were resolved, by rule."},
			[]string{"rule", "to"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_alert_messages_total", Help: "Tries to send alerts, by channel and result: ok or an error code."},
			[]string{"channel", "result"}),
		digests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_digests_total",
			Help: "Alert digests mailed after the limit of 60 mails an hour."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_dropped_total", Help: "Messages given up: their channel refused them for a day, or for good."}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_unreadable_total", Help: "Records that could not be decoded and were skipped."}),
	}
	for _, c := range []prometheus.Collector{m.transitions, m.messages, m.digests, m.dropped, m.unreadable} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register alert metrics: %w", err)
		}
	}
	return m, nil
}
