package event

import (
	"strconv"
	"strings"
)

// HeaderHops is the header by which a delivery says how many deliveries its event has behind it, this one included.
// Whoever forwards a delivery to an ingest URL sends it along, knowingly or not, and so a loop is recognised. It is a
// hint: anybody can send it, and who does only keeps the event of that request from being delivered.
//
// It is read from the received header lines, which go with the event into retries, replays and the store.
const HeaderHops = "Relay-Hops"

// MaxHops is the number of deliveries from which on an event counts as one of a loop, and is not delivered.
const MaxHops = 5

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

// EndLoop makes an event with so many hops behind it one that is delivered nowhere if that is a loop. It is stored, so
// that somebody sees it.
func (e *Event) EndLoop(hops int) {
	if hops >= MaxHops {
		e.Reason, e.Dests = DeliveryLoop, nil
	}
}
