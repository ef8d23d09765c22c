package api

import "github.com/eventrelay/relay/pkg/config"

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
	x.decode(&next)
	x.warnUnknown()
	if next == (config.IngestLimit{}) {
		o.fail(name, "must give events_per_second or bytes_per_second; null is no limit")
	}
	e.IngestLimit = &next
}
