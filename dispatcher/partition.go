package dispatcher

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/stream"
)

// Bounds of one partition's share of memory.
const (
	// maxUndone is how many records of a partition may be read and not done: the partition rests beyond it.
	maxUndone = 8192
	// maxSpan is how many offsets may lie between the oldest undone record and the newest: 2 MB of bits.
	maxSpan = 1 << 24
	// maxWaiting is how many records of a tier are held until they are due.
	maxWaiting = 4096
	// minWaitingBytes may wait in a tier partition whatever the others hold.
	minWaitingBytes = 64 << 10
)

// waitingRoom is the memory for work that waits in tiers, of all partitions of a node. Each may hold as much as is
// still free: one that is alone has half of it, N of them leave one (N+1)th.
type waitingRoom struct {
	most int // bytes
	held atomic.Int64
}

// share is how many bytes may wait in one partition.
func (r *waitingRoom) share() int { return max(r.most-int(r.held.Load()), minWaitingBytes) }

// pauser stops and continues the fetching of partitions; it is the consumer group.
type pauser interface {
	Pause(...stream.Partition)
	Resume(...stream.Partition)
}

// partition is one assigned partition during one assignment. When it ends, the partition object is
// dropped; completions that still come find it stopped, and nothing is committed from it any more.
type partition struct {
	id    stream.Partition
	delay time.Duration // of a retry tier; 0 for events and commands
	group pauser
	room  *waitingRoom
	wake  func() // tells the timer that this partition has a new head

	source lane.Partition

	mu      sync.Mutex // guards everything below
	tracker tracker
	before  *partition    // the same one until it was lost, as long as it may know of records (recall.go)
	undone  int           // slots that are not done
	active  int           // deliveries between begin and end
	stopped bool          // the assignment ends: nothing begins any more
	drained chan struct{} // closed when it is stopped and nothing is active
	dirty   bool          // something is done since the last commit
	paused  bool
	stalls  int // lanes that are full with work of this partition and move

	waiting      []*lane.Delivery // of a tier, by byReadyAt
	waitingBytes int              // counted in room, too
}

// slot is one record and what is still to be done for it.
type slot struct {
	part   *partition
	offset int64
	left   int // destinations that are not done; guarded by part.mu
}

// Begin, End and Source make it a lane.Slot.
func (s *slot) BeginDelivery() bool        { return s.part.begin() }
func (s *slot) EndDelivery()               { s.part.end() }
func (s *slot) Partition() *lane.Partition { return &s.part.source }

// slotOf is the slot of a delivery: all that the lanes hold came from partitions.
func slotOf(delivery *lane.Delivery) *slot { return delivery.Slot.(*slot) }

func newPartition(
	id stream.Partition, delay time.Duration, group pauser, room *waitingRoom, wake func(), mark stream.Commit,
) (*partition, error) {
	p := &partition{id: id, delay: delay, group: group, room: room, wake: wake, drained: make(chan struct{})}
	p.source = lane.Partition{ID: id, AddStalls: p.holdBack}
	holes, err := mark.Holes()
	p.tracker.start(mark.Offset, mark.LeaderEpoch, holes)
	return p, err
}

// add notes a record and returns its slot, nil when there is nothing to do for it.
func (p *partition) add(offset int64, leaderEpoch int32) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	if !p.tracker.add(offset, leaderEpoch) || p.recall(offset, leaderEpoch) {
		p.dirty = true
		return nil
	}
	p.undone++
	p.settle()
	return &slot{part: p, offset: offset, left: 1}
}

// done notes that one destination of the slot is done, the last of which finishes the record. It
// reports whether the record is finished.
func (s *slot) done() bool {
	p := s.part
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.left--; s.left > 0 {
		return false
	}
	p.tracker.done(s.offset)
	p.undone--
	p.dirty = true
	p.settle()
	return true
}

// split says that n deliveries stand behind the slot.
func (s *slot) split(n int) {
	s.part.mu.Lock()
	s.left = n
	s.part.mu.Unlock()
}

// begin reports whether a delivery may start. Every begin that was granted has its end.
func (p *partition) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	p.active++
	return true
}

func (p *partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	p.checkDrained()
}

