package lane

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gammazero/deque"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
)

// Bounds of a lane.
const (
	// laneQueue is how many live deliveries, and separately how many requested ones, wait in memory for one destination
	// before its partition pauses or further ones are parked: one second of work at the default of 64 requests in flight
	// and 60 ms each.
	laneQueue = 1024
	// sweepEvery is how often lanes that are no longer needed are removed.
	sweepEvery = time.Minute
	// idleLane is how long an empty lane is kept, with its opened secrets.
	idleLane = time.Minute
	// An empty lane is kept longer for what it counts: rememberParked while deliveries are parked (each is re-checked
	// within an hour, so all have returned by then), rememberOpen after its circuit breaker was open, rememberGone after
	// answers 410.
	rememberParked = 3 * time.Hour
	rememberOpen   = time.Hour
	rememberGone   = time.Hour
)

// Lane is the state of one destination on this node: a bounded queue, the in-flight window, and the workers that send.
// Nothing else decides when a destination gets its deliveries.
type Lane struct {
	lanes   *Lanes // which it belongs to
	dest    string
	target  atomic.Pointer[opened] // replaced when the endpoint changes
	opening sync.Mutex             // held while target is replaced

	startWorker func(*Lane) // see Partition

	// Guarded by Lanes.mu.
	partitionIndex  int32 // of the partition that its deliveries come from
	url             string
	live            deliveryQueue
	requested       deliveryQueue // replays, recoveries and tests; they give way to live deliveries
	requestedActive int           // requested deliveries that workers have
	requestedTurn   bool          // with a window of 1, live and requested deliveries take turns
	deliveries      int           // queued and with workers
	bytes           int
	workers         int // running ones
	window          window
	breaker         breaker
	early           *Delivery // the next early probe of the breaker; nil: none waits
	knowsBreaker    bool      // a request was accepted or rejected, so the state of an earlier owner is out of date
	parking         parking
	token           tokenWait
	pace            pace
	gone            goneCounter
	leases          leases
	lastPull        time.Time // of a destination that consumers pull
	recalled        time.Time // when its parked deliveries were called back for a pull
	lastUsed        time.Time
}

type deliveryQueue = deque.Deque[*Delivery]

// Target is an opened (decrypted and parsed) destination, ready for attempts. A lane only keeps it.
type Target any

type opened struct {
	target Target
	rev    int64 // of the endpoint
}

// Target returns the opened destination. The lane keeps it until the endpoint changes or sweep drops it.
func (l *Lane) Target(eligibility Eligibility) (Target, error) {
	isOpen := func() Target {
		if kept := l.target.Load(); kept != nil && kept.rev == eligibility.Endpoint.Rev {
			return kept.target
		}
		return nil
	}
	if kept := isOpen(); kept != nil {
		return kept, nil
	}
	l.opening.Lock() // deliveries that gather must find the same target
	defer l.opening.Unlock()
	if kept := isOpen(); kept != nil {
		return kept, nil
	}
	target, err := l.lanes.open(eligibility.Endpoint, eligibility.Destination)
	if err != nil {
		return nil, err
	}
	l.target.Store(&opened{target, eligibility.Endpoint.Rev})
	l.configure(eligibility.Destination)
	return target, nil
}

// configure applies the settings of a destination that was opened to the lane.
func (l *Lane) configure(d *config.Destination) {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	l.followURL(d.URL)
	l.url = d.URL
	l.window.resize(d.MaxInFlight, d.Gathers())
	l.startWorkers(l.queued())
}

// followURL resets what the lane has learned about the destination if that has a new URL.
func (l *Lane) followURL(url string) {
	if l.url != "" && l.url != url {
		l.resetLearned()
		l.url = url
	}
}

// resetLearned closes the breaker and resets the window and the 410 count.
func (l *Lane) resetLearned() {
	if l.breaker.open() {
		l.lanes.setHeld(l.dest, time.Time{})
	}
	l.knowsBreaker = true
	l.breaker, l.window, l.gone = breaker{}, l.window.fresh(), goneCounter{}
	l.recordRecovery(l.lanes.now())
	l.releaseEarly()
	l.startWorkers(1)
}

// Reserve sets how many bytes a delivery that a worker of the lane has needs for its transformed body.
func (l *Lane) Reserve(delivery *Delivery, n int) {
	ls := l.lanes
	ls.mu.Lock()
	defer ls.mu.Unlock()
	change := n - delivery.Reserved
	delivery.Size, delivery.Reserved = delivery.Size+change, n
	l.bytes += change
	ls.bytes += change
	if change < 0 {
		wait.Wake(ls.freed)
	}
}

