package api

import (
	"net/http"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// loopHeader reports whether a header says what deliveries an event has behind it. A receiver that sends the headers
// of a delivery along is recognised by them, as at an ingest URL.
func loopHeader(canonical string) bool {
	return canonical == event.HeaderHops || canonical == event.HeaderPath
}

// loopHeaders are those of a request, as lines of an event.
func loopHeaders(h http.Header) (fields []event.Field) {
	for _, name := range []string{event.HeaderHops, event.HeaderPath} {
		for _, v := range h[name] {
			fields = append(fields, event.Field{Name: name, Value: v})
		}
	}
	return fields
}

// refuseLoop refuses to deliver stored events again at the request of a delivery. Such an event keeps the header it
// came with, so that the count would be the same at each turn: the first one is refused.
func refuseLoop(r *http.Request) error {
	if event.Hops(r.Header[event.HeaderHops]) == 0 {
		return nil
	}
	return web.State(event.HeaderHops, "a delivery does not deliver events again; without this header, which only "+
		"deliveries carry, "+
		"the request is accepted")
}
