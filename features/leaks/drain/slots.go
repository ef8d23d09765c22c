package drain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/web"
)

// Requests that are being read at the same time. Each holds about 280 KB.
const (
	maxRunning        = 256 // of this node
	maxRunningOfDrain = 32
)

// maxTurn is for how long a request decompresses, decodes and scans while others may wait.
const maxTurn = time.Millisecond

// slots bounds the requests that are being read, and how many of them use the CPU at the same time, to decompress,
// decode and scan: one of each drain, and as many of the node as it has cores for half of them. So no drain, and not
// all together, can take the node's CPU from events and deliveries. Requests wait in order; a drain has one in the
// node's line.
type slots struct {
	scans   chan struct{} // holds one element for each turn of this node
	running intake.Slots
}

func newSlots() *slots { return &slots{scans: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))} }

// slot is that of one request.
type slot struct {
	drain string
	leave func()
	scan  chan struct{} // holds one element while a request of the drain has the turn or waits for the node
	scans chan struct{} // of slots
}

var (
	errDrainFull = intake.RateLimited(time.Second,
		"the drain takes at most %d requests at the same time; send more lines in each", maxRunningOfDrain)
	errNodeFull = web.ServiceUnavailable(nil, "this node reads as many bodies as it can; send the lines again")
)

// enter takes a slot, or returns the 429 of the drain or the 503 of the node.
func (s *slots) enter(drain string) (*slot, error) {
	scan, leave, err := s.running.Enter(intake.Bound{Of: drain, Most: maxRunningOfDrain, Full: errDrainFull},
		intake.Bound{Of: "node", Most: maxRunning, Full: errNodeFull})
	return &slot{drain, leave, scan, s.scans}, err
}

// turn is a request's right to use the CPU. It is given back while the request waits for its client or for tokens.
type turn struct {
	in     *slot
	done   <-chan struct{}     // ends waiting
	waited func(time.Duration) // called with the time that take has waited
	held   bool
	since  time.Time
}

// take waits for the turn, or returns errBusy when the request is done.
func (t *turn) take() error {
	if t.held {
		return nil
	}
	asked := time.Now()
	select {
	case t.in.scan <- struct{}{}:
	case <-t.done:
		return errBusy
	}
	select {
	case t.in.scans <- struct{}{}:
	case <-t.done:
		<-t.in.scan
		return errBusy
	}
	t.held, t.since = true, time.Now()
	t.waited(t.since.Sub(asked))
	return nil
}

// give gives the turn back, if the request has it.
func (t *turn) give() {
	if t.held {
		t.held = false
		<-t.in.scans
		<-t.in.scan
	}
}

// share lets others have the turn after maxTurn.
func (t *turn) share() error {
	if !t.held || time.Since(t.since) < maxTurn {
		return nil
	}
	t.give()
	return t.take()
}

// newFindings bounds the new findings of a drain and UTC day. What is beyond a bound is counted in one finding of the
// drain, whose rule is flood.
var newFindings = intake.Limits{Severe: 750, Minor: 250, OfRule: 10}

// offsetOfFlood takes the place of the offset in the identity of a hit of the finding flood.
const offsetOfFlood = -1

// store produces the hits of a complete body, and returns when the log has acknowledged all of them.
func (d *Drain) store(ctx context.Context, h *hits, body [sha256.Size]byte) error {
	if h.matches == 0 {
		return nil
	}
	hash := hex.EncodeToString(body[:])
	if h.of.delivery != "" { // the platform sends it again under this id
		hash = h.of.platform + " " + h.of.delivery
	}
	all := make([]*finding.Hit, len(h.list))
	for i, x := range h.list {
		x.ID = finding.HitID(h.of.to.ID, hash, x.offset)
		all[i] = &x.Hit
	}
	records, beyond := d.stage.Admit(ctx, newFindings, all)
	if beyond += h.beyond; beyond > 0 {
		d.stage.Flooded.Add(float64(beyond))
		flood := h.flood(beyond)
		flood.ID = finding.HitID(h.of.to.ID, hash, offsetOfFlood)
		records = append(records, flood)
	}
	if err := d.stage.Store(ctx, records,
		"the log did not confirm the hits of these lines; send the lines again"); err != nil {
		return err
	}
	d.deps.Records.AddMany(ctx, h.of.to.ID, len(records))
	return nil
}

// flood returns the hit of secrets that are beyond the bounds.
func (h *hits) flood(n uint64) *finding.Hit {
	x := h.base()
	x.Location = h.location("")
	x.LocationHash = x.Location.Hash()
	x.Location.Label = h.clean(h.of.to.Name) // as in add
	intake.SetFlood(&x, n, h.keys)
	return &x
}
