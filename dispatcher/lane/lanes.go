package lane

import (
	"strings"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// Lanes are all lanes of the node and the limits that they share.
//
// A full lane has two ways out. If it completes deliveries, the partition that overfills it pauses for the fraction of
// a second that the lane needs: a short burst is cheapest to leave in the log. If it is stuck, slow or full again and
// again, its deliveries are parked in a retry topic, and no other destination waits for it. Where a destination has
// its partition to itself, no other one waits either, and the partition pauses as long as the lane completes
// deliveries.
//
// The memory is shared by a dynamic threshold: a lane may hold as much as is still free. With N stuck lanes one
// (N+1)th of the memory stays free for the others. Above a quarter of the memory, stuck lanes queue no more than they
// can send soon; above half, they give back what exceeds that.
//
// The open files of the node are shared in the same way: a lane may have as many running requests as the node may still
// start, and always one. So is what consumers may have that pull, see mayLease.
type Lanes struct {
	maxDeliveries, maxBytes int
	maxSending              int
	tiers                   []stream.Tier
	now                     func() time.Time
	rules                   Rules
	limiter                 Limiter
	open                    func(*config.Endpoint, *config.Destination) (Target, error)
	setHeld                 func(string, time.Time) // see HeldMarker
	wakeTimer               func()
	onGone                  func(*event.Work, string)
	surveyWanted            func() // see Deps
	pulled                  func(dest string) bool
	waitChanged             chan struct{} // wakes Run when the first wait changes; capacity 1
	freed                   chan struct{} // memory was freed; capacity 1

	mu              sync.Mutex // guards the fields below and all lanes; taken before the locks of partitions
	byDest          map[string]*Lane
	stalling        map[*Lane]struct{} // lanes that paused a partition
	early           map[*Lane]struct{} // lanes with an early probe
	waitingForToken waitingLanes
	lanesParked     int // number of lanes with parked deliveries
	deliveries      int // in lanes or sent, until everything about them is recorded
	unrecorded      unrecorded
	bytes           int
	workers         int      // of all lanes, each with one request at a time
	leases          leases   // of all lanes
	memoryLow       bool     // above half; EnforceLimits is called until it is not
	recovered       []string // see Recovered
	anyHung         bool     // a lane hangs or is paused
	changesRead     time.Time
	orders          map[int32]*orders // of ordered destinations, by the number of their partitions
	positions       int               // in all of them
	slots           int               // of all of them
	maxPositions    int
	holding         map[*turns]struct{}
	wanting         map[*turns]struct{}
	newWanted       bool
}

// Config bounds what all lanes of a node hold and send together: deliveries, their bytes, and running requests.
type Config struct {
	MaxInFlight      int
	MaxInFlightBytes int
	MaxSending       int
}

// Deps are the dependencies of Lanes. Limiter and Held may be nil.
type Deps struct {
	Now     func() time.Time
	Rules   Rules
	Limiter Limiter
	Held    HeldMarker
	Open    func(*config.Endpoint, *config.Destination) (Target, error) // opens a destination
	Wake    func()                                                      // asks for EnforceLimits to be called soon
	// Pulled reports whether a consumer waits for events of a destination that is pulled. It must not wait.
	Pulled func(dest string) bool
	// OnGone is called for each 410 of a destination that has answered 410 to several events in a row, with the URL of
	// the request. It must not wait.
	OnGone func(work *event.Work, url string)
	// SurveyWanted asks for Surveys to be called soon; nil: there is nothing to survey.
	SurveyWanted func()
}

// New makes Lanes and starts nothing; see Run.
func New(cfg Config, deps Deps) *Lanes {
	ls := &Lanes{
		maxDeliveries: cfg.MaxInFlight, maxBytes: cfg.MaxInFlightBytes, maxSending: cfg.MaxSending,
		tiers: stream.Tiers(), now: deps.Now, rules: deps.Rules, limiter: deps.Limiter, open: deps.Open,
		pulled:  deps.Pulled,
		setHeld: func(string, time.Time) {}, wakeTimer: deps.Wake, onGone: deps.OnGone,
		byDest: make(map[string]*Lane), stalling: make(map[*Lane]struct{}), early: make(map[*Lane]struct{}),
		unrecorded:  make(unrecorded),
		waitChanged: make(chan struct{}, 1), freed: make(chan struct{}, 1), surveyWanted: deps.SurveyWanted,
		maxPositions: maxPositions,
		orders:       make(map[int32]*orders), holding: make(map[*turns]struct{}), wanting: make(map[*turns]struct{}),
	}
	if deps.Held != nil {
		ls.setHeld = deps.Held.SetHeldUntil
	}
	return ls
}

// Freed returns a channel that receives after memory was freed, for a caller that waits because Full returned true.
func (ls *Lanes) Freed() <-chan struct{} { return ls.freed }

// Begin begins a delivery that is in no lane and counts its memory. It returns false when the partition has left the
// node. Release ends the delivery.
func (ls *Lanes) Begin(delivery *Delivery) bool {
	if !delivery.Slot.BeginDelivery() {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.deliveries++
	ls.bytes += delivery.Size
	return true
}

// Release ends a delivery: everything about it is recorded, or the next owner of its partition delivers it.
func (ls *Lanes) Release(delivery *Delivery) {
	delivery.Slot.EndDelivery()
	ls.freeMemory(delivery)
}

// freeMemory gives back the memory of a delivery.
func (ls *Lanes) freeMemory(delivery *Delivery) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.deliveries--
	ls.bytes -= delivery.Size
	ls.unrecorded.remove(delivery)
	wait.Wake(ls.freed)
}

// InMemory returns how many deliveries and bytes the node holds.
func (ls *Lanes) InMemory() (deliveries, bytes int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.deliveries, ls.bytes
}

// Full reports whether the node holds as much as it may. Then the reader waits for Freed.
func (ls *Lanes) Full() bool {
	held, bytes := ls.InMemory()
	return held >= ls.maxDeliveries || bytes >= ls.maxBytes
}

// laneOf finds or makes the lane of the delivery. Lanes.mu is held.
func (ls *Lanes) laneOf(delivery *Delivery, now time.Time) *Lane {
	work, partition := delivery.Work, delivery.Slot.Partition()
	l := ls.byDest[work.Dest]
	if l == nil {
		// While max_in_flight is unknown (0), one request may run: a burst must not exceed the limit.
		dest := strings.Clone(work.Dest) // it shares the memory of all headers of its event
		l = &Lane{lanes: ls, dest: dest, window: newWindow(ls.rules.MaxInFlight(work)), parking: newParking(),
			pace: newPace(now), startWorker: partition.StartWorker}
		ls.byDest[dest] = l
	}
	if l.deliveries == 0 && l.parking.total == 0 {
		l.partitionIndex = partition.ID.Index // the lane is new, or its endpoint has moved to another partition
	}
	l.lastUsed = now
	return l
}

// enqueue queues the delivery in its lane, or returns the reason to park it.
func (ls *Lanes) enqueue(delivery *Delivery) event.Reason {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l, partition := ls.laneOf(delivery, now), delivery.Slot.Partition()
	l.countReturned(delivery.Work)
	if l.deliveries == 0 {
		l.pace.becomeBusy(now)
	}
	if partition.streak++; partition.lastDest != l.dest {
		partition.lastDest, partition.streak = l.dest, 1
	}
	q := l.queueOf(delivery.Work)
	held, reason := l.awaitTurn(delivery, now)
	switch {
	case held:
		ls.countQueued(l, delivery)
		return ""
	case reason != "":
		return reason
	case q == &l.live && (l.breaker.blocks(now) || l.breaker.yields(delivery.Work, now)):
		return event.BreakerOpen
	case l.token.waiting(now) && q.Len() > 0 && l.queued() >= l.share(delivery, l.token.maxQueued):
		return event.Paced
	case l.window.failing() && ls.deliveries > ls.maxDeliveries/4*3:
		return event.LaneFull // the last quarter of the memory is for lanes that do not fail
	case !l.hasRoom(q.Len(), delivery, now):
		if !l.pace.mayStall(now, l.deliveries, partition) {
			return event.LaneFull
		}
		l.pausePartition(partition, now)
	}
	q.PushBack(delivery)
	ls.countQueued(l, delivery)
	l.startWorkers(1)
	return ""
}

// countQueued counts a delivery that waits in a lane.
func (ls *Lanes) countQueued(l *Lane, delivery *Delivery) {
	l.deliveries++
	l.bytes += delivery.Size
	ls.deliveries++
	ls.bytes += delivery.Size
	if !ls.memoryLow && ls.memoryAbove(2) {
		ls.memoryLow = true
		ls.wakeTimer()
	}
}

// dropQueued uncounts one whose partition has left the node.
func (ls *Lanes) dropQueued(l *Lane, delivery *Delivery) {
	l.uncount(delivery)
	ls.unrecorded.remove(delivery)
}

// mayRun reports whether a lane may have running workers when all lanes together have total.
func (ls *Lanes) mayRun(running, total int) bool {
	return running == 1 || running <= ls.maxSending-total+1
}

// DropPartitions removes the deliveries of partitions that have left the node, and resets the lanes of their
// destinations: only the next owner knows their state from now on.
func (ls *Lanes) DropPartitions(partitions []*Partition) {
	dropped, indexes := make(map[*Partition]bool), make(map[int32]bool)
	for _, partition := range partitions {
		dropped[partition], indexes[partition.ID.Index] = true, true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.byDest {
		if !indexes[l.partitionIndex] {
			continue
		}
		l.resetParked()
		l.resetLearned()
		l.knowsBreaker = false
		for _, q := range []*deliveryQueue{&l.live, &l.requested} {
			for range q.Len() {
				delivery := q.PopFront()
				if !dropped[delivery.Slot.Partition()] {
					q.PushBack(delivery)
					continue
				}
				ls.dropQueued(l, delivery)
			}
		}
	}
	for index := range indexes {
		ls.dropOrders(index, dropped)
	}
	wait.Wake(ls.freed)
}

// sweep drops the opened secrets of lanes that were empty for idleLane, and removes those lanes. A lane with parked
// deliveries, an open breaker or answers 410 is removed only after rememberParked, rememberOpen or rememberGone.
func (ls *Lanes) sweep() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for dest, l := range ls.byDest {
		idle := now.Sub(l.lastUsed)
		if l.deliveries > 0 || l.workers > 0 || l.token.heapPosition > 0 || idle < idleLane {
			continue
		}
		l.target.Store(nil)
		if l.parking.total > 0 && idle < rememberParked || l.breaker.open() && now.Sub(l.breaker.openUntil) < rememberOpen ||
			len(l.gone.events) > 0 && idle < rememberGone {
			continue
		}
		l.resetParked()
		delete(ls.byDest, dest)
	}
}
