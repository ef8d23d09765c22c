package limit

import (
	"math"
	"sync"
	"time"
)

const (
	// leaseSpan is how much of its rate a node leases at once; the next lease is asked for at half of it.
	leaseSpan = 500 * time.Millisecond
	// windowLead is how much earlier than the clock windows of leases begin, so that the first lease of a window
	// is there before the last one of the window before is spent.
	windowLead = leaseSpan / 2
	// answerWait is the wait for an answer that is under way.
	answerWait = 5 * time.Millisecond
	// recoverLevelFor is how old a bucket may be to be told what its last owner left: later it knows better.
	recoverLevelFor = time.Second
	// idleAfter is how long a full bucket must not be used before Run forgets about it.
	idleAfter = 2 * time.Second
)

// bucket is one node's token bucket. Two things must be there for a token to be taken: level, which grows
// by time and holds the rate whatever becomes of Redis, and rights, which grow by leases and hold the rate
// where several nodes draw from one bucket. A burst is level that was saved; its rights are saved with it.
type bucket struct {
	key string // in Redis

	mu      sync.Mutex // guards what follows
	rate    float64    // tokens a second
	burst   float64    // tokens at most
	level   float64
	levelAt time.Duration // when level was right
	leased  float64

	createdAt    time.Duration
	initialLevel float64 // the level it was made with
	levelKnown   bool    // that guess needs no correction any more
	period       int64   // of leasing in which rights are right; 0: none yet
	lastTake     time.Duration
	active       bool // Run knows of it

	window         int64         // in which the last lease was asked for
	windowGranted  bool          // something in that window
	starved        bool          // nothing in it or the one before, although it asked
	exhausted      bool          // that window gives nothing more
	nextWindowAt   time.Duration // when the next one begins, if closed
	reportedFullAt time.Duration // when the bucket is full, as Redis has heard
}

// take takes n tokens, or says how long it will be until they are there; of more than a burst, until the bucket is
// full. With period 0 it limits for itself. Left is what could be taken now; ask says that Run should not wait for its
// next round.
func (b *bucket) take(now time.Duration, period int64, n, rate, burst float64) (
	wait time.Duration, left float64, ask bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configureLocked(rate, burst)
	b.refillLocked(now)
	left = b.level
	if period != 0 {
		b.startPeriodLocked(period)
		left = min(left, b.leased)
	}
	b.lastTake = now
	need := min(n, burst)
	switch {
	case left >= need:
		b.level -= n
		b.leased -= n
		return 0, left - n, !b.active
	case period != 0 && !b.levelKnown:
		return answerWait, left, true // its level is not known yet either
	case period == 0 || b.leased >= need:
		return b.waitForLocked(need), left, !b.active
	case b.exhausted && b.nextWindowAt > now:
		return max(b.nextWindowAt-now+answerWait, b.waitForLocked(need)), left, !b.active
	default:
		return max(answerWait, b.waitForLocked(need)), left, true
	}
}

// waitForLocked is the time until the level is reached.
func (b *bucket) waitForLocked(level float64) time.Duration {
	return max(seconds((level-b.level)/b.rate), time.Millisecond)
}

func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s * float64(time.Second))) }

// configureLocked follows a change of the limit. What was saved beyond a smaller burst goes with the next
// refill; that the window of the old rate gives no more says nothing of the new one.
func (b *bucket) configureLocked(rate, burst float64) {
	if rate != b.rate || burst != b.burst {
		b.rate, b.burst, b.exhausted = rate, burst, false
	}
}

// refillLocked adds what time has brought. A clock that steps back brings nothing and is believed from
// there on; one that steps forward brings a burst at most.
func (b *bucket) refillLocked(now time.Duration) {
	passed := max(0, now-b.levelAt)
	b.level, b.levelAt = min(b.burst, b.level+passed.Seconds()*b.rate), now
}

