package api

import "github.com/eventrelay/relay/pkg/config"

// Limits of ingest_limit: events per second, and bytes of bodies per second.
const (
	maxIngestEvents                = 100_000
	minIngestBytes, maxIngestBytes = 1 << 10, 1 << 30
)

// ingestLimit reads the ingest limit per second; null, as a whole or for one member, means no limit.
func (in *endpointInput) ingestLimit(o *object, e *config.Endpoint) {
	const name = "ingest_limit"
	if o.isNull(name) {
		e.IngestLimit = nil
	}
	x := o.object(name)
	if x == nil {
		return
	}
	var next config.IngestLimit
	if e.IngestLimit != nil {
		next = *e.IngestLimit
	}
	x.integerOrNull("events_per_second", 1, maxIngestEvents, &next.EventsPerSecond)
	x.integerOrNull("bytes_per_second", minIngestBytes, maxIngestBytes, &next.BytesPerSecond)
	x.warnUnknown()
	if next == (config.IngestLimit{}) {
		o.fail(name, "must give events_per_second or bytes_per_second; null is no limit")
	}
	e.IngestLimit = &next
}
