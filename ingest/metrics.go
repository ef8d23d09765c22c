package ingest

import "github.com/prometheus/client_golang/prometheus"

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
	m := &metrics{
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_accepted_total",
			Help: "Events stored durably in the log, by source and by verdict of the " +
				"signature verification.",
		}, []string{"source", "verdict"}),
		acceptedBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_ingest_accepted_bytes_total", Help: "Body bytes of accepted events.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_refused_total",
			Help: "Requests and events answered 503, by cause: clock, full (producer, partition or consumer lag), " +
				"stalled (partition), unknown (the log did not confirm), body_memory (of all requests), " +
				"body_memory_share (of one endpoint or client).",
		}, []string{"cause"}),
		stalled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_ingest_stalled_partitions",
			Help: "Partitions of the topic events that have stopped acknowledging records; " +
				"their events are answered 503 immediately.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_rejected_total", Help: "Requests rejected because of their signature, by reason.",
		}, []string{"reason"}),
		unstored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_ingest_rejected_unstored_total",
			Help: "Rejected requests that were not stored: of an endpoint more than 10 per second or 1 MiB per minute, " +
				"or a body larger than 64 KiB.",
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_limited_total",
			Help: "Requests and events answered 429, by limit: events or bytes (of the endpoint's ingest_limit), " +
				"rejected (more than 100 rejected requests per second and endpoint).",
		}, []string{"limit"}),
		dedup: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_dedup_total",
			Help: "Events of endpoints with deduplication, by result: new, duplicate, pending " +
				"(an equal event was still being stored after a wait of at most 1 s; answered 503), " +
				"unavailable (stored without deduplication).",
		}, []string{"result"}),
	}
	// All label values exist from the start, so that an alert on increase() sees the first refusal.
	for _, cause := range []string{"body_memory", "body_memory_share", "clock", "full", "stalled", "unknown"} {
		m.refused.WithLabelValues(cause)
	}
	for _, limit := range []string{"events", "bytes", "rejected"} {
		m.limited.WithLabelValues(limit)
	}
	for _, result := range []string{"new", "duplicate", "pending", "unavailable"} {
		m.dedup.WithLabelValues(result)
	}
	r.MustRegister(m.accepted, m.acceptedBytes, m.refused, m.stalled, m.rejected, m.unstored, m.limited, m.dedup)
	return m
}
