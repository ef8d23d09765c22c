package payload

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/metric"
)

type metrics struct {
	bytes, records, flooded, dropped prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		bytes: metric.Counter(r, "relay_payload_scanned_bytes_total",
			"Bytes of stored events that were scanned for secrets."),
		records: metric.Counter(r, "relay_payload_hit_records_total",
			"Hits of secrets in stored events that the log has acknowledged."),
		flooded: metric.Counter(r, "relay_payload_flooded_secrets_total",
			"Secrets in stored events that belong to the finding flood, because the endpoint or the account has too many."),
		dropped: metric.Counter(r, "relay_payload_dropped_secrets_total",
			"Secrets in stored events that made no hit, because the keys of findings could not be read."),
	}
}
