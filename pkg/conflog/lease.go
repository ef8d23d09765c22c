package conflog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// heartbeat is a record of the topic nodes.
type heartbeat struct {
	Node       string    `json:"node"`
	Boot       string    `json:"boot"`     // of the process
	NextOffset int64     `json:"position"` // offset in control of the first record that is not applied
	Leaving    bool      `json:"leaving,omitempty"`
	At         time.Time `json:"at"`      // by the node's clock
	Version    string    `json:"version"` // of the program
	Keys       []string  `json:"keys"`    // see Sealer
	SkewMS     int64     `json:"skew_ms"` // see ClockSkew
	Level      int       `json:"level"`   // the newest that the program knows
}

// lease says until when this node may take API keys.
//
// A cycle that began at t, in which first a heartbeat was acknowledged and then the end of the log was
// asked for, is confirmed when everything before that end is applied; the lease then runs from t. So at
// any moment of a lease this node was heard of within the last 5 s, and it applied whatever was
// acknowledged before t: a writer that waits for the nodes it hears of, or for 5.5 s, knows that no node
// takes a key any more that it has just revoked.
type lease struct {
	confirmedFrom atomic.Pointer[time.Time] // beginning of the newest confirmed cycle; every authentication reads it

	mu          sync.Mutex // guards what follows
	cycleStart  time.Time  // beginning of the cycle that waits for its end; zero = none
	cycleEnd    int64
	appliedNext int64 // offset after the last applied record
	closed      bool  // nothing is confirmed any more
}

func (l *lease) advance(next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appliedNext = next
	l.confirmLocked()
}

// ask begins to wait for a cycle's end. While one waits, a later one does not replace it: a tail that is
// always a little late would never confirm any.
func (l *lease) startCycle(began time.Time, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cycleStart.IsZero() {
		l.cycleStart, l.cycleEnd = began, end
	}
	l.confirmLocked()
}

func (l *lease) confirmLocked() {
	if !l.closed && !l.cycleStart.IsZero() && l.appliedNext >= l.cycleEnd {
		from := l.cycleStart
		l.confirmedFrom.Store(&from)
		l.cycleStart = time.Time{}
	}
}

// drop ends the lease for good.
func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.confirmedFrom.Store(nil)
}

// Lease returns how long ago this node was last sure to know the whole log, and whether that is recent
// enough to take API keys.
func (l *Log) Lease() (age time.Duration, ok bool) {
	from := l.lease.confirmedFrom.Load()
	if from == nil {
		return 0, false
	}
	// Whichever clock says more: the monotonic one stands still while the machine sleeps, the other can be set back.
	age = max(l.now().Sub(*from), l.wall().Sub(from.Round(0)))
	return age, age < l.timing.Lease
}

// membership sends and hears heartbeats.
type membership struct{ *Log }

// beats sends heartbeats and asks for the lease until ctx ends; then it tells the others not to wait.
func (l membership) sendHeartbeats(ctx context.Context) error {
	tick := time.NewTicker(l.timing.HeartbeatInterval)
	defer tick.Stop()
	healthy := true
	for ctx.Err() == nil {
		began := time.Now()
		err := l.runCycle(ctx)
		if ctx.Err() == nil && (err == nil) != healthy {
			healthy = !healthy
			l.log.LogAttrs(ctx, slog.LevelWarn, "heartbeat", slog.Bool("healthy", healthy), slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-l.heartbeatNow:
			// Announce a lone record at once, of a burst not every one.
			_ = wait.For(ctx, l.timing.HeartbeatMinGap-time.Since(began)) // the loop looks at ctx
		case <-ctx.Done():
		}
	}
	l.lease.release() // before the goodbye: a node that nobody waits for takes no key
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timing.HeartbeatInterval)
	defer cancel()
	if err := l.sendHeartbeat(last, heartbeat{Leaving: true}); err != nil {
		l.log.LogAttrs(last, slog.LevelDebug, "say goodbye to the other nodes", slog.Any("error", err))
	}
	return nil
}

// beat is one cycle; see lease.
func (l membership) runCycle(ctx context.Context) error {
	if l.auth.Load() == nil { // nobody could tell its heartbeat from a forged one: it takes no key yet
		return nil
	}
	began := l.now()
	ctx, cancel := context.WithTimeout(ctx, l.timing.RequestTimeout)
	defer cancel()
	if err := l.sendHeartbeat(ctx, heartbeat{}); err != nil {
		return err
	}
	ends, err := l.reader.Ends(ctx, stream.Control)
	if err != nil {
		return err
	}
	l.lease.startCycle(began, ends[recordLog])
	l.changed.fire()
	return nil
}

