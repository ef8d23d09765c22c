package conflog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// If every node read the heartbeats of all others, N nodes would read 2N² records a second, and N² after each change.
// So nodes send heartbeats and messages to a topic that one node reads, the aggregator. It tells all nodes what it has
// read by digests in the topic nodes: one every half second, and soon after news. A digest has the same size for any
// number of nodes, unless one of them came, left or changed.
//
// Any node may be the aggregator: a digest is correct, whichever node wrote it. Nodes that see no digest for a second
// become aggregators; of several the one with the lowest id goes on.
//
// Before digestLevel nodes of the previous version may run, which read and write heartbeats in the topic nodes. Until
// then heartbeats go to both topics and digests are not used. Whoever uses digests has applied the record that raised
// the level, so a barrier of a node that does not use them yet need not wait for it.

// digestLevel is the level of the log from which on nodes use digests.
const digestLevel = 2

// digest is the value of a record in the topic nodes: what its aggregator has read of the topic heartbeats.
type digest struct {
	Aggregator string `json:"herald"` // the heartbeat.Boot of its writer
	// Read is the offset of the first heartbeat that it did not read. It read all those before that are younger than a
	// lease.
	Read    int64 `json:"read"`
	Reached int64 `json:"reached"` // the lowest heartbeat.NextOffset of all living nodes
	// Nodes are the newest heartbeats of all living nodes, if one of them came, left or changed, or has been behind for a
	// lease.
	Nodes    []heartbeat `json:"nodes,omitempty"`
	Shared   []string    `json:"shared,omitempty"` // names under which two processes run
	Messages []message   `json:"messages,omitempty"`
}

// maxMessages bounds the messages in one digest, and maxWaitingMessages those that wait for the next one; others get
// lost. A message has at most some ten kilobytes.
const (
	maxMessages        = 100
	maxWaitingMessages = 10_000
)

// usesDigests reports whether this node knows the others from digests.
func (l *Log) usesDigests() bool { return !l.cfg.SingleNode && l.view.Load().level >= digestLevel }

// announced is what this node has announced in the topic heartbeats.
type announced struct {
	mu       sync.Mutex // guards what follows
	position int64      // the newest one
	offset   int64      // of the first heartbeat that announced it
	probe    int64      // offset of a heartbeat, and when it was sent; see clock.observe
	sent     time.Time  // zero: none waits to be read by the aggregator
}

// add records an acknowledged heartbeat.
func (a *announced) add(position, offset int64, sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if position > a.position {
		a.position, a.offset = position, offset
	}
	if a.sent.IsZero() {
		a.probe, a.sent = offset, sent
	}
}

// readBy returns when the heartbeat was sent that an aggregator has read now.
func (a *announced) readBy(read int64) (sent time.Time, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent.IsZero() || read <= a.probe {
		return time.Time{}, false
	}
	sent, a.sent = a.sent, time.Time{}
	return sent, true
}

// includes reports whether the aggregator had read a heartbeat of this node with the position.
func (a *announced) includes(d *digest, position int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.position >= position && d.Read > a.offset
}

// receive takes a digest that was read from the topic nodes.
func (l membership) receive(r *stream.Record, d digest) {
	for _, m := range d.Messages {
		l.Messages.receive(m)
	}
	if !l.usesDigests() {
		return
	}
	now := l.now()
	if sent, ok := l.announced.readBy(d.Read); ok { // the digest was appended between sent and now
		l.observe(r, sent, now)
	}
	l.peers.apply(d, now, l.timing.Lease)
}

// apply stores a digest. One that was appended again is older than the newest one.
func (p *peers) apply(d digest, now time.Time, life time.Duration) {
	p.mu.Lock()
	defer p.updated.fire()
	defer p.mu.Unlock()
	if d.Aggregator <= p.aggregator || now.Sub(p.aggregatorAt) >= life {
		p.aggregator, p.aggregatorAt = d.Aggregator, now
	}
	if d.Read < p.digest.Read && now.Sub(p.digestAt) < life {
		return
	}
	if len(d.Nodes) > 0 {
		p.nodes, p.shared = make(map[string]peer, len(d.Nodes)), make(map[string]time.Time)
		for _, h := range d.Nodes {
			p.nodes[h.Boot] = peer{nextOffset: h.NextOffset, last: h}
		}
		for _, name := range d.Shared {
			p.shared[name] = now
		}
	}
	for boot, known := range p.nodes {
		known.nextOffset, known.lastSeen = max(known.nextOffset, d.Reached), now
		p.nodes[boot] = known
	}
	p.digest, p.digestAt = d, now
}

// newest returns the newest digest and when it was read.
func (p *peers) newest() (digest, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.digest, p.digestAt
}

// outranks reports whether an aggregator with a lower id has written digests lately.
func (p *peers) outranks(boot string, now time.Time, life time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aggregator != "" && p.aggregator < boot && now.Sub(p.aggregatorAt) < life
}

