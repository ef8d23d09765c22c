package limit

import (
	"math"
	"sync"
	"time"
)

const (
	// leaseFor is how much of its rate a node leases at once; the next lease is asked for at half of it.
	leaseFor = 500 * time.Millisecond
	// lead is how much earlier than the clock windows of leases begin, so that the first lease of a window
	// is there before the last one of the window before is spent.
	lead = leaseFor / 2
	// soon is the wait for an answer that is under way.
	soon = 5 * time.Millisecond
	// askedAnew is how old a bucket may be to be told what its last owner left: later it knows better.
	askedAnew = time.Second
	// idle is how long a full bucket must not be used before Run forgets about it.
	idle = 2 * time.Second
)

// bucket is one node's token bucket. Two things must be there for a token to be taken: level, which grows
// by time and holds the rate whatever becomes of Redis, and rights, which grow by leases and hold the rate
// where several nodes draw from one bucket. A burst is level that was saved; its rights are saved with it.
type bucket struct {
	key string // in Redis

	mu     sync.Mutex // guards what follows
	rate   float64    // tokens a second
	burst  float64    // tokens at most
	level  float64
	at     time.Duration // when level was right
	rights float64

	made   time.Duration
	guess  float64 // the level it was made with
	known  bool    // that guess needs no correction any more
	period int64   // of leasing in which rights are right; 0: none yet
	taken  time.Duration
	active bool // Run knows of it

	window  int64         // in which the last lease was asked for
	got     bool          // something in that window
	starved bool          // nothing in it or the one before, although it asked
	closed  bool          // that window gives nothing more
	opens   time.Duration // when the next one begins, if closed
	full    time.Duration // when the bucket is full, as Redis has heard
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
		b.joinLocked(period)
		left = min(left, b.rights)
	}
	b.taken = now
	need := min(n, burst)
	switch {
	case left >= need:
		b.level -= n
		b.rights -= n
		return 0, left - n, !b.active
	case period != 0 && !b.known:
		return soon, left, true // its level is not known yet either
	case period == 0 || b.rights >= need:
		return b.untilLocked(need), left, !b.active
	case b.closed && b.opens > now:
		return max(b.opens-now+soon, b.untilLocked(need)), left, !b.active
	default:
		return max(soon, b.untilLocked(need)), left, true
	}
}

// untilLocked is the time until the level is reached.
func (b *bucket) untilLocked(level float64) time.Duration {
	return max(seconds((level-b.level)/b.rate), time.Millisecond)
}

func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s * float64(time.Second))) }

// configureLocked follows a change of the limit. What was saved beyond a smaller burst goes with the next
// refill; that the window of the old rate gives no more says nothing of the new one.
func (b *bucket) configureLocked(rate, burst float64) {
	if rate != b.rate || burst != b.burst {
		b.rate, b.burst, b.closed = rate, burst, false
	}
}

// refillLocked adds what time has brought. A clock that steps back brings nothing and is believed from
// there on; one that steps forward brings a burst at most.
func (b *bucket) refillLocked(now time.Duration) {
	passed := max(0, now-b.at)
	b.level, b.at = min(b.burst, b.level+passed.Seconds()*b.rate), now
}

// joinLocked begins to count rights when leases begin, or begin again: what the bucket holds was earned
// and is its own, and no more than that.
func (b *bucket) joinLocked(period int64) {
	if b.period == period {
		return
	}
	b.period, b.rights, b.closed = period, b.level, false
	b.full = 0
}

// ask is what Run wants to know or say of a bucket.
type ask struct {
	bucket *bucket
	window int64
	milli  int64         // thousandths of a token to lease; 0: none
	most   int64         // what the window gives to all nodes, likewise
	life   time.Duration // of the window's counter
	past   bool          // how full did the last owner leave it?
	full   time.Duration // from now: when it is full, to be said; 0: not said
}

// plan decides what to ask, at a time on Redis' clock. Retired says that the bucket rests: it is full and
// unused, and Run need not look at it until it is taken from again.
func (b *bucket) plan(now time.Duration, wall time.Duration, period int64) (a ask, retired bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(now)
	if now-b.taken >= idle && b.level >= b.burst && (period == 0 || b.rights >= b.burst) {
		b.active = false
		return ask{}, true
	}
	if period == 0 {
		return ask{}, false
	}
	b.joinLocked(period)
	a.bucket = b
	if !b.known {
		a.past = now-b.made < askedAnew
		b.known = !a.past
	}
	b.leaseLocked(&a, now, wall)
	if full := now + b.untilFullLocked(); a.milli > 0 && full-b.full > leaseFor/2 || full-b.full > leaseFor {
		a.full = full - now
		b.full = full
	}
	return a, false
}

// leave is what is left to say when this node stops.
func (b *bucket) leave(now time.Duration) ask {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(now)
	return ask{bucket: b, full: b.untilFullLocked()}
}

func (b *bucket) untilFullLocked() time.Duration { return seconds((b.burst - b.level) / b.rate) }

// leaseLocked asks for half a second's worth when half of the last one is spent.
func (b *bucket) leaseLocked(a *ask, now, wall time.Duration) {
	amount := max(b.rate*leaseFor.Seconds(), 1)
	if b.rights >= b.level+amount/2 {
		return
	}
	length, early := max(time.Second, seconds(1/b.rate)), lead
	if b.starved {
		early += lead / 2 // others were always first: now it is this node's turn
	}
	a.window = int64((wall + early) / length)
	if a.window != b.window {
		b.got = false
	} else if b.closed {
		return
	}
	begins := time.Duration(a.window+1)*length - lead
	b.window, b.closed, b.opens = a.window, false, now+begins-wall
	a.milli = int64(min(amount, b.level+amount*3/2-b.rights) * 1000)
	a.most = int64(math.Round(b.rate * length.Seconds() * 1000))
	a.life = length + 2*time.Second
}

// grant adds what a lease has given: total is what all nodes have asked of the window so far.
func (b *bucket) grant(a ask, total int64) (granted int64) {
	granted = max(0, min(a.milli, a.most-(total-a.milli)))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rights += float64(granted) / 1000
	b.got = b.got || granted > 0
	b.starved = !b.got
	if b.window == a.window && granted < a.milli {
		b.closed = true
	}
	return granted
}

// correct replaces the level that the bucket was made with by the one its last owner left, as Redis tells
// by the time until it is full.
func (b *bucket) correct(untilFull time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known {
		return
	}
	b.known = true
	left := max(0, b.burst-max(0, untilFull.Seconds())*b.rate)
	b.level = min(b.burst, b.level+left-b.guess)
	b.rights += left - b.guess
}
