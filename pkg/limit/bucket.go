package limit

import (
	"math"
	"sync"
	"time"
)

const (
	// leaseSpan is for how long the tokens of one lease last at the full rate. A node requests the next lease when half of
	// them are spent.
	leaseSpan = 500 * time.Millisecond
	// windowLead is how much earlier than Redis' clock the lease windows begin, so that the first lease of a window
	// arrives before the last one of the window before is spent.
	windowLead = leaseSpan / 2
	// answerWait is how long a caller waits for a running exchange with Redis.
	answerWait = 5 * time.Millisecond
	// recoverLevelFor is the age up to which a bucket takes over the level that its last owner left in Redis. The level of
	// an older bucket is more exact.
	recoverLevelFor = time.Second
	// idleAfter is how long a full bucket must be unused before Run stops visiting it.
	idleAfter = 2 * time.Second
)

// bucket is one node's token bucket. Each token is taken from both level and leased. level is refilled with time and
// enforces the rate even without Redis. leased tokens come from Redis and enforce the rate if several nodes draw from
// one bucket. Tokens that are saved for a burst stay in both.
type bucket struct {
	key string // of the bucket in Redis

	mu      sync.Mutex // guards what follows
	rate    float64    // tokens a second
	burst   float64    // tokens at most
	level   float64    // tokens at levelAt
	levelAt time.Duration
	leased  float64 // leased tokens that were not taken yet

	createdAt    time.Duration
	initialLevel float64 // the level at createdAt
	levelKnown   bool    // initialLevel needs no correction any more
	period       int64   // the lease period that leased belongs to; 0 = none yet
	lastTake     time.Duration
	active       bool // Run visits it each round

	window         int64         // of the last lease request
	windowGranted  bool          // that window granted tokens
	starved        bool          // that window granted no tokens, although this node requested some
	exhausted      bool          // that window has no tokens left
	nextWindowAt   time.Duration // if exhausted
	reportedFullAt time.Duration // when the bucket will be full, as last written to Redis
}

// take takes n tokens, or returns how long to wait for them. If n exceeds burst, the bucket must be full, and its level
// falls below zero. With period 0 the node limits for itself. left is the number of tokens that remain; wake says that
// Run should start a round at once.
func (b *bucket) take(now time.Duration, period int64, n, rate, burst float64) (
	wait time.Duration, left float64, wake bool) {
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
		return answerWait, left, true // the level that the last owner left is not known yet
	case period == 0 || b.leased >= need:
		return b.waitForLocked(need), left, !b.active
	case b.exhausted && b.nextWindowAt > now:
		return max(b.nextWindowAt-now+answerWait, b.waitForLocked(need)), left, !b.active
	default:
		return max(answerWait, b.waitForLocked(need)), left, true
	}
}

// waitForLocked returns the time until the level is reached, at least 1 ms.
func (b *bucket) waitForLocked(level float64) time.Duration {
	return max(seconds((level-b.level)/b.rate), time.Millisecond)
}

func seconds(s float64) time.Duration { return time.Duration(math.Ceil(s * float64(time.Second))) }

// configureLocked adopts a changed limit. Tokens beyond a smaller burst are dropped by the next refill. A window that
// was exhausted at the old rate may have tokens at the new one.
func (b *bucket) configureLocked(rate, burst float64) {
	if rate != b.rate || burst != b.burst {
		b.rate, b.burst, b.exhausted = rate, burst, false
	}
}

// refillLocked adds the tokens for the time that has passed. If the clock steps back, it adds none and goes on from the
// new time; if it steps forward, it adds a burst at most.
func (b *bucket) refillLocked(now time.Duration) {
	passed := max(0, now-b.levelAt)
	b.level, b.levelAt = min(b.burst, b.level+passed.Seconds()*b.rate), now
}

// startPeriodLocked starts a new lease period: as many tokens count as leased as the level has.
func (b *bucket) startPeriodLocked(period int64) {
	if b.period == period {
		return
	}
	b.period, b.leased, b.exhausted = period, b.level, false
	b.reportedFullAt = 0
}

// leaseRequest is what Run exchanges with Redis for one bucket.
type leaseRequest struct {
	bucket            *bucket
	window            int64
	milliTokens       int64         // to lease, in thousandths of a token; 0 = none
	windowMilliTokens int64         // tokens of the window for all nodes, in thousandths
	counterTTL        time.Duration // of the window's counter
	wantLevel         bool          // read the level that the last owner left
	fullIn            time.Duration // time until the bucket is full, to be written; 0 = not written
}

// nextRequest decides what to exchange for the bucket; wall is the time on Redis' clock since 1970. retired means that
// the bucket is full and unused: Run need not visit it until a token is taken.
func (b *bucket) nextRequest(now time.Duration, wall time.Duration, period int64) (r leaseRequest, retired bool) {
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
	r.bucket = b
	if !b.levelKnown {
		r.wantLevel = now-b.createdAt < recoverLevelFor
		b.levelKnown = !r.wantLevel
	}
	b.leaseLocked(&r, now, wall)
	if full := now + b.untilFullLocked(); r.milliTokens > 0 && full-b.reportedFullAt > leaseSpan/2 ||
		full-b.reportedFullAt > leaseSpan {
		r.fullIn = full - now
		b.reportedFullAt = full
	}
	return r, false
}

// finalRequest writes the level to Redis when this node stops.
func (b *bucket) finalRequest(now time.Duration) leaseRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refillLocked(now)
	return leaseRequest{bucket: b, fullIn: b.untilFullLocked()}
}

func (b *bucket) untilFullLocked() time.Duration { return seconds((b.burst - b.level) / b.rate) }

// leaseLocked requests tokens for leaseSpan when half of the last lease is spent.
func (b *bucket) leaseLocked(r *leaseRequest, now, wall time.Duration) {
	amount := max(b.rate*leaseSpan.Seconds(), 1)
	if b.leased >= b.level+amount/2 {
		return
	}
	length, early := max(time.Second, seconds(1/b.rate)), windowLead
	if b.starved {
		early += windowLead / 2 // other nodes took all tokens of the last window: request earlier than they do
	}
	r.window = int64((wall + early) / length)
	if r.window != b.window {
		b.windowGranted = false
	} else if b.exhausted {
		return
	}
	nextBegins := time.Duration(r.window+1)*length - windowLead
	b.window, b.exhausted, b.nextWindowAt = r.window, false, now+nextBegins-wall
	r.milliTokens = int64(min(amount, b.level+amount*3/2-b.leased) * 1000)
	r.windowMilliTokens = int64(math.Round(b.rate * length.Seconds() * 1000))
	r.counterTTL = length + 2*time.Second
}

// addGranted adds the tokens that a lease granted. total is what all nodes have requested of the window so far.
func (b *bucket) addGranted(r leaseRequest, total int64) (granted int64) {
	granted = max(0, min(r.milliTokens, r.windowMilliTokens-(total-r.milliTokens)))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leased += float64(granted) / 1000
	b.windowGranted = b.windowGranted || granted > 0
	b.starved = !b.windowGranted
	if b.window == r.window && granted < r.milliTokens {
		b.exhausted = true
	}
	return granted
}

// correctLevel replaces the bucket's initial level by the one that its last owner left. Redis has it as the time until
// the bucket is full.
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
