package event

import (
	"slices"
	"strconv"
	"strings"
)

// HeaderHops is the header by which a delivery says how many deliveries its event has behind it, this one included.
// Whoever forwards a delivery to the relay sends it along, knowingly or not, and so a loop is recognised. It is a
// hint: anybody can send it, and who does only keeps the event of that request from being delivered.
//
// It is read from the received header lines, which go with the event into retries, replays and the store.
const HeaderHops = "Relay-Hops"

// HeaderPath is the header by which a delivery names the endpoints that its event came through, the first one first
// and its own last. It is a hint as HeaderHops is.
const HeaderPath = "Relay-Path"

// MaxHops is the number of deliveries from which on an event counts as one of a loop, and is not delivered.
const MaxHops = 5

// maxReturns is how often an event may come back to an endpoint that it came through before: once, as from a
// receiver that adds something to an event and sends it again. The hops alone would let an endpoint whose n
// destinations all lead back to it make n⁵ events of one; so it makes n².
const maxReturns = 1

// maxEndpointID bounds the names in HeaderPath that are passed on.
const maxEndpointID = 64

// Hops is what the lines of HeaderHops say, at most MaxHops; 0 without one and for anything that is no number.
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

// Path is the endpoints that the lines of HeaderPath name, the last MaxHops of them.
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

// SkipIfLoop makes an event of an endpoint one that is delivered nowhere if its header lines say that it is in a loop:
// it has MaxHops deliveries behind it, or came back too often. It is stored, so that somebody sees it.
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

// returns counts the steps of a path to an endpoint that stands before in it.
func returns(path []string) (n int) {
	for i, name := range path {
		if slices.Contains(path[:i], name) {
			n++
		}
	}
	return n
}