// runAggregator makes this node the aggregator while there is no other. A node that does not reach the brokers leaves
// it to others.
func (l membership) runAggregator(ctx context.Context) error {
	pause, silence := l.timing.HeartbeatInterval/10, 2*l.timing.HeartbeatInterval
	for wait.For(ctx, pause+rand.N(pause)) == nil {
		_, at := l.peers.newest()
		if age, ok := l.Lease(); !l.usesDigests() || !ok || age >= silence || l.now().Sub(at) < silence {
			continue
		}
		if err := l.aggregate(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errOutranked) {
			l.log.LogAttrs(ctx, slog.LevelWarn, "cannot tell the other nodes who runs, trying again", slog.Any("error", err))
		}
	}
	return nil
}

// errOutranked means that another aggregator goes on.
var errOutranked = errors.New("another node is the aggregator")

// aggregator is what an aggregator has read.
type aggregator struct {
	membership
	peers peers
	news  chan struct{} // capacity 1

	mu       sync.Mutex // guards what follows
	read     int64
	messages []message

	told   string    // the nodes of the last digest that had them, as an encoded text
	toldAt time.Time // when they had it, or all nodes were at the same position
}

// aggregate reads heartbeats and writes digests until ctx ends, something fails, or another aggregator goes on.
func (l membership) aggregate(ctx context.Context) error {
	h := &aggregator{membership: l, news: make(chan struct{}, 1)}
	limited, cancel := context.WithTimeout(ctx, l.timing.RequestTimeout)
	defer cancel()
	if err := l.sendHeartbeat(limited, heartbeat{}); err != nil { // unlike the requests below it ends with ctx
		return err
	}
	from, end, err := l.recentHeartbeats(limited, stream.Heartbeats)
	if err != nil {
		return err
	}
	h.read = from
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		return l.reader.ReadWithControlRecords(running, stream.Partition{Topic: stream.Heartbeats}, from, h.take)
	})
	group.Go(func() error { return h.tell(running, end) })
	return group.Wait()
}

// take takes a record of the topic heartbeats.
func (h *aggregator) take(r *stream.Record) error {
	beat, m, ok := h.decodeHeartbeat(stream.Heartbeats, r)
	isNews := ok && beat.Node == "" || ok && h.peers.isNews(beat)
	if ok && beat.Node != "" {
		h.peers.record(beat, h.now(), h.timing.Lease)
	}
	h.mu.Lock()
	h.read = r.Offset + 1
	if m.Message != nil && len(h.messages) < maxWaitingMessages {
		h.messages = append(h.messages, m.message)
	}
	h.mu.Unlock()
	if isNews {
		wait.Wake(h.news)
	}
	return nil
}

// isNews reports whether a heartbeat says more than that its node still lives.
func (p *peers) isNews(h heartbeat) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.nodes[h.Boot]
	return !ok || h.Leaving || h.NextOffset > known.nextOffset
}

// tell writes digests, the first one when all heartbeats before end are read.
func (h *aggregator) tell(ctx context.Context, end int64) error {
	tick := time.NewTicker(h.timing.HeartbeatInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		if h.Log.peers.outranks(h.bootID, h.now(), h.timing.Lease) {
			return errOutranked
		}
		if d, ok := h.next(end); ok {
			value, err := json.Marshal(d)
			if err != nil {
				return err
			}
			limited, cancel := context.WithTimeout(ctx, h.timing.RequestTimeout)
			err = h.producer.ProduceSync(limited, stream.Nodes, 0,
				h.macKeys.Load().sign(macHeartbeat, &stream.Record{Value: value}))
			cancel()
			if err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-h.news:
			_ = wait.For(ctx, h.timing.HeartbeatMinGap-time.Since(began)) // the loop checks ctx
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// next returns the next digest; ok is false before the heartbeats up to end are read.
func (h *aggregator) next(end int64) (d digest, ok bool) {
	h.mu.Lock()
	d = digest{Aggregator: h.bootID, Read: h.read}
	n := min(len(h.messages), maxMessages)
	d.Messages, h.messages = h.messages[:n:n], h.messages[n:]
	h.mu.Unlock()
	now := h.now()
	living := h.peers.living(now, h.timing.Lease)
	if d.Read < end || len(living) == 0 {
		return d, false
	}
	slices.SortFunc(living, func(a, b peer) int { return strings.Compare(a.last.Boot, b.last.Boot) })
	d.Reached = living[0].nextOffset
	var identities []heartbeat
	newest := d.Reached
	for _, p := range living {
		d.Reached, newest = min(d.Reached, p.nextOffset), max(newest, p.nextOffset)
		d.Nodes = append(d.Nodes, p.last)
		if h.peers.isShared(p.last.Node, now, h.timing.Lease) {
			d.Shared = append(d.Shared, p.last.Node)
		}
		is := p.last
		is.NextOffset, is.At, is.SkewMS = 0, time.Time{}, is.SkewMS/1000
		identities = append(identities, is)
	}
	told, _ := json.Marshal([]any{identities, d.Shared}) // decoded from JSON
	if d.Reached == newest {
		h.toldAt = now
	}
	if string(told) == h.told && now.Sub(h.toldAt) < h.timing.Lease {
		d.Nodes, d.Shared = nil, nil
		return d, true
	}
	h.told, h.toldAt = string(told), now
	return d, true
}
