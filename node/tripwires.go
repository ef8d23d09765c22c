package node

import (
	"github.com/eventrelay/relay/leaks/tripwire"
	"github.com/eventrelay/relay/pkg/secrets"
)

// newTripwires creates what recognises the tripwires that are used: the API, the agent server, ingest and the
// dispatcher ask it.
func newTripwires(n *Node) (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	n.tripwires = tripwire.New(tripwire.Deps{
		Log: n.log, Metrics: n.registry, Config: n.control, Producer: n.producer, Scanner: scanner,
		Partitions: n.partitions, Now: n.now,
	})
	return n.tripwires.Run, nil
}