func (l *Lane) queued() int {
	n := l.live.Len() + l.requested.Len()
	if l.early != nil {
		n++
	}
	return n
}

// isRequested reports whether a user asked for the delivery: a replay, a recovery job or a test. It gives way to live
// deliveries, and an open circuit breaker does not block it.
func isRequested(work *event.Work) bool { return work.Run != "" || work.Trigger == event.TriggerTest }

func (l *Lane) queueOf(work *event.Work) *deliveryQueue {
	if isRequested(work) {
		return &l.requested
	}
	return &l.live
}

// share is how much of the room in the queue the delivery may use. While the lane has parked deliveries, new ones may
// use half of it, so that parked ones, which came first, find room when they return.
func (l *Lane) share(delivery *Delivery, room int) int {
	if l.parking.total > 0 && delivery.Work.Parked == "" {
		return (room + 1) / 2
	}
	return room
}

// hasRoom reports whether the lane stays within its bounds with one more delivery. An empty lane always does.
func (l *Lane) hasRoom(queued int, delivery *Delivery, now time.Time) bool {
	if l.deliveries == 0 {
		return true
	}
	ls, most := l.lanes, l.share(delivery, laneQueue)
	if ls.memoryAbove(4) && l.stuck(now) {
		most = l.stuckQueue()
	}
	return queued < most && l.deliveries < ls.maxDeliveries-ls.deliveries && l.bytes+delivery.Size <= ls.maxBytes-ls.bytes
}

// startWorkers starts workers for at most n queued deliveries.
func (l *Lane) startWorkers(n int) {
	ls := l.lanes
	for n = min(n, l.queued(), l.window.size-l.workers); n > 0 && ls.mayRun(l.workers+1, ls.workers+1); n-- {
		l.workers++
		ls.workers++
		l.startWorker(l)
	}
}

// finishAndTakeNext counts the result of a worker's delivery and takes its next one, nil when the worker must end.
// With a reason the next delivery must be parked.
func (l *Lane) finishAndTakeNext(last Result) (delivery *Delivery, reason event.Reason) {
	ls := l.lanes
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now, more := ls.now(), 0
	l.endLease(last.Delivery)
	switch {
	case last.Delivery == nil:
	case last.Kind == waitsForToken:
		l.putBack(last.Delivery, now)
		l.waitForToken(last.wait, last.perSecond, now)
	case last.Kind == WaitsForPull:
		l.putBack(last.Delivery, now)
		l.waitForPull(last.Delivery, now)
	case last.Kind == Outdated:
		l.putBack(last.Delivery, now)
	default:
		more = l.recordResult(last, now)
		l.workerReturned(last.Delivery)
		l.pace.countCompletion(now)
		l.lastUsed = now
		l.deliveries--
		l.bytes -= last.Delivery.Size
	}
	if l.workers <= l.window.size && ls.mayRun(l.workers, ls.workers) {
		delivery, reason = l.takeNext(now)
	}
	if delivery == nil {
		l.workers--
		ls.workers--
	}
	l.startWorkers(more)
	if len(l.pace.paused) > 0 && l.queued() <= l.pace.queuedAtPause/2 {
		l.resumePartitions(now)
	}
	return delivery, reason
}

// recordResult updates window, breaker and 410 count with a result and returns how many more workers may start.
func (l *Lane) recordResult(last Result, now time.Time) (more int) {
	if l.gone.recordAnswer(last.Code, last.Delivery.Work, last.URL, now) {
		l.lanes.onGone(last.Delivery.Work, last.URL)
	}
	probe := l.breaker.probe == last.Delivery
	switch last.Kind {
	case Succeeded:
		l.knowsBreaker = true
		l.recordRecovery(now)
		l.window.recordSuccess()
		switch {
		case l.breaker.recordSuccess():
			return l.resume()
		case l.window.gathers:
			return l.queued()
		}
		return 1
	case Rejected:
		l.knowsBreaker = true
		closed := l.breaker.recordRejection(probe || isRequested(last.Delivery.Work))
		if !l.breaker.open() {
			l.recordRecovery(now)
		}
		if closed {
			return l.resume()
		}
	case Failed, TimedOut:
		if last.Kind == Failed && !l.breaker.open() {
			l.recordRecovery(now)
		}
		l.window.recordFailure(last.Kind == TimedOut)
		if l.breaker.recordFailure(now, last.Delivery.Work.Event, probe) {
			l.lanes.setHeld(l.dest, l.breaker.openUntil)
		}
	}
	return 0
}

// resume starts over with the window of a new lane when the breaker has closed, and returns how many workers may start.
func (l *Lane) resume() int {
	l.window = l.window.fresh()
	l.lanes.setHeld(l.dest, time.Time{})
	l.releaseEarly()
	return l.queued()
}

