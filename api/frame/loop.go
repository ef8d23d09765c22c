package frame

import (
	"net/http"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// LoopHeader reports whether a header carries the delivery history of an event. A receiver that forwards the headers
// of a delivery is recognised by it, as at an ingest URL.
func LoopHeader(canonical string) bool {
	return canonical == event.HeaderHops || canonical == event.HeaderPath
}

// LoopHeaders returns the loop headers of a request as header lines of an event.
func LoopHeaders(h http.Header) (fields []event.Field) {
	for _, name := range []string{event.HeaderHops, event.HeaderPath} {
		for _, v := range h[name] {
			fields = append(fields, event.Field{Name: name, Value: v})
		}
	}
	return fields
}

// RefuseLoop refuses a replay or recovery that was requested by a delivery. A replayed event keeps the headers it
// was received with, so its hop count would not grow and the loop would never end.
func RefuseLoop(r *http.Request) error {
	if event.Hops(r.Header[event.HeaderHops]) == 0 {
		return nil
	}
	return web.WrongState(event.HeaderHops,
		"marks a request that a delivery caused, and a delivery may not replay events; send the request without "+
			"this header")
}
