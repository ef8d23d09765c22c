package dispatcher

import (
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
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
	// minWaitingBytes is the least share of a tier partition in Config.MaxWaitingBytes.
	minWaitingBytes = 64 << 10
)

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
	wake  func() // tells the timer that it must look at this partition

	last   string // destination of the newest job; guarded by lanes.mu
	streak int    // how many jobs in a row were for it; guarded by lanes.mu

	mu      sync.Mutex // guards everything below
	tracker tracker
	before  *partition    // the same one until it was lost, as long as it may know of records (recall.go)
	undone  int           // slots that are not done
	active  int           // jobs between begin and end
	stopped bool          // the assignment ends: nothing begins any more
	drained chan struct{} // closed when it is stopped and nothing is active
	dirty   bool          // something is done since the last commit
	paused  bool
	stalls  int // lanes that are full with work of this partition and move

	waiting      queue[*job] // of a tier, in order of arrival
	waitingBytes int
	share        int // of Config.MaxWaitingBytes
}

// slot is one record and what is still to be done for it.
type slot struct {
	part   *partition
	offset int64
	left   int // destinations that are not done; guarded by part.mu
}

// job is one delivery on its way through the dispatcher, or the burial of a poisoned record.
type job struct {
	slot  *slot
	work  *event.Work // nil for a burial
	size  int         // bytes that it holds
	ready time.Time   // of a job that waits in a tier

	// Set by its lane when a worker gets it.
	aside event.Reason // it must be parked for this; empty: it may be sent
	probe bool         // of a breaker that is half-open
}

func newPartition(id stream.Partition, delay time.Duration, group pauser, wake func(), mark stream.Mark) (*partition, error) {
	p := &partition{id: id, delay: delay, group: group, wake: wake, drained: make(chan struct{}), share: minWaitingBytes}
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

// begin reports whether a job may start. Every begin that was granted has its end.
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
	p.waiting, p.waitingBytes = queue[*job]{}, 0
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

// wait holds a job of the tier until it is ready.
func (p *partition) wait(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.waiting.push(j)
	p.waitingBytes += j.size
	p.settle()
	if p.waiting.len() == 1 {
		p.wake()
	}
}

// ripe takes the jobs that are ready at now, at most limit, and says when the next one will be; a
// zero time means never.
func (p *partition) ripe(now time.Time, limit int) (jobs []*job, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stalls == 0 {
		j, ok := p.waiting.peek()
		if !ok {
			break
		}
		if j.ready.After(now) || len(jobs) == limit {
			next = j.ready
			break
		}
		p.waiting.pop()
		p.waitingBytes -= j.size
		jobs = append(jobs, j)
	}
	p.settle()
	return jobs, next
}

// stall counts the lanes that cannot take more of this partition for a moment.
func (p *partition) stall(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalls += by
	p.settle()
	if p.stalls == 0 && p.waiting.len() > 0 {
		p.wake()
	}
}

// setShare changes how many bytes may wait.
func (p *partition) setShare(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.share = max(bytes, minWaitingBytes)
	p.settle()
}

// settle pauses or resumes the partition; the gap between the two limits keeps it from flapping.
// While it is paused the client throws away what it has fetched and fetches it again later, so
// memory is bounded by what was handed over. p.mu is held.
func (p *partition) settle() {
	if p.stopped {
		return
	}
	over := func(part, whole int) bool {
		return p.stalls > 0 ||
			p.undone-p.waiting.len() >= maxUndone*part/whole ||
			p.tracker.span() >= maxSpan*int64(part)/int64(whole) ||
			p.waiting.len() >= maxWaiting*part/whole ||
			p.waitingBytes >= p.share*part/whole
	}
	switch {
	case !p.paused && over(1, 1):
		p.paused = true
		p.group.Pause(p.id)
	case p.paused && !over(1, 2):
		p.paused = false
		p.group.Resume(p.id)
	}
}

// take returns the mark to commit if there is something new, how many holes it has, and how many records that
// are done have no room in it.
func (p *partition) take() (mark stream.Mark, holes int, leftOut int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dirty || p.tracker.mark < 0 {
		return stream.Mark{}, 0, 0, false
	}
	p.dirty = false
	runs := p.tracker.holes()
	mark = stream.Mark{Offset: p.tracker.mark, LeaderEpoch: p.tracker.leaderEpoch()}
	mark.Metadata, leftOut = stream.EncodeHoles(mark.Offset, runs)
	return mark, len(runs), leftOut, true
}

// putBack makes the next commit try again.
func (p *partition) putBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dirty = true
}
