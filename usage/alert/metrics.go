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
			Name: "relay_alert_transitions_total", Help: "Alerts that fired or were resolved, by rule."}, []string{"rule", "to"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_alert_messages_total", Help: "Tries to send alerts, by channel and result: ok or an error code."}, []string{"channel", "result"}),
		digests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_digests_total",
			Help: "Alert digests that were mailed because an hour had 60 alert mails."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_dropped_total", Help: "Targets that were given up: they took a message for a day not, or will never."}),
		unreadable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_alert_unreadable_total", Help: "Records that could not be read and were passed over."}),
	}
	for _, c := range []prometheus.Collector{m.transitions, m.messages, m.digests, m.dropped, m.unreadable} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register alert metrics: %w", err)
		}
	}
	return m, nil
}
