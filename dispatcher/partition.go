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
	// maxUnfinished is how many records of a partition may be read and not done: the partition rests beyond it.
	maxUnfinished = 8192
	// maxSpan is how many offsets may lie between the oldest undone record and the newest: 2 MB of bits.
	maxSpan = 1 << 24
	// maxWaiting is how many records of a tier are held until they are due.
	maxWaiting = 4096
	// minWaitingBytes may wait in a tier partition whatever the others hold.
	minWaitingBytes = 64 << 10
)

// tierMemory is the memory for work that waits in tiers, of all partitions of a node. Each may hold as much as is
// still free: one that is alone has half of it, N of them leave one (N+1)th.
type tierMemory struct {
	limit int // bytes
	used  atomic.Int64
}

// share is how many bytes may wait in one partition.
func (r *tierMemory) share() int { return max(r.limit-int(r.used.Load()), minWaitingBytes) }

// pauser stops and continues the fetching of partitions; it is the consumer group.
type pauser interface {
	Pause(...stream.Partition)
	Resume(...stream.Partition)
}

// partition is one assigned partition during one assignment. When it ends, the partition object is
// dropped; completions that still come find it stopped, and nothing is committed from it any more.
type partition struct {
	id        stream.Partition
	delay     time.Duration // of a retry tier; 0 for events and commands
	group     pauser
	memory    *tierMemory
	wakeTimer func() // tells the timer that this partition has a new head

	lanePartition lane.Partition

	mu      sync.Mutex // guards everything below
	tracker tracker
	// the same one until it was lost, as long as it may know of records (lost_partitions.go)
	predecessor      *partition
	unfinished       int           // slots that are not done
	activeDeliveries int           // deliveries between begin and end
	stopped          bool          // the assignment ends: nothing begins any more
	drained          chan struct{} // closed when it is stopped and nothing is active
	dirty            bool          // something is done since the last commit
	paused           bool
	stallingLanes    int // lanes that are full with work of this partition and move

	waiting      []*lane.Delivery // of a tier, by byReadyAt
	waitingBytes int              // counted in room, too
}

// slot is one record and what is still to be done for it.
type slot struct {
	part      *partition
	offset    int64
	remaining int // destinations that are not done; guarded by part.mu
}

// Begin, End and Source make it a lane.Slot.
func (s *slot) BeginDelivery() bool        { return s.part.beginDelivery() }
func (s *slot) EndDelivery()               { s.part.endDelivery() }
func (s *slot) Partition() *lane.Partition { return &s.part.lanePartition }

// slotOf is the slot of a delivery: all that the lanes hold came from partitions.
func slotOf(delivery *lane.Delivery) *slot { return delivery.Slot.(*slot) }

func newPartition(
	id stream.Partition, delay time.Duration, group pauser, room *tierMemory, wake func(), mark stream.Commit,
) (*partition, error) {
	p := &partition{id: id, delay: delay, group: group, memory: room, wakeTimer: wake, drained: make(chan struct{})}
	p.lanePartition = lane.Partition{ID: id, AddStalls: p.addStalls}
	holes, err := mark.Holes()
	p.tracker.start(mark.Offset, mark.LeaderEpoch, holes)
	return p, err
}

// add notes a record and returns its slot, nil when there is nothing to do for it.
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
	return &slot{part: p, offset: offset, remaining: 1}
}

// done notes that one destination of the slot is done, the last of which finishes the record. It
// reports whether the record is finished.
func (s *slot) deliveryDone() bool {
	p := s.part
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

// split says that n deliveries stand behind the slot.
func (s *slot) setDeliveries(n int) {
	s.part.mu.Lock()
	s.remaining = n
	s.part.mu.Unlock()
}

// begin reports whether a delivery may start. Every begin that was granted has its end.
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

// stop ends the intake of the partition and returns what it held of a tier.
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
		// The client remembers a pause beyond the assignment.
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

// wait holds a delivery of the tier until it is ready.
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
		p.wakeTimer()
	}
}

// ripe takes the deliveries that are ready at now, at most limit, and says when the next one will be; a
// zero time means never.
func (p *partition) takeReady(now time.Time, limit int) (ripe []*lane.Delivery, next time.Time) {
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
	ripe = slices.Clone(p.waiting[:n])
	if p.waiting = slices.Delete(p.waiting, 0, n); len(p.waiting) > 0 {
		next = p.waiting[0].ReadyAt
	} else if cap(p.waiting) > 1024 {
		p.waiting = nil // a burst does not stay in memory
	}
	p.updatePause()
	return ripe, next
}

// addStalls counts the lanes that cannot take more of this partition for a moment.
func (p *partition) addStalls(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stallingLanes += by
	p.updatePause()
	if p.stallingLanes == 0 && len(p.waiting) > 0 {
		p.wakeTimer()
	}
}

// hold accounts for more bytes that wait, or fewer. p.mu is held.
func (p *partition) addWaitingBytes(bytes int) {
	p.waitingBytes += bytes
	p.memory.used.Add(int64(bytes))
}

// settle pauses or resumes the partition; the gap between the two limits keeps it from flapping. It is an eighth of
// them: what comes at once when the partition goes on is work for everyone's cores at once.
// While it is paused the client throws away what it has fetched and fetches it again later, so
// memory is bounded by what was handed over. p.mu is held.
func (p *partition) updatePause() {
	if p.stopped {
		return
	}
	over := func(eighths int) bool {
		return p.stallingLanes > 0 ||
			p.unfinished-len(p.waiting) >= maxUnfinished*eighths/8 ||
			p.tracker.span() >= maxSpan*int64(eighths)/8 ||
			len(p.waiting) >= maxWaiting*eighths/8 ||
			p.waitingBytes >= p.memory.share()*eighths/8
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
func (p *partition) nextCommit() (mark stream.Commit, holes int, leftOut int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dirty || p.tracker.commitOffset < 0 {
		return stream.Commit{}, 0, 0, false
	}
	p.dirty = false
	runs := p.tracker.holes()
	mark = stream.Commit{Offset: p.tracker.commitOffset, LeaderEpoch: p.tracker.leaderEpoch()}
	mark.Metadata, leftOut = stream.EncodeHoles(mark.Offset, runs)
	return mark, len(runs), leftOut, true
}

// retryCommit makes the next commit try again.
func (p *partition) retryCommit() {
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