func (l membership) sendHeartbeat(ctx context.Context, h heartbeat) error {
	h.Node, h.Boot, h.NextOffset, h.At = l.cfg.Node, l.bootID, l.view.Load().nextOffset, l.now().UTC()
	h.Version, h.Keys, h.SkewMS = l.cfg.Version, l.keys.IDs(), l.ClockSkew().Milliseconds()
	h.Level = l.kinds.newestLevel
	value, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	own := l.auth.Load()
	if own == nil {
		return nil
	}
	return l.producer.ProduceSync(
		ctx, stream.Nodes, 0, own.sign(macHeartbeat, &stream.Record{Key: []byte(h.Node), Value: value}))
}

// peers is what is known of all nodes, this one included.
type peers struct {
	mu      sync.Mutex      // guards nodes
	nodes   map[string]peer // by the boot of the process
	updated signal          // fired after each heartbeat
}

type peer struct {
	nextOffset int64
	lastSeen   time.Time // when it was read here: late at worst, which makes a writer wait, never hurry
	last       heartbeat // the newest, for people
}

// heartbeatsAtStart is how many heartbeats are read again at a start, or more if they are of the last 10 s:
// those of the last 5 s are needed, and this node's clock may be wrong.
const heartbeatsAtStart = 2000

// hear follows the topic nodes, from a little before now.
func (l membership) followHeartbeats(ctx context.Context) error {
	nodes := stream.Partition{Topic: stream.Nodes}
	var from int64
	if err := l.changed.await(ctx, func() bool { return l.auth.Load() != nil }); err != nil {
		return nil // ctx ended
	}
	err := l.retry(ctx, "find the heartbeats of the other nodes", func(ctx context.Context) error {
		at, err := l.reader.OffsetsForTime(ctx, stream.Nodes, l.now().Add(-2*l.timing.Lease))
		if err != nil {
			return err
		}
		ends, err := l.reader.Ends(ctx, stream.Nodes)
		from = max(0, min(at[nodes], ends[nodes]-heartbeatsAtStart))
		return err
	})
	if err != nil {
		return nil // ctx ended
	}
	return l.follow(ctx, nodes, func() int64 { return from }, func(r *stream.Record) error {
		from = r.Offset + 1
		h, ok := l.decodeHeartbeat(r)
		if !ok {
			return nil
		}
		now := l.now()
		if h.Boot == l.bootID {
			l.observe(r, h.At, now)
		}
		l.peers.record(h, now, l.timing.Lease)
		return nil
	})
}

// decodeHeartbeat reads a heartbeat, if it is one of a node of this log.
func (l membership) decodeHeartbeat(r *stream.Record) (h heartbeat, ok bool) {
	own := l.auth.Load()
	switch {
	case l.cfg.Unverified:
	case own == nil:
		return h, false
	case !own.verify(macHeartbeat, r):
		authenticator(l).reportUnauthentic(stream.Nodes, r.Offset)
		return h, false
	}
	return h, json.Unmarshal(r.Value, &h) == nil && h.Node != ""
}

// note takes a heartbeat. Somebody may append an old one once more: of a process that has ended it says nothing about
// the one that runs under the node's name now, and of a position only the highest counts.
func (p *peers) record(h heartbeat, now time.Time, life time.Duration) {
	p.mu.Lock()
	if p.nodes == nil {
		p.nodes = make(map[string]peer)
	}
	for boot, other := range p.nodes {
		restarted := other.last.Node == h.Node && boot != h.Boot && h.At.After(other.last.At)
		if now.Sub(other.lastSeen) >= life || restarted {
			delete(p.nodes, boot)
		}
	}
	if known, ok := p.nodes[h.Boot]; h.Leaving {
		delete(p.nodes, h.Boot)
	} else if !ok || h.NextOffset >= known.nextOffset {
		p.nodes[h.Boot] = peer{nextOffset: h.NextOffset, lastSeen: now, last: h}
	}
	p.mu.Unlock()
	p.updated.fire()
}

// reached reports whether every living node except the process skip announced the position.
func (p *peers) allReached(next int64, now time.Time, life time.Duration, skip string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for boot, other := range p.nodes {
		if boot != skip && now.Sub(other.lastSeen) < life && other.nextOffset < next {
			return false
		}
	}
	return true
}

// has reports whether that process itself announced the position.
func (p *peers) hasReached(boot string, next int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	other, ok := p.nodes[boot]
	return ok && other.nextOffset >= next
}

// alive are the nodes that are heard of.
func (p *peers) living(now time.Time, life time.Duration) (all []peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.nodes {
		if now.Sub(other.lastSeen) < life {
			all = append(all, other)
		}
	}
	return all
}
