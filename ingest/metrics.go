package ingest

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/eventrelay/relay/pkg/metric"
)

type metrics struct {
	accepted      *prometheus.CounterVec
	acceptedBytes prometheus.Counter
	refused       *prometheus.CounterVec
	stalled       prometheus.Gauge
	rejected      *prometheus.CounterVec
	unstored      prometheus.Counter
	limited       *prometheus.CounterVec
	dedup         *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	return &metrics{
		accepted: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_accepted_total",
			Help: "Events stored durably in the log, by source and by verdict of the " +
				"signature verification.",
		}, []string{"source", "verdict"}),
		acceptedBytes: metric.Counter(r, "relay_ingest_accepted_bytes_total", "Body bytes of accepted events."),
		refused: metric.Counters(r, "relay_ingest_refused_total",
			"Requests and events answered 503, by cause: clock, full (producer, partition or consumer lag), "+
				"stalled (partition), unknown (the log did not confirm), body_memory (of all requests), "+
				"body_memory_share (of one endpoint or client).",
			"cause", "body_memory", "body_memory_share", "clock", "full", "stalled", "unknown"),
		stalled: metric.Gauge(r, "relay_ingest_stalled_partitions",
			"Partitions of the topic events that have stopped acknowledging records; "+
				"their events are answered 503 immediately."),
		rejected: metric.Counters[string](r, "relay_ingest_rejected_total",
			"Requests rejected because of their signature, by reason.", "reason"),
		unstored: metric.Counter(r, "relay_ingest_rejected_unstored_total",
			"Rejected requests that were not stored: of an endpoint more than 10 per second or 1 MiB per minute, "+
				"or a body larger than 64 KiB."),
		limited: metric.Counters(r, "relay_ingest_limited_total",
			"Requests and events answered 429, by limit: events or bytes (of the endpoint's ingest_limit), "+
				"rejected (more than 100 rejected requests per second and endpoint).",
			"limit", "events", "bytes", "rejected"),
		dedup: metric.Counters(r, "relay_ingest_dedup_total",
			"Events of endpoints with deduplication, by result: new, duplicate, pending "+
				"(an equal event was still being stored after a wait of at most 1 s; answered 503), "+
				"unavailable (stored without deduplication).",
			"result", "new", "duplicate", "pending", "unavailable"),
	}
}
