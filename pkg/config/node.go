package config

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
	Node    string    `json:"node"`
	Boot    string    `json:"boot"`     // of the process
	Next    int64     `json:"position"` // offset in control of the first record that is not applied
	Leaving bool      `json:"leaving,omitempty"`
	At      time.Time `json:"at"`      // by the node's clock
	Version string    `json:"version"` // of the program
	Keys    []string  `json:"keys"`    // see Keyring.IDs
	SkewMS  int64     `json:"skew_ms"` // see Control.ClockSkew
	Level   int       `json:"level"`   // the newest that the program knows
}

// lease says until when this node may take API keys.
//
// A cycle that began at t, in which first a heartbeat was acknowledged and then the end of the log was
// asked for, is confirmed when everything before that end is applied; the lease then runs from t. So at
// any moment of a lease this node was heard of within the last 5 s, and it applied whatever was
// acknowledged before t: a writer that waits for the nodes it hears of, or for 5.5 s, knows that no node
// takes a key any more that it has just revoked.
type lease struct {
	from atomic.Pointer[time.Time] // beginning of the newest confirmed cycle; every authentication reads it

	mu      sync.Mutex // guards what follows
	pending time.Time  // beginning of the cycle that waits for its end; zero = none
	end     int64
	next    int64 // offset after the last applied record
	closed  bool  // nothing is confirmed any more
}

func (l *lease) confirm(next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = next
	l.settleLocked()
}

// ask begins to wait for a cycle's end. While one waits, a later one does not replace it: a tail that is
// always a little late would never confirm any.
func (l *lease) ask(began time.Time, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending.IsZero() {
		l.pending, l.end = began, end
	}
	l.settleLocked()
}

func (l *lease) settleLocked() {
	if !l.closed && !l.pending.IsZero() && l.next >= l.end {
		from := l.pending
		l.from.Store(&from)
		l.pending = time.Time{}
	}
}

// drop ends the lease for good.
func (l *lease) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.from.Store(nil)
}

// Lease returns how long ago this node was last sure to know the whole log, and whether that is recent
// enough to take API keys.
func (c *Control) Lease() (age time.Duration, ok bool) {
	from := c.lease.from.Load()
	if from == nil {
		return 0, false
	}
	// Whichever clock says more: the monotonic one stands still while the machine sleeps, the other can be set back.
	age = max(c.now().Sub(*from), c.wall().Sub(from.Round(0)))
	return age, age < c.timing.lease
}

// beats sends heartbeats and asks for the lease until ctx ends; then it tells the others not to wait.
func (c *Control) beats(ctx context.Context) error {
	tick := time.NewTicker(c.timing.beat)
	defer tick.Stop()
	healthy := true
	for ctx.Err() == nil {
		began := time.Now()
		err := c.beat(ctx)
		if ctx.Err() == nil && (err == nil) != healthy {
			healthy = !healthy
			c.log.LogAttrs(ctx, slog.LevelWarn, "heartbeat", slog.Bool("healthy", healthy), slog.Any("error", err))
		}
		select {
		case <-tick.C:
		case <-c.kick:
			// Announce a lone record at once, of a burst not every one.
			_ = wait.For(ctx, c.timing.beatGap-time.Since(began)) // the loop looks at ctx
		case <-ctx.Done():
		}
	}
	c.lease.drop() // before the goodbye: a node that nobody waits for takes no key
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timing.beat)
	defer cancel()
	if err := c.announce(last, heartbeat{Leaving: true}); err != nil {
		c.log.LogAttrs(last, slog.LevelDebug, "say goodbye to the other nodes", slog.Any("error", err))
	}
	return nil
}

// beat is one cycle; see lease.
func (c *Control) beat(ctx context.Context) error {
	if c.auth.Load() == nil { // nobody could tell its heartbeat from a forged one: it takes no key yet
		return nil
	}
	began := c.now()
	ctx, cancel := context.WithTimeout(ctx, c.timing.request)
	defer cancel()
	if err := c.announce(ctx, heartbeat{}); err != nil {
		return err
	}
	ends, err := c.reader.Ends(ctx, stream.Control)
	if err != nil {
		return err
	}
	c.lease.ask(began, ends[controlLog])
	c.changed.fire()
	return nil
}

func (c *Control) announce(ctx context.Context, h heartbeat) error {
	h.Node, h.Boot, h.Next, h.At = c.cfg.Node, c.boot, c.view.Load().next, c.now().UTC()
	h.Version, h.Keys, h.SkewMS = c.cfg.Version, c.keyring.IDs(), c.ClockSkew().Milliseconds()
	h.Level = newestLevel
	value, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	own := c.auth.Load()
	if own == nil {
		return nil
	}
	return c.producer.ProduceSync(ctx, stream.Nodes, 0, own.sign(macHeartbeat, &stream.Record{Key: []byte(h.Node), Value: value}))
}