// startPeriodLocked begins to count rights when leases begin, or begin again: what the bucket holds was earned
// and is its own, and no more than that.
func (b *bucket) startPeriodLocked(period int64) {
	if b.period == period {
		return
	}
	b.period, b.leased, b.exhausted = period, b.level, false
	b.reportedFullAt = 0
}

// leaseRequest is what Run wants to know or say of a bucket.
type leaseRequest struct {
	bucket            *bucket
	window            int64
	milliTokens       int64         // thousandths of a token to lease; 0: none
	windowMilliTokens int64         // what the window gives to all nodes, likewise
	counterTTL        time.Duration // of the window's counter
	wantLevel         bool          // how full did the last owner leave it?
	fullIn            time.Duration // from now: when it is full, to be said; 0: not said
}

// nextRequest decides what to ask, at a time on Redis' clock. Retired says that the bucket rests: it is full and
// unused, and Run need not look at it until it is taken from again.
func (b *bucket) nextRequest(now time.Duration, wall time.Duration, period int64) (a leaseRequest, retired bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(now)
	if now-b.lastTake >= idleAfter && b.level >= b.burst && (period == 0 || b.leased >= b.burst) {
		b.active = false
		return leaseRequest{}, true
	}
	if period == 0 {
		return leaseRequest{}, false
	}
	b.startPeriodLocked(period)
	a.bucket = b
	if !b.levelKnown {
		a.wantLevel = now-b.createdAt < recoverLevelFor
		b.levelKnown = !a.wantLevel
	}
	b.leaseLocked(&a, now, wall)
	if full := now + b.untilFullLocked(); a.milliTokens > 0 && full-b.reportedFullAt > leaseSpan/2 || full-b.reportedFullAt > leaseSpan {
		a.fullIn = full - now
		b.reportedFullAt = full
	}
	return a, false
}

// finalRequest is what is left to say when this node stops.
func (b *bucket) finalRequest(now time.Duration) leaseRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(now)
	return leaseRequest{bucket: b, fullIn: b.untilFullLocked()}
}

func (b *bucket) untilFullLocked() time.Duration { return seconds((b.burst - b.level) / b.rate) }

// leaseLocked asks for half a second's worth when half of the last one is spent.
func (b *bucket) leaseLocked(a *leaseRequest, now, wall time.Duration) {
	amount := max(b.rate*leaseSpan.Seconds(), 1)
	if b.leased >= b.level+amount/2 {
		return
	}
	length, early := max(time.Second, seconds(1/b.rate)), windowLead
	if b.starved {
		early += windowLead / 2 // others were always first: now it is this node's turn
	}
	a.window = int64((wall + early) / length)
	if a.window != b.window {
		b.windowGranted = false
	} else if b.exhausted {
		return
	}
	begins := time.Duration(a.window+1)*length - windowLead
	b.window, b.exhausted, b.nextWindowAt = a.window, false, now+begins-wall
	a.milliTokens = int64(min(amount, b.level+amount*3/2-b.leased) * 1000)
	a.windowMilliTokens = int64(math.Round(b.rate * length.Seconds() * 1000))
	a.counterTTL = length + 2*time.Second
}

// addGranted adds what a lease has given: total is what all nodes have asked of the window so far.
func (b *bucket) addGranted(a leaseRequest, total int64) (granted int64) {
	granted = max(0, min(a.milliTokens, a.windowMilliTokens-(total-a.milliTokens)))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leased += float64(granted) / 1000
	b.windowGranted = b.windowGranted || granted > 0
	b.starved = !b.windowGranted
	if b.window == a.window && granted < a.milliTokens {
		b.exhausted = true
	}
	return granted
}

// correctLevel replaces the level that the bucket was made with by the one its last owner left, as Redis tells
// by the time until it is full.
func (b *bucket) correctLevel(untilFull time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.levelKnown {
		return
	}
	b.levelKnown = true
	left := max(0, b.burst-max(0, untilFull.Seconds())*b.rate)
	b.level = min(b.burst, b.level+left-b.initialLevel)
	b.leased += left - b.initialLevel
}
