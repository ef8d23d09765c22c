package tripwire

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/metric"
)

type metrics struct {
	uses    *prometheus.CounterVec
	dropped *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		uses: metric.Counters(r, "relay_tripwire_uses_total",
			"Requests with the secret of a tripwire, by secret: key, url. Tests are counted too.", "secret", "key", "url"),
		dropped: metric.Counters(r, "relay_tripwire_dropped_total",
			"Uses of tripwires without a hit, by cause: queue_full, log (it did not confirm the hit), no_keys (of findings).",
			"cause", "queue_full", "log", "no_keys"),
	}
}
