package dispatcher

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// Bounds of the memory of one partition.
const (
	// maxUnfinished is how many records of a partition may be unfinished before it pauses, apart from those that wait in a
	// tier until they are due.
	maxUnfinished = 8192
	// maxSpan is how many offsets may lie between the oldest unfinished record and the newest: 2 MB of bits.
	maxSpan = 1 << 24
	// maxWaiting is how many records of a tier partition are held until they are due.
	maxWaiting = 4096
	// minWaitingBytes is what a tier partition may hold in any case.
	minWaitingBytes = 64 << 10
)

// tierMemory is the memory of a node for deliveries that wait in tiers. A partition may hold as much as is still free:
// a single one has half of the memory; N of them leave one (N+1)th free.
type tierMemory struct {
	limit int // bytes
	used  atomic.Int64
}

// share is how many bytes one partition may hold.
func (r *tierMemory) share() int { return max(r.limit-int(r.used.Load()), minWaitingBytes) }

// recordOverhead is about what a record costs in memory besides its bytes.
const recordOverhead = 512

func sizeOf(record *stream.Record) int {
	n := recordOverhead + len(record.Key) + len(record.Value)
	for _, h := range record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// consumer is the consumer group as its partitions use it; see stream.Group.
type consumer interface {
	Pause(...stream.Partition)
	Resume(...stream.Partition)
	Lag(stream.Partition) int64
	Commit(ctx context.Context, commits map[stream.Partition]stream.Commit) error
}

// host is what the partitions of a node share.
type host struct {
	group       consumer
	memory      *tierMemory
	wake        chan struct{} // wakes the timer when a partition has a new head
	startWorker func(*lane.Lane)
}

// partition is one partition during one assignment. When the assignment ends, the object is dropped. Completions that
// come later find it stopped, and nothing is committed from it.
type partition struct {
	*host
	id    stream.Partition
	delay time.Duration // of a retry tier; 0 for events and commands

	lanePartition lane.Partition

	mu      sync.Mutex // guards everything below
	tracker tracker
	// The object of the previous assignment if that was lost; nil once it knows no record that may still come
	// (assignment.go).
	predecessor      *partition
	unfinished       int             // slots that are not done
	activeDeliveries int             // begun and not ended
	stopped          bool            // the assignment ends: no delivery begins any more
	drained          chan struct{}   // closed when stopped and no delivery is active
	dirty            bool            // records were finished since the last commit
	commits          []stream.Commit // the newest that is known, and later ones without an answer
	paused           bool
	stallingLanes    int       // lanes that want this partition paused
	lastRead         time.Time // timestamp of the last record that was read; zero at first

	waiting      []*lane.Delivery // of a tier, ordered by byReadyAt
	waitingBytes int              // also counted in memory
}

// slot is one record and the deliveries that are not done.
type slot struct {
	partition *partition
	offset    int64
	remaining int // deliveries that are not done; guarded by partition.mu
}

// BeginDelivery, EndDelivery and Partition implement lane.Slot.
func (s *slot) BeginDelivery() bool        { return s.partition.beginDelivery() }
func (s *slot) EndDelivery()               { s.partition.endDelivery() }
func (s *slot) Partition() *lane.Partition { return &s.partition.lanePartition }

// slotOf is the slot of a delivery. Every delivery in a lane comes from a partition.
func slotOf(delivery *lane.Delivery) *slot { return delivery.Slot.(*slot) }

func newPartition(h *host, id stream.Partition, delay time.Duration, commit stream.Commit) (*partition, error) {
	p := &partition{host: h, id: id, delay: delay, drained: make(chan struct{}), commits: []stream.Commit{commit}}
	p.lanePartition = lane.Partition{ID: id, AddStalls: p.addStalls, StartWorker: h.startWorker}
	gaps, err := commit.Gaps()
	p.tracker.start(commit.Offset, commit.LeaderEpoch, gaps)
	return p, err
}

// setLastRead sets the timestamp of the last record that was read.
func (p *partition) setLastRead(at time.Time) {
	p.mu.Lock()
	p.lastRead = at
	p.mu.Unlock()
}

// beginRecord adds a record and returns its slot, nil when the record is done already or the partition is stopped.
func (p *partition) beginRecord(offset int64, leaderEpoch int32) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	if !p.tracker.add(offset, leaderEpoch) || p.doneBefore(offset, leaderEpoch) {
		p.dirty = true
		return nil
	}
	p.unfinished++
	p.updatePause()
	return &slot{partition: p, offset: offset, remaining: 1}
}

