package lane

import (
	"container/heap"
	"context"
	"math"
	"time"
)

const (
	// nearToken is how far away a token may be for work to wait for it in its lane.
	nearToken = 2 * time.Second
	// longestRest is how long a lane waits for a token until it looks again whether the rate is still the same.
	longestRest = time.Second
	// longestSleep bounds how long the alarm trusts that the clock goes on as it did.
	longestSleep = 10 * time.Second
	// longestBacklog is longer than any payload is kept.
	longestBacklog = 10 * 365 * 24 * time.Hour
	// SavedTokens is how much of a rate may be saved whatever its burst: on a busy machine no timer is more
	// exact, and what a lane could not send because it was woken late must not be lost.
	SavedTokens = 100 * time.Millisecond
)

// rest is a lane's wait for a token. It is guarded by lanes.mu.
type rest struct {
	until time.Time // zero: it does not wait
	at    int       // in lanes.resting, from 1; 0: not there
	rate  float64   // tokens a second, when it waited last
	fits  int       // how much may wait in the lane
}

func (r *rest) resting(now time.Time) bool {
	left := r.until.Sub(now)
	return left > 0 && left <= longestRest // else the clock was set back
}

// backlog is how long so much work needs, at most what can be told.
func (r *rest) backlog(parked int) time.Duration {
	if r.rate <= 0 {
		return 0
	}
	return time.Duration(min(float64(parked)/r.rate, longestBacklog.Seconds()) * float64(time.Second))
}

// rest lets the lane wait for a token.
func (ls *Lanes) rest(l *Lane, wait time.Duration, rate float64, now time.Time) {
	r := &l.rest
	r.until, r.rate = now.Add(min(wait, longestRest)), rate
	r.fits = max(1, int(math.Min(rate*nearToken.Seconds(), laneQueue)))
	if r.at == 0 {
		heap.Push(&ls.resting, l)
	} else {
		heap.Fix(&ls.resting, r.at-1)
	}
	if r.at == 1 {
		ls.ring()
	}
}

// ring makes Run look at the lanes that wait.
func (ls *Lanes) ring() {
	select {
	case ls.rang <- struct{}{}:
	default:
	}
}

// rouse lets go on the lanes whose time has come, and returns how long until the next one's has.
func (ls *Lanes) rouse() time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	for len(ls.resting) > 0 {
		l := ls.resting[0]
		if l.rest.resting(now) {
			return l.rest.until.Sub(now)
		}
		heap.Pop(&ls.resting)
		l.rest.until = time.Time{}
		ls.staff(l, 1)
	}
	return longestSleep
}

// Run wakes lanes that wait for a token, until ctx ends.
func (ls *Lanes) Run(ctx context.Context) {
	t := time.NewTimer(longestSleep)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-ls.rang:
		}
		t.Reset(ls.rouse())
	}
}

// restingLanes orders lanes by when their wait ends.
type restingLanes []*Lane

func (h restingLanes) Len() int           { return len(h) }
func (h restingLanes) Less(i, k int) bool { return h[i].rest.until.Before(h[k].rest.until) }
func (h restingLanes) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].rest.at, h[k].rest.at = i+1, k+1
}

// Push is called by heap.
func (h *restingLanes) Push(x any) {
	l := x.(*Lane)
	*h = append(*h, l)
	l.rest.at = len(*h)
}

// Pop is called by heap.
func (h *restingLanes) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.rest.at = 0
	return l
}
