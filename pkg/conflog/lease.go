package conflog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// heartbeat is the value of a record in the topic nodes.
type heartbeat struct {
	Node       string    `json:"node"`
	Boot       string    `json:"boot"`     // identifies the process
	NextOffset int64     `json:"position"` // offset in control of the first record that the node has not applied
	Leaving    bool      `json:"leaving,omitempty"`
	At         time.Time `json:"at"`      // by the node's clock
	Version    string    `json:"version"` // version of the program
	Keys       []string  `json:"keys"`    // ids of the master keys; see Sealer
	SkewMS     int64     `json:"skew_ms"` // see ClockSkew
	Level      int       `json:"level"`   // the newest level that the program supports
}

// lease decides until when this node may accept API keys and deliver.
//
// A cycle starts at time t. First a heartbeat is acknowledged, then the end of the log is requested. When this node has
// applied everything before that end, the cycle is confirmed and the lease runs for 5 s from t. So while a node holds a
// lease, the others received a heartbeat from it within the last 5 s, and it has applied everything that was
// acknowledged before t. A writer that waits for all nodes with recent heartbeats, or for 5.5 s, therefore knows that
// no node accepts a key that it has revoked, or delivers to a destination that it has paused.
type lease struct {
	confirmedFrom atomic.Pointer[time.Time] // start of the newest confirmed cycle; every authentication reads it

	mu          sync.Mutex // guards what follows
	cycleStart  time.Time  // start of the cycle that waits for its end; zero = none
	cycleEnd    int64
	appliedNext int64 // offset after the last applied record
	closed      bool  // the lease has been released for good
}

// advance sets the offset after the last applied record, and confirms the waiting cycle if its end is reached.
func (l *lease) advance(next int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appliedNext = next
	l.confirmLocked()
}

// startCycle starts to wait until everything before end is applied. It does not replace a cycle that is waiting:
// otherwise a node that is always slightly behind would never confirm one.
func (l *lease) startCycle(began time.Time, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cycleStart.IsZero() {
		l.cycleStart, l.cycleEnd = began, end
	}
	l.confirmLocked()
}

// confirmLocked confirms the waiting cycle if its end is reached. The caller holds mu.
func (l *lease) confirmLocked() {
	if !l.closed && !l.cycleStart.IsZero() && l.appliedNext >= l.cycleEnd {
		from := l.cycleStart
		l.confirmedFrom.Store(&from)
		l.cycleStart = time.Time{}
	}
}

// release ends the lease for good.
func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.confirmedFrom.Store(nil)
}

// Lease returns the age of the lease, that is, how long ago this node last confirmed that it knew the whole log, and
// whether it is young enough (under 5 s) to accept API keys.
func (l *Log) Lease() (age time.Duration, ok bool) {
	from := l.lease.confirmedFrom.Load()
	if from == nil {
		return 0, false
	}
	// Use the clock that shows the greater age: the monotonic clock stops while the machine sleeps, the wall clock can
	// be set back.
	age = max(l.now().Sub(*from), l.wall().Sub(from.Round(0)))
	return age, age < l.timing.Lease
}

// AwaitLease waits until this node holds the lease: then it knows all changes that were answered before the call. It
// fails when Run has ended.
func (l *Log) AwaitLease(ctx context.Context) error {
	held := func() bool { _, ok := l.Lease(); return ok }
	if held() {
		return nil
	}
	ended := false
	err := l.changed.await(ctx, func() bool {
		select {
		case <-l.stopped:
			ended = true
		default:
		}
		return ended || held()
	})
	if err == nil && ended {
		err = fmt.Errorf("%w: this node is stopping", ErrUnavailable)
	}
	return err
}

// membership sends and reads heartbeats.
type membership struct{ *Log }