// deliveryDone counts one delivery of the slot as done and reports whether that was the last one. Then the record is
// done.
func (s *slot) deliveryDone() bool {
	p := s.partition
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.remaining--; s.remaining > 0 {
		return false
	}
	p.tracker.done(s.offset)
	p.unfinished--
	p.dirty = true
	p.updatePause()
	return true
}

// endsAsCopy is called before the record is done as a copy of another one.
func (s *slot) endsAsCopy() {
	s.partition.mu.Lock()
	s.partition.tracker.recordedFrom = max(s.partition.tracker.recordedFrom, s.offset+1)
	s.partition.mu.Unlock()
}

// setDeliveries sets how many deliveries the record has.
func (s *slot) setDeliveries(n int) {
	s.partition.mu.Lock()
	s.remaining = n
	s.partition.mu.Unlock()
}

// beginDelivery reports whether a delivery may begin. Each call that returned true needs one endDelivery.
func (p *partition) beginDelivery() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	p.activeDeliveries++
	return true
}

func (p *partition) endDelivery() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.activeDeliveries--
	p.checkDrained()
}

// stop ends the assignment: no delivery begins any more, and what is held of a tier is dropped.
func (p *partition) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.stopped = true
	p.waiting = nil
	p.addWaitingBytes(-p.waitingBytes)
	if p.paused {
		// The Kafka client keeps a pause beyond the assignment.
		p.group.Resume(p.id)
		p.paused = false
	}
	p.checkDrained()
}

func (p *partition) checkDrained() {
	if p.stopped && p.activeDeliveries == 0 {
		select {
		case <-p.drained:
		default:
			close(p.drained)
		}
	}
}

// addWaiting holds a delivery of the tier until it is ready.
func (p *partition) addWaiting(delivery *lane.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	at, _ := slices.BinarySearchFunc(p.waiting, delivery, byReadyAt)
	p.waiting = slices.Insert(p.waiting, at, delivery)
	p.addWaitingBytes(delivery.Size)
	p.updatePause()
	if at == 0 {
		wait.Wake(p.wake)
	}
}

// takeReady takes at most limit deliveries that are ready at now, and returns when the next one is ready; zero if there
// is none, or while a lane wants the partition paused.
func (p *partition) takeReady(now time.Time, limit int) (ready []*lane.Delivery, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stallingLanes > 0 {
		return nil, time.Time{}
	}
	n := 0
	for n < min(limit, len(p.waiting)) && !p.waiting[n].ReadyAt.After(now) {
		p.addWaitingBytes(-p.waiting[n].Size)
		n++
	}
	ready = slices.Clone(p.waiting[:n])
	if p.waiting = slices.Delete(p.waiting, 0, n); len(p.waiting) > 0 {
		next = p.waiting[0].ReadyAt
	} else if cap(p.waiting) > 1024 {
		p.waiting = nil // a burst does not stay in memory
	}
	p.updatePause()
	return ready, next
}

