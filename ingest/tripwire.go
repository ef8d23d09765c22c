package ingest

import (
	"net/http"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/stream"
)

// trip is a request at the URL of a tripwire.
type trip struct {
	tripwires Tripwires
	ep        *config.Endpoint // what Tripwires.Endpoint has returned
	request   *http.Request
	produced  bool // the hit was passed to the producer
}

// replace returns a function that produces the hit of the request in place of its event. Everything else is done as for
// an event, so that it takes as long and fails when an event would.
func (t *trip) replace(put produceFunc) produceFunc {
	return func(_ string, _ int32, _ *stream.Record, done func(*stream.Record, error)) {
		partition, record, err := t.tripwires.Hit(t.ep, t.request)
		if record == nil {
			done(nil, err)
			return
		}
		t.produced = true
		put(stream.Findings, partition, record, done)
	}
}
