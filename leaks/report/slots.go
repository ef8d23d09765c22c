package report

import (
	"net/netip"
	"time"

	"github.com/eventrelay/relay/leaks/intake"
	"github.com/eventrelay/relay/pkg/web"
)

// Requests whose bodies are read at the same time, each of maxServerBody bytes, twice with gzip. Whoever sends slowly
// leaves room for other DSNs, and for other clients of the same DSN.
const (
	maxRunning         = 512 // of this node
	maxRunningOfDSN    = 128
	maxRunningOfClient = 64 // of one address, or /64 of IPv6
)

// slots bounds the requests whose bodies are being read.
type slots struct {
	intake.Slots
	most, ofDSN, ofClient int
}

var (
	errNodeFull = web.ServiceUnavailable(nil, "this node reads as many reports as it can; send the batch again")
	errFull     = intake.RateLimited(time.Second,
		"too many batches of this DSN or from this address are arriving; send the batch again")
)

// enter takes a slot, or returns the 429 of the DSN or the client, or the 503 of the node. client is invalid for a
// connection without addresses, which has no bound of its own.
func (s *slots) enter(dsn string, client netip.Addr) (turn chan struct{}, leave func(), err error) {
	bounds := []intake.Bound{{Of: "node", Most: s.most, Full: errNodeFull}, {Of: dsn, Most: s.ofDSN, Full: errFull}}
	if client = web.NetworkOf(client); client.IsValid() {
		bounds = append(bounds, intake.Bound{Of: client, Most: s.ofClient, Full: errFull})
	}
	return s.Enter(bounds...)
}
