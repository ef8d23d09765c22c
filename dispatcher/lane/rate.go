package lane

import (
	"container/heap"
	"context"
	"math"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// maxQueuedWait bounds how long deliveries wait for a token in their lane; the others are parked.
	maxQueuedWait = 2 * time.Second
	// maxTokenWait is after how long a waiting lane asks again, in case its rate has changed.
	maxTokenWait = time.Second
	// maxSleep bounds how late Run notices that the clock was changed.
	maxSleep = 10 * time.Second
	// maxBacklog bounds a computed backlog; no payload is kept that long.
	maxBacklog = 10 * 365 * 24 * time.Hour
	// MinBurst is the least capacity of a bucket, as the time in which its rate fills it. On a busy machine timers are
	// late by up to that. Tokens of that time must not be lost to a lane that wakes late.
	MinBurst = 100 * time.Millisecond
)

// takeToken asks for a token for one attempt and returns the wait for it, 0 when the attempt may be made.
func (l *Lane) takeToken(dest *config.Destination) time.Duration {
	ls, limit := l.lanes, dest.RateLimit
	if limit == nil || ls.limiter == nil {
		return 0
	}
	burst := max(limit.Burst, int(limit.PerSecond*MinBurst.Seconds()))
	wait := ls.limiter.TakeToken(dest.ID, limit.PerSecond, burst)
	if wait == 0 { // there may be a second token for another worker
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if !l.token.waiting(ls.now()) {
			l.startWorkers(1)
		}
	}
	return wait
}

// tokenWait is a lane's wait for a token. It is guarded by Lanes.mu.
type tokenWait struct {
	until        time.Time // zero: it does not wait
	heapPosition int       // in Lanes.waitingForToken, from 1; 0: not in it
	perSecond    float64   // tokens a second, at the last wait
	maxQueued    int       // how many deliveries may wait in the lane
}

func (t *tokenWait) waiting(now time.Time) bool {
	left := t.until.Sub(now)
	return left > 0 && left <= maxTokenWait // else the clock was set back
}

// backlog is how long that many parked deliveries take at the last rate, at most maxBacklog; 0 if no rate is known.
func (t *tokenWait) backlog(parked int) time.Duration {
	if t.perSecond <= 0 {
		return 0
	}
	return time.Duration(min(float64(parked)/t.perSecond, maxBacklog.Seconds()) * float64(time.Second))
}

// waitForToken makes the lane wait. Run ends the wait.
func (l *Lane) waitForToken(pause time.Duration, rate float64, now time.Time) {
	ls, t := l.lanes, &l.token
	t.until, t.perSecond = now.Add(min(pause, maxTokenWait)), rate
	t.maxQueued = max(1, int(math.Min(rate*maxQueuedWait.Seconds(), laneQueue)))
	if t.heapPosition == 0 {
		heap.Push(&ls.waitingForToken, l)
	} else {
		heap.Fix(&ls.waitingForToken, t.heapPosition-1)
	}
	if t.heapPosition == 1 {
		wait.Wake(ls.waitChanged)
	}
}

// Run wakes lanes that wait for a token and removes lanes that are no longer needed, until ctx ends.
func (ls *Lanes) Run(ctx context.Context) {
	t := time.NewTimer(maxSleep)
	defer t.Stop()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ls.sweep()
			continue
		case <-t.C:
		case <-ls.waitChanged:
		}
		t.Reset(ls.wakeWaitingLanes())
	}
}

// wakeWaitingLanes starts workers of lanes whose wait is over, and returns how long the next lane waits.
func (ls *Lanes) wakeWaitingLanes() time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for len(ls.waitingForToken) > 0 {
		l := ls.waitingForToken[0]
		if l.token.waiting(now) {
			return l.token.until.Sub(now)
		}
		heap.Pop(&ls.waitingForToken)
		l.token.until = time.Time{}
		l.startWorkers(1)
	}
	return maxSleep
}

// waitingLanes orders lanes by when their wait ends.
type waitingLanes []*Lane

func (h waitingLanes) Len() int           { return len(h) }
func (h waitingLanes) Less(i, k int) bool { return h[i].token.until.Before(h[k].token.until) }
func (h waitingLanes) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].token.heapPosition, h[k].token.heapPosition = i+1, k+1
}

// Push implements heap.Interface.
func (h *waitingLanes) Push(x any) {
	l := x.(*Lane)
	*h = append(*h, l)
	l.token.heapPosition = len(*h)
}

// Pop implements heap.Interface.
func (h *waitingLanes) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.token.heapPosition = 0
	return l
}