// hasUnread reports whether the partition may have records that were not read.
func (p *partition) hasUnread() bool {
	lag := p.group.Lag(p.id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused || lag > 0
}

// takeParked takes at most limit deliveries that were parked until a time and do not wait for their rate, whenever
// they are due. It takes no retries: those must not come early.
func (p *partition) takeParked(
	until time.Time, limit int, matches func(*lane.Delivery) bool,
) (taken []*lane.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stallingLanes > 0 || limit <= 0 {
		return nil
	}
	kept := p.waiting[:0]
	for i, delivery := range p.waiting {
		if len(taken) == limit {
			kept = append(kept, p.waiting[i:]...)
			break
		}
		reason := delivery.Work.Parked
		if reason == "" || reason == event.Paced || delivery.ParkedAt.After(until) || !matches(delivery) {
			kept = append(kept, delivery)
			continue
		}
		taken = append(taken, delivery)
		p.addWaitingBytes(-delivery.Size)
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
	p.updatePause()
	return taken
}

// addStalls adds to the number of lanes that want this partition paused.
func (p *partition) addStalls(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stallingLanes += by
	p.updatePause()
	if p.stallingLanes == 0 && len(p.waiting) > 0 {
		wait.Wake(p.wake)
	}
}

// addWaitingBytes counts bytes that wait, or no longer wait if negative. p.mu is held.
func (p *partition) addWaitingBytes(bytes int) {
	p.waitingBytes += bytes
	p.memory.used.Add(int64(bytes))
}

// updatePause pauses the partition at its limits and resumes it below 7/8 of them. The gap avoids flapping; it is only
// an eighth, because all that it admits at once competes for the cores at once. While a partition is paused, the
// client drops what it has fetched and fetches it again later, so memory is bounded by what was handed over. p.mu is
// held.
func (p *partition) updatePause() {
	if p.stopped {
		return
	}
	reached := func(eighths int) bool {
		return p.stallingLanes > 0 ||
			p.unfinished-len(p.waiting) >= maxUnfinished*eighths/8 ||
			p.tracker.span() >= maxSpan*int64(eighths)/8 ||
			len(p.waiting) >= maxWaiting*eighths/8 ||
			p.waitingBytes >= p.memory.share()*eighths/8
	}
	switch {
	case !p.paused && reached(8):
		p.paused = true
		p.group.Pause(p.id)
	case p.paused && !reached(7):
		p.paused = false
		p.group.Resume(p.id)
	}
}

// nextCommit returns the offset to commit if there is something new, the number of gaps in its metadata, and how many
// finished records did not fit into it.
func (p *partition) nextCommit() (commit stream.Commit, gapCount int, omitted int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dirty || p.tracker.commitOffset < 0 {
		return stream.Commit{}, 0, 0, false
	}
	p.dirty = false
	gaps := p.tracker.gaps()
	commit = stream.Commit{Offset: p.tracker.commitOffset, LeaderEpoch: p.tracker.leaderEpoch()}
	commit.Metadata, omitted = stream.EncodeGaps(commit.Offset, gaps)
	return commit, len(gaps), omitted, true
}

// maxUnanswered bounds the commits without an answer that are remembered. A node that loses its membership has made
// some ten of them.
const maxUnanswered = 64

// addCommit records a commit that was made, or may have been.
func (p *partition) addCommit(commit stream.Commit, acknowledged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if acknowledged {
		p.commits = p.commits[:0]
	}
	if len(p.commits) <= maxUnanswered {
		p.commits = append(p.commits, commit)
	}
}

// hasCommitted reports whether a commit may be the newest one of this node.
func (p *partition) hasCommitted(commit stream.Commit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.commits, commit)
}

// retryCommit makes the next commit include this partition again.
func (p *partition) retryCommit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty = true
}

// byReadyAt orders the deliveries of a tier partition by ReadyAt, then by offset. In offset order, one that waits long
// would delay those behind it, and all would be released in one burst. Deliveries parked for 5 s would gather in ever
// larger bursts, and every other delivery would wait for a core.
func byReadyAt(a, b *lane.Delivery) int {
	return cmp.Or(a.ReadyAt.Compare(b.ReadyAt), cmp.Compare(slotOf(a).offset, slotOf(b).offset))
}

// depth is how many records of a retry topic wait in memory or, as far as is known, were not read.
func (p *partition) depth() int {
	lag := p.group.Lag(p.id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) + int(lag)
}

// onlyTiers returns those of the partitions that belong to retry topics, in the same memory.
func onlyTiers(parts []*partition) []*partition {
	tiers := parts[:0]
	for _, p := range parts {
		if p.delay > 0 {
			tiers = append(tiers, p)
		}
	}
	return tiers
}

// isUnread reports whether the record has yet to be read, and was not finished before.
func (p *partition) isUnread(offset int64, leaderEpoch int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return offset >= p.tracker.next && !p.tracker.doneByEarlierOwner(offset) &&
		(p.predecessor == nil || !p.predecessor.wasDone(offset, leaderEpoch))
}

// wasDone reports whether a partition that was lost had finished the record.
func (p *partition) wasDone(offset int64, leaderEpoch int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tracker.wasDone(offset, leaderEpoch)
}

// inherit lets a newly assigned partition use what its predecessor knew when it was lost.
func (p *partition) inherit(predecessor *partition) {
	predecessor.mu.Lock()
	predecessor.predecessor = nil // only the last assignment is remembered
	predecessor.mu.Unlock()
	p.predecessor = predecessor
}

// doneBefore reports whether this node had finished the record before the partition was lost, and if so marks it as
// done. p.mu is held.
func (p *partition) doneBefore(offset int64, leaderEpoch int32) bool {
	if p.predecessor == nil {
		return false
	}
	p.predecessor.mu.Lock()
	known, last := p.predecessor.tracker.wasDone(offset, leaderEpoch), offset+1 >= p.predecessor.tracker.next
	p.predecessor.mu.Unlock()
	if last {
		p.predecessor = nil
	}
	if known {
		p.tracker.done(offset)
	}
	return known
}
