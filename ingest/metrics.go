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
			Name: "relay_ingest_accepted_total", Help: "Events that the log has durably, by source and verdict of the " +
				"verification.",
		}, []string{"source", "verdict"}),
		acceptedBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_ingest_accepted_bytes_total", Help: "Body bytes of accepted events.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_refused_total",
			Help: "Events answered 503, by cause: clock, crowded, full, share (of an endpoint or client in the memory for " +
				"bodies), stalled, unknown.",
		}, []string{"cause"}),
		stalled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_ingest_stalled_partitions", Help: "Partitions that answer nothing, so that events for them are " +
				"refused at once.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_rejected_total", Help: "Requests whose signature was refused, by reason.",
		}, []string{"reason"}),
		unstored: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_ingest_rejected_unstored_total",
			Help: "Rejected requests that were counted but not stored: beyond 10 a second and endpoint, or longer than 64 KiB.",
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_limited_total",
			Help: "Requests and events answered 429, by the limit of their endpoint: events or bytes of its ingest_limit, " +
				"rejected.",
		}, []string{"limit"}),
		dedup: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_ingest_dedup_total",
			Help: "Events of endpoints that ask for deduplication, by what was known of them: new, duplicate, pending " +
				"(answered 503), unavailable (taken without).",
		}, []string{"result"}),
	}
	// They are there before the first refusal, whose increase an alert has to see.
	for _, cause := range []string{"clock", "crowded", "full", "share", "stalled", "unknown"} {
		m.refused.WithLabelValues(cause)
	}
	r.MustRegister(m.accepted, m.acceptedBytes, m.refused, m.stalled, m.rejected, m.unstored, m.limited, m.dedup)
	return m
}