// RestoreBreaker restores the circuit breaker of an earlier owner of the partition from a delivery that it has parked,
// unless this node has learned since that the destination works.
func (ls *Lanes) RestoreBreaker(delivery *Delivery) {
	if delivery.Work.Parked != event.BreakerOpen {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.laneOf(delivery, now)
	if l.knowsBreaker || delivery.Work.ParkedBy == l.parking.laneID || !l.breaker.restore(delivery.Work, now) {
		return
	}
	ls.setHeld(l.dest, l.breaker.openUntil)
}

// holdEarly keeps an untried delivery that an open breaker blocks in memory if it is the best early probe, which is
// made within earlyPause, or with a spent budget within earlyRefill for one that is new. It returns the delivery that
// must be parked; nil: none.
func (l *Lane) holdEarly(delivery *Delivery, now time.Time) *Delivery {
	work, b := delivery.Work, &l.breaker
	switch {
	case !b.open() || isRequested(work) || work.Attempt > 1 && !b.restored:
		return delivery
	case l.lanes.memoryAbove(4): // many breakers may be open
		return delivery
	case work.Parked == "" && b.earlyWait(now, false) > earlyPause+earlyRefill,
		work.Parked != "" && b.earlyWait(now, true) > earlyPause:
		return delivery
	case l.early != nil && !b.prefersEarly(work, l.early.Work):
		return delivery
	}
	previous := l.early
	l.early = delivery
	l.lanes.countQueued(l, delivery)
	if previous == nil {
		l.lanes.early[l] = struct{}{}
		l.lanes.wakeTimer()
		return nil
	}
	l.uncount(previous)
	return previous
}

// uncount uncounts a delivery that was queued and is not sent.
func (l *Lane) uncount(delivery *Delivery) {
	l.deliveries--
	l.bytes -= delivery.Size
	l.lanes.deliveries--
	l.lanes.bytes -= delivery.Size
}

// releaseEarly queues the next early probe of a breaker that has closed.
func (l *Lane) releaseEarly() {
	if l.early != nil {
		l.live.PushFront(l.early)
		l.early = nil
	}
}

// startEarlyProbes starts workers for the early probes that are due, and returns how long to wait before the next call;
// 0: until Deps.Wake is called.
func (ls *Lanes) startEarlyProbes() (again time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for l := range ls.early {
		if l.early == nil {
			delete(ls.early, l)
			continue
		}
		wait := l.breaker.earlyWait(now, false)
		if wait <= 0 {
			l.startWorkers(1)
			wait = changeInterval // if a request of the lane is in its way
		}
		if again == 0 || wait < again {
			again = wait
		}
	}
	return again
}

// takeNext takes the next delivery for a worker, nil when there is none. With a reason the delivery must be parked;
// without, it may be sent.
func (l *Lane) takeNext(now time.Time) (*Delivery, event.Reason) {
	if l.token.waiting(now) {
		return l.takeSurplus(), event.Paced
	}
	switch {
	case l.early != nil && l.breaker.probe == nil && l.breaker.earlyWait(now, false) <= 0:
		delivery := l.early
		l.early = nil
		l.breaker.beginEarly(delivery, now)
		return delivery, ""
	case !l.breaker.open():
		return l.takeAllowed(), ""
	case !l.breaker.blocks(now):
		return l.takeProbe(), ""
	}
	if l.requested.Len() > 0 && l.requestedActive < MaxProbes {
		l.requestedActive++
		return l.requested.PopFront(), ""
	}
	if l.live.Len() > 0 {
		return l.live.PopFront(), event.BreakerOpen
	}
	return nil, ""
}

// takeProbe takes the probe of a half-open breaker: the best queued live delivery, without one a requested delivery.
func (l *Lane) takeProbe() *Delivery {
	if l.live.Len() == 0 {
		l.breaker.probe = l.takeAllowed()
		return l.breaker.probe
	}
	best := 0
	for i := 1; i < l.live.Len(); i++ {
		if l.breaker.prefers(candidateOf(l.live.At(i).Work), candidateOf(l.live.At(best).Work)) {
			best = i
		}
	}
	l.breaker.probe = l.live.Remove(best)
	return l.breaker.probe
}

// takeAllowed takes the next delivery that may be sent. While live deliveries wait, at most one requested delivery runs
// beside them; with a window of 1 the two kinds take turns.
func (l *Lane) takeAllowed() *Delivery {
	mayTakeRequested := l.live.Len() == 0 || l.requestedActive == 0 && (l.window.size > 1 || l.requestedTurn)
	if mayTakeRequested && l.requested.Len() > 0 {
		l.requestedActive++
		l.requestedTurn = false
		return l.requested.PopFront()
	}
	l.requestedTurn = true
	if l.live.Len() > 0 {
		return l.live.PopFront()
	}
	return nil
}

// takeSurplus takes a delivery that is too many to wait for a token in the lane: requested before live ones, the newest
// first. It leaves at least one of each kind.
func (l *Lane) takeSurplus() *Delivery {
	switch {
	case l.queued() <= l.token.maxQueued:
	case l.requested.Len() > 1:
		l.requestedActive++ // until it is parked
		return l.requested.PopBack()
	case l.live.Len() > 1:
		return l.live.PopBack()
	}
	return nil
}

// workerReturned counts that a worker no longer has the delivery.
func (l *Lane) workerReturned(delivery *Delivery) {
	if isRequested(delivery.Work) {
		l.requestedActive--
	}
	if l.breaker.probe == delivery { // it got no answer: the next delivery is the probe
		l.breaker.probe, l.breaker.early = nil, false
	}
}

// putBack puts a delivery that was not sent back where its worker took it from.
func (l *Lane) putBack(delivery *Delivery, now time.Time) {
	if b := &l.breaker; b.early && b.probe == delivery && l.early == nil {
		b.undoEarly(now)
		l.early, l.lanes.early[l] = delivery, struct{}{}
		l.lanes.wakeTimer()
		return
	}
	l.queueOf(delivery.Work).PushFront(delivery)
	l.workerReturned(delivery)
}

// stuck reports whether the lane fails, or has completed nothing for stuckAfter.
func (l *Lane) stuck(now time.Time) bool {
	return l.window.failing() || now.Sub(l.pace.lastCompletion) > stuckAfter
}

// goneAfter different events in a row, over goneSpan, must be answered 410 (Gone) before their destination is disabled.
// Only the first attempts of events whose sender is authenticated count: a stranger may send some that the receiver
// answers so.
const (
	goneAfter = 3
	goneSpan  = 3 * time.Minute
)

// goneCounter counts consecutive 410 answers of one destination. It is guarded by Lanes.mu.
type goneCounter struct {
	events []id.ID // different ones, at most goneAfter
	since  time.Time
	url    string // to which they were sent
}

// recordAnswer counts an answer and reports whether the destination is gone: it returns true for each 410 that counts
// from the third different event on. Code 0, a request without an answer, changes nothing.
func (g *goneCounter) recordAnswer(code int, work *event.Work, url string, now time.Time) bool {
	switch {
	case code != http.StatusGone && code != 0:
		g.events = nil
		return false
	case code == 0 || work.Run != "" || work.Attempt > 1 || !work.Event.Authenticated():
		return false
	case g.url != url || len(g.events) == 0 || now.Before(g.since):
		g.events, g.url, g.since = nil, url, now
	}
	if len(g.events) < goneAfter && !slices.Contains(g.events, work.Event.ID) {
		g.events = append(g.events, work.Event.ID)
	}
	return len(g.events) == goneAfter && now.Sub(g.since) >= goneSpan
}

// ForgetGone resets the count of 410 answers of a destination that was disabled or changed.
func (ls *Lanes) ForgetGone(dest string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byDest[dest]; l != nil {
		l.gone = goneCounter{}
	}
}

// Census is a snapshot of all lanes, for metrics.
type Census struct {
	Deliveries int // queued, sent or being recorded
	Bytes      int
	Sending    int            // workers, at most MaxSending; each has at most one running request
	States     map[string]int // number of lanes by state
	Parked     map[string]int // number of deliveries by reason
	Ordered    int            // unfinished deliveries of ordered destinations
}

// Census counts the lanes by state and their parked deliveries by reason.
func (ls *Lanes) Census() Census {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	c := Census{
		Deliveries: ls.deliveries, Bytes: ls.bytes, Sending: min(ls.workers, ls.maxSending),
		States: map[string]int{"all": len(ls.byDest), "window_reduced": 0, "rate_limited": 0, "open": 0, "half_open": 0},
		Parked: make(map[string]int, len(parkReasons)), Ordered: ls.positions,
	}
	for _, reason := range parkReasons {
		c.Parked[string(reason)] = 0
	}
	for _, l := range ls.byDest {
		for i, n := range l.parking.counts {
			c.Parked[string(parkReasons[i])] += n
		}
		if l.window.failures > 0 && l.window.size < l.window.limit {
			c.States["window_reduced"]++
		}
		if l.token.waiting(now) {
			c.States["rate_limited"]++
		}
		switch {
		case l.breaker.probe != nil:
			c.States["half_open"]++
		case l.breaker.open():
			c.States["open"]++
		}
	}
	return c
}