// sendHeartbeats runs lease cycles until ctx ends: every 500 ms, and soon after each applied record. Then it announces
// that this node leaves, so that no writer waits for it.
func (l membership) sendHeartbeats(ctx context.Context) error {
	select { // the answer to the first heartbeat names all nodes
	case <-l.followsNodes:
	case <-ctx.Done():
	}
	tick := time.NewTicker(l.timing.HeartbeatInterval)
	defer tick.Stop()
	healthy := true
	for ctx.Err() == nil {
		began := time.Now()
		err := l.runCycle(ctx)
		if ctx.Err() == nil && (err == nil) != healthy {
			healthy = !healthy
			if healthy {
				l.log.LogAttrs(ctx, slog.LevelWarn, "heartbeats are sent again")
			} else {
				l.log.LogAttrs(ctx, slog.LevelWarn, "cannot send heartbeats", slog.Any("error", err))
			}
		}
		select {
		case <-tick.C:
		case <-l.heartbeatNow:
			// Announce a single record at once, a burst at most every 20 ms.
			_ = wait.For(ctx, l.timing.HeartbeatMinGap-time.Since(began)) // the loop checks ctx
		case <-ctx.Done():
		}
	}
	l.lease.release() // before the last heartbeat: writers do not wait for this node afterwards
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timing.HeartbeatInterval)
	defer cancel()
	if err := l.sendHeartbeat(last, heartbeat{Leaving: true}); err != nil {
		l.log.LogAttrs(last, slog.LevelDebug, "cannot announce that this node leaves", slog.Any("error", err))
	}
	return nil
}