// stop ends the intake of the partition and returns what it held of a tier.
func (p *partition) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.stopped = true
	p.waiting = nil
	p.hold(-p.waitingBytes)
	if p.paused {
		// The client remembers a pause beyond the assignment.
		p.group.Resume(p.id)
		p.paused = false
	}
	p.checkDrained()
}

func (p *partition) checkDrained() {
	if p.stopped && p.active == 0 {
		select {
		case <-p.drained:
		default:
			close(p.drained)
		}
	}
}

// wait holds a delivery of the tier until it is ready.
func (p *partition) wait(delivery *lane.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	at, _ := slices.BinarySearchFunc(p.waiting, delivery, byReadyAt)
	p.waiting = slices.Insert(p.waiting, at, delivery)
	p.hold(delivery.Size)
	p.settle()
	if at == 0 {
		p.wake()
	}
}

// ripe takes the deliveries that are ready at now, at most limit, and says when the next one will be; a
// zero time means never.
func (p *partition) ripe(now time.Time, limit int) (ripe []*lane.Delivery, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalls > 0 {
		return nil, time.Time{}
	}
	n := 0
	for n < min(limit, len(p.waiting)) && !p.waiting[n].ReadyAt.After(now) {
		p.hold(-p.waiting[n].Size)
		n++
	}
	ripe = slices.Clone(p.waiting[:n])
	if p.waiting = slices.Delete(p.waiting, 0, n); len(p.waiting) > 0 {
		next = p.waiting[0].ReadyAt
	} else if cap(p.waiting) > 1024 {
		p.waiting = nil // a burst does not stay in memory
	}
	p.settle()
	return ripe, next
}

// holdBack counts the lanes that cannot take more of this partition for a moment.
func (p *partition) holdBack(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalls += by
	p.settle()
	if p.stalls == 0 && len(p.waiting) > 0 {
		p.wake()
	}
}

// hold accounts for more bytes that wait, or fewer. p.mu is held.
func (p *partition) hold(bytes int) {
	p.waitingBytes += bytes
	p.room.held.Add(int64(bytes))
}

// settle pauses or resumes the partition; the gap between the two limits keeps it from flapping. It is an eighth of
// them: what comes at once when the partition goes on is work for everyone's cores at once.
// While it is paused the client throws away what it has fetched and fetches it again later, so
// memory is bounded by what was handed over. p.mu is held.
func (p *partition) settle() {
	if p.stopped {
		return
	}
	over := func(eighths int) bool {
		return p.stalls > 0 ||
			p.undone-len(p.waiting) >= maxUndone*eighths/8 ||
			p.tracker.span() >= maxSpan*int64(eighths)/8 ||
			len(p.waiting) >= maxWaiting*eighths/8 ||
			p.waitingBytes >= p.room.share()*eighths/8
	}
	switch {
	case !p.paused && over(8):
		p.paused = true
		p.group.Pause(p.id)
	case p.paused && !over(7):
		p.paused = false
		p.group.Resume(p.id)
	}
}

// take returns the mark to commit if there is something new, how many holes it has, and how many records that
// are done have no room in it.
func (p *partition) take() (mark stream.Commit, holes int, leftOut int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dirty || p.tracker.mark < 0 {
		return stream.Commit{}, 0, 0, false
	}
	p.dirty = false
	runs := p.tracker.holes()
	mark = stream.Commit{Offset: p.tracker.mark, LeaderEpoch: p.tracker.leaderEpoch()}
	mark.Metadata, leftOut = stream.EncodeHoles(mark.Offset, runs)
	return mark, len(runs), leftOut, true
}

// putBack makes the next commit try again.
func (p *partition) putBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty = true
}

// byReadyAt orders what waits in a retry topic: what is ready first comes first, else what arrived first. In order of
// arrival alone one that waits long would hold up those behind it, and all of them would come by in one burst: what is
// parked for 5 s gathers in such bursts more and more, and whoever else is delivered meanwhile waits for a core.
func byReadyAt(a, b *lane.Delivery) int {
	return cmp.Or(a.ReadyAt.Compare(b.ReadyAt), cmp.Compare(slotOf(a).offset, slotOf(b).offset))
}