// peers is what is known of all nodes, this one included.
type peers struct {
	mu    sync.Mutex      // guards nodes
	nodes map[string]peer // by the boot of the process
	heard signal          // fired after each heartbeat
}

type peer struct {
	next  int64
	heard time.Time // when it was read here: late at worst, which makes a writer wait, never hurry
	told  heartbeat // the newest, for people
}

// heardAtStart is how many heartbeats are read again at a start, or more if they are of the last 10 s:
// those of the last 5 s are needed, and this node's clock may be wrong.
const heardAtStart = 2000

// hear follows the topic nodes, from a little before now.
func (c *Control) hear(ctx context.Context) error {
	nodes := stream.Partition{Topic: stream.Nodes}
	var from int64
	if err := c.changed.await(ctx, func() bool { return c.auth.Load() != nil }); err != nil {
		return nil // ctx ended
	}
	err := c.retry(ctx, "find the heartbeats of the other nodes", func(ctx context.Context) error {
		at, err := c.reader.At(ctx, stream.Nodes, c.now().Add(-2*c.timing.lease))
		if err != nil {
			return err
		}
		ends, err := c.reader.Ends(ctx, stream.Nodes)
		from = max(0, min(at[nodes], ends[nodes]-heardAtStart))
		return err
	})
	if err != nil {
		return nil // ctx ended
	}
	return c.follow(ctx, nodes, func() int64 { return from }, func(r *stream.Record) error {
		from = r.Offset + 1
		h, ok := c.heartbeatOf(r)
		if !ok {
			return nil
		}
		now := c.now()
		if h.Boot == c.boot {
			c.heardTime(r, h.At, now)
		}
		c.peers.note(h, now, c.timing.lease)
		return nil
	})
}

// heartbeatOf reads a heartbeat, if it is one of a node of this log.
func (c *Control) heartbeatOf(r *stream.Record) (h heartbeat, ok bool) {
	own := c.auth.Load()
	switch {
	case c.cfg.Unverified:
	case own == nil:
		return h, false
	case !own.verify(macHeartbeat, r):
		c.unauthentic(stream.Nodes, r.Offset)
		return h, false
	}
	return h, json.Unmarshal(r.Value, &h) == nil && h.Node != ""
}

// logAppendTime marks a record whose timestamp the broker set. The embedded engine never does; it has
// this machine's clock.
const logAppendTime = 1

// ClockSkew is how far the broker's clock is ahead of this node's, as far as the way of a heartbeat
// there and back proves it.
func (c *Control) ClockSkew() time.Duration { return time.Duration(c.skew.Load()) }

func clockSkew(sent, appended, heard time.Time) time.Duration {
	switch {
	case appended.Before(sent):
		return appended.Sub(sent)
	case appended.After(heard):
		return appended.Sub(heard)
	default:
		return 0
	}
}

// note takes a heartbeat. Somebody may append an old one once more: of a process that has ended it says nothing about the
// one that runs under the node's name now, and of a position only the highest counts.
func (p *peers) note(h heartbeat, now time.Time, life time.Duration) {
	p.mu.Lock()
	if p.nodes == nil {
		p.nodes = make(map[string]peer)
	}
	for boot, other := range p.nodes {
		restarted := other.told.Node == h.Node && boot != h.Boot && h.At.After(other.told.At)
		if now.Sub(other.heard) >= life || restarted {
			delete(p.nodes, boot)
		}
	}
	if known, ok := p.nodes[h.Boot]; h.Leaving {
		delete(p.nodes, h.Boot)
	} else if !ok || h.Next >= known.next {
		p.nodes[h.Boot] = peer{next: h.Next, heard: now, told: h}
	}
	p.mu.Unlock()
	p.heard.fire()
}

// reached reports whether every living node except the process skip announced the position.
func (p *peers) reached(next int64, now time.Time, life time.Duration, skip string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for boot, other := range p.nodes {
		if boot != skip && now.Sub(other.heard) < life && other.next < next {
			return false
		}
	}
	return true
}

// has reports whether that process itself announced the position.
func (p *peers) has(boot string, next int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	other, ok := p.nodes[boot]
	return ok && other.next >= next
}

// living is how many nodes are heard of.
func (p *peers) living(now time.Time, life time.Duration) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.nodes {
		if now.Sub(other.heard) < life {
			n++
		}
	}
	return n
}