// runCycle runs one cycle; see lease.
func (l membership) runCycle(ctx context.Context) error {
	if l.macKeys.Load() == nil { // without the secret of the log no heartbeat can be signed: no lease yet
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

// sendHeartbeat completes a heartbeat with this node's position, signs it, and waits for the acknowledgement.
func (l membership) sendHeartbeat(ctx context.Context, h heartbeat) error {
	h.Node, h.Boot, h.NextOffset, h.At = l.cfg.Node, l.bootID, l.view.Load().nextOffset, l.now().UTC()
	h.Version, h.Keys, h.SkewMS = l.cfg.Version, l.keys.IDs(), l.ClockSkew().Milliseconds()
	h.Level = l.kinds.newestLevel
	value, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	keys := l.macKeys.Load()
	if keys == nil {
		return nil
	}
	send := func(topic string) (*stream.Record, error) {
		r := keys.sign(macHeartbeat, &stream.Record{Key: []byte(h.Node), Value: value})
		return r, l.producer.ProduceSync(ctx, topic, 0, r)
	}
	if !l.usesDigests() {
		if _, err := send(stream.Nodes); err != nil || l.cfg.SingleNode {
			return err
		}
	}
	r, err := send(stream.Heartbeats)
	if err == nil {
		l.announced.add(h.NextOffset, r.Offset, h.At)
	}
	return err
}

// peers holds the last heartbeats of all nodes, this one included.
type peers struct {
	mu    sync.Mutex      // guards nodes
	nodes map[string]peer // by heartbeat.Boot
	// replaced has the heartbeat of the process that took over the name of another one, by the other's heartbeat.Boot.
	replaced map[string]heartbeat
	// shared has when two processes were last seen to run under one name at the same time, by the name.
	shared       map[string]time.Time
	digest       digest    // the newest one, and when it was read; see Log.usesDigests
	digestAt     time.Time // zero: none was
	aggregator   string    // the lowest id of those that wrote digests within a lease, and when that was last read
	aggregatorAt time.Time
	updated      signal // fired after each heartbeat and digest
}

// peer is the last heartbeat of a process.
type peer struct {
	nextOffset int64
	lastSeen   time.Time // when this node read it: if that was late, a writer waits longer, never shorter
	last       heartbeat // the newest heartbeat
}

// heartbeatsAtStart is how many of the last heartbeats are read at the start, more if there are more of the last 10 s.
// Those of the last 5 s are needed. The count makes up for a clock of this node that is ahead.
const heartbeatsAtStart = 2000

// followHeartbeats reads the topic nodes: heartbeats from shortly before the start on, digests from the start on. When
// the aggregator reads of a new node, it tells of all nodes.
func (l membership) followHeartbeats(ctx context.Context) error {
	nodes := stream.Partition{Topic: stream.Nodes}
	var from int64
	known := func() bool { return l.macKeys.Load() != nil && l.view.Load().level > 0 }
	if err := l.changed.await(ctx, known); err != nil {
		return nil // ctx ended
	}
	err := l.retry(ctx, "find the heartbeats of the other nodes", func(ctx context.Context) error {
		recent, end, err := l.recentHeartbeats(ctx, stream.Nodes)
		if from = recent; l.usesDigests() {
			from = end
		}
		return err
	})
	if err != nil {
		return nil // ctx ended
	}
	close(l.followsNodes)
	return l.follow(ctx, nodes, func() int64 { return from }, func(r *stream.Record) error {
		from = r.Offset + 1
		h, other, ok := l.decodeHeartbeat(stream.Nodes, r)
		switch {
		case !ok:
			return nil
		case other.Aggregator != "":
			l.receive(r, other.digest)
			return nil
		case h.Node == "":
			l.Messages.receive(other.message)
			return nil
		case l.usesDigests():
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

// recentHeartbeats returns from where on to read a topic of heartbeats, and its end.
func (l membership) recentHeartbeats(ctx context.Context, topic string) (from, end int64, err error) {
	p := stream.Partition{Topic: topic}
	at, err := l.reader.OffsetsForTime(ctx, topic, l.now().Add(-2*l.timing.Lease))
	if err != nil {
		return 0, 0, err
	}
	ends, err := l.reader.Ends(ctx, topic)
	return max(0, min(at[p], ends[p]-heartbeatsAtStart)), ends[p], err
}

// noHeartbeat is the value of a record that names no node: a message or a digest.
type noHeartbeat struct {
	digest
	message
}

// decodeHeartbeat decodes a heartbeat, or what else has its MAC; ok is false unless a node of this log sent it.
func (l membership) decodeHeartbeat(topic string, r *stream.Record) (h heartbeat, other noHeartbeat, ok bool) {
	keys := l.macKeys.Load()
	switch {
	case l.cfg.Unverified:
	case keys == nil:
		return h, other, false
	case !keys.verify(macHeartbeat, r):
		authenticator(l).reportUnauthentic(topic, r.Offset)
		return h, other, false
	}
	// A digest has a list of heartbeats under the name nodes, and no node.
	if err := json.Unmarshal(r.Value, &h); err != nil || h.Node != "" {
		return h, other, err == nil
	}
	return h, other, json.Unmarshal(r.Value, &other) == nil
}

// record stores a heartbeat. It may be an old one that was appended again: so a heartbeat of an ended process does not
// replace that of the process now running under the node's name, and a lower position does not replace a higher one.
func (p *peers) record(h heartbeat, now time.Time, life time.Duration) {
	p.mu.Lock()
	if p.nodes == nil {
		p.nodes, p.replaced, p.shared = make(map[string]peer), make(map[string]heartbeat), make(map[string]time.Time)
	}
	if by, ok := p.replaced[h.Boot]; ok && !h.Leaving && h.At.After(by.At) {
		p.shared[h.Node] = now // it was replaced, and it still runs
	}
	for boot, by := range p.replaced {
		if h.At.Sub(by.At) >= life {
			delete(p.replaced, boot)
		}
	}
	for boot, other := range p.nodes {
		restarted := other.last.Node == h.Node && boot != h.Boot && h.At.After(other.last.At)
		if restarted {
			p.replaced[boot] = h
		}
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

// isShared reports whether two processes run under this name.
func (p *peers) isShared(node string, now time.Time, life time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.shared[node]
	return ok && now.Sub(at) < life
}

// allReached reports whether every living node except the process skip has announced the position.
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

// hasReached reports whether that process itself has announced the position.
func (p *peers) hasReached(boot string, next int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	other, ok := p.nodes[boot]
	return ok && other.nextOffset >= next
}

// living returns the nodes whose last heartbeat is younger than life.
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

// maxTrustedSkew is how far this node's clock may differ from the broker's before Now corrects it.
const maxTrustedSkew = 2 * time.Second

// clockSamples is how many heartbeats the correction is computed from: those of the last ten seconds.
const clockSamples = 20

// clock is this node's clock, corrected by the broker's timestamps of this node's own heartbeats.
type clock struct {
	now  func() time.Time
	wall func() time.Time // now without the monotonic clock, which stops while a machine sleeps
	skew atomic.Int64     // see ClockSkew, in nanoseconds
	// correction is added to this node's time, in nanoseconds; see Now.
	correction atomic.Int64
	known      chan struct{} // closed when this node has read its own first heartbeat
	once       sync.Once
	offsets    []time.Duration // correction according to each of the last heartbeats; used by one goroutine only
}

func newClock(now func() time.Time) *clock {
	c := &clock{now: now, known: make(chan struct{})}
	c.wall = func() time.Time { return c.now().Round(0) }
	return c
}

// Now returns this node's time, corrected when it differs from the broker's by more than 2 s: deliveries move between
// nodes, and a time that one node wrote must mean the same to the next. A corrected time is never ahead of the
// broker's; it is behind by the latency of the fastest of the last heartbeats. When the broker does not set timestamps
// (CreateTime), Now returns this node's time.
func (c *clock) Now() time.Time { return c.now().Add(time.Duration(c.correction.Load())) }

// ClockKnown returns a channel that is closed when this node has read its own first heartbeat. From then on Now is
// corrected.
func (c *clock) ClockKnown() <-chan struct{} { return c.known }

// ClockSkew returns how far the broker's clock is ahead of this node's. It is a lower bound, which the send and receive
// times of a heartbeat prove.
func (c *clock) ClockSkew() time.Duration { return time.Duration(c.skew.Load()) }

// observe evaluates one of this node's own heartbeats. sent and at are the times at which it was sent and received, by
// this node's clock.
func (c *clock) observe(r *stream.Record, sent, at time.Time) {
	if r.Attrs.TimestampType() == logAppendTime {
		skew := clockSkew(sent, r.Timestamp, at)
		c.skew.Store(int64(skew))
		c.correction.Store(int64(c.nextCorrection(skew, r.Timestamp, at)))
	}
	c.once.Do(func() { close(c.known) })
}

// logAppendTime is the timestamp type of records whose timestamp the broker set (Kafka: message.timestamp.type). The
// embedded engine never sets one; it runs on this machine's clock.
const logAppendTime = 1

// clockSkew returns by how much the append time of the broker lies outside the interval from sent to received.
func clockSkew(sent, appended, received time.Time) time.Duration {
	switch {
	case appended.Before(sent):
		return appended.Sub(sent)
	case appended.After(received):
		return appended.Sub(received)
	default:
		return 0
	}
}

// nextCorrection returns what to add to this node's time after a heartbeat with that skew. Each heartbeat
// underestimates the offset by the latency of its own delivery, so the largest estimate is the best.
func (c *clock) nextCorrection(skew time.Duration, appended, received time.Time) time.Duration {
	if skew.Abs() <= maxTrustedSkew {
		c.offsets = nil
		return 0
	}
	offset := appended.Sub(received)
	if len(c.offsets) > 0 && (offset-slices.Max(c.offsets)).Abs() > maxTrustedSkew {
		c.offsets = nil // one of the clocks was set
	}
	c.offsets = append(c.offsets, offset)
	c.offsets = c.offsets[max(0, len(c.offsets)-clockSamples):]
	return slices.Max(c.offsets)
}
