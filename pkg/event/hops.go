package event

import (
	"slices"
	"strconv"
	"strings"
)

// HeaderHops is the request header that counts the deliveries of an event so far, the current one included. A receiver
// that forwards a delivery to the relay sends the header back, so the relay detects a loop. The header is not
// authenticated: a caller that forges it only prevents the delivery of its own event.
//
// It is read from the received header lines, which go with the event into retries, replays and the store.
const HeaderHops = "Relay-Hops"

// HeaderPath is the request header that lists the endpoints an event came through, the first one first and the
// delivery's own last. It is not authenticated either.
const HeaderPath = "Relay-Path"

// MaxHops is the number of earlier deliveries at which an event counts as part of a loop and is not delivered.
const MaxHops = 5

// maxReturns is how often an event may return to endpoints of its path, all of them together: once, for a receiver that
// enriches an event and sends it again. With MaxHops alone, an endpoint whose n destinations all lead back to it would
// turn one event into n⁵; with this limit it makes at most n².
const maxReturns = 1

// maxEndpointID bounds a name in HeaderPath, in bytes; longer ones are ignored.
const maxEndpointID = 64

// Hops returns the largest number in the lines of HeaderHops, at most MaxHops; 0 without a line or a number.
func Hops(lines []string) (hops int) {
	for _, line := range lines {
		for text := range strings.SplitSeq(line, ",") { // as proxies join lines
			n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
			if err == nil {
				hops = max(hops, int(min(n, MaxHops)))
			}
		}
	}
	return hops
}

// Path returns the last MaxHops endpoints that the lines of HeaderPath name.
func Path(lines []string) (path []string) {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name == "" || len(name) > maxEndpointID {
				continue
			}
			if len(path) == MaxHops {
				path = slices.Delete(path, 0, 1)
			}
			path = append(path, name)
		}
	}
	return path
}

// SkipIfLoop removes the destinations of an event that is in a loop by its header lines: after MaxHops deliveries, or
// after more than maxReturns returns to endpoints of its path. The event is still stored, with the reason DeliveryLoop.
func (e *Event) SkipIfLoop(endpoint string) {
	var hops, path []string
	for _, f := range e.Header {
		switch f.Name {
		case HeaderHops:
			hops = append(hops, f.Value)
		case HeaderPath:
			path = append(path, f.Value)
		}
	}
	if Hops(hops) >= MaxHops || path != nil && returns(append(Path(path), endpoint)) > maxReturns {
		e.Reason, e.Dests = DeliveryLoop, nil
	}
}

// returns counts the entries of a path that also occur earlier in it.
func returns(path []string) (n int) {
	for i, name := range path {
		if slices.Contains(path[:i], name) {
			n++
		}
	}
	return n
}
