package dispatcher

import (
	"container/heap"
	"context"
	"math"
	"time"

	"github.com/eventrelay/relay/pkg/control"
)

const (
	// nearToken is how far away a token may be for work to wait for it in its lane.
	nearToken = 2 * time.Second
	// longestRest is how long a lane waits for a token until it looks again whether the rate is still the same.
	longestRest = time.Second
	// savedTokens is how much of a rate may be saved whatever its burst: on a busy machine no timer is more
	// exact, and what a lane could not send because it was woken late must not be lost.
	savedTokens = 100 * time.Millisecond
)

// Pacer holds the rates of destinations.
type Pacer interface {
	// Take asks for one token of key's bucket. 0: it was taken. Otherwise nothing was taken, and the result is
	// the wait until one is likely there. It does no I/O and never fails.
	Take(key string, perSecond float64, burst int) time.Duration
}

// take asks for a token for one attempt and returns the wait for it, 0 when the attempt may be made.
func (d *Dispatcher) take(l *lane, dest *control.Destination) time.Duration {
	limit := dest.RateLimit
	if limit == nil || d.pacer == nil {
		return 0
	}
	burst := max(limit.Burst, int(limit.PerSecond*savedTokens.Seconds()))
	wait := d.pacer.Take(dest.ID, limit.PerSecond, burst)
	if wait == 0 {
		d.lanes.reinforce(l)
	}
	return wait
}

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
	return seconds(float64(parked) / r.rate)
}

// rest lets the lane wait for a token.
func (ls *lanes) rest(l *lane, wait time.Duration, rate float64, now time.Time) {
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

// ring makes the alarm look at the lanes that wait.
func (ls *lanes) ring() {
	select {
	case ls.rang <- struct{}{}:
	default:
	}
}

// rouse lets go on the lanes whose time has come, and returns how long until the next one's has.
func (ls *lanes) rouse() time.Duration {
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

// alarm wakes lanes that wait for a token, until ctx ends.
func (d *Dispatcher) alarm(ctx context.Context) {
	t := time.NewTimer(longestSleep)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-d.lanes.rang:
		}
		t.Reset(d.lanes.rouse())
	}
}

// restingLanes orders lanes by when their wait ends.
type restingLanes []*lane

func (h restingLanes) Len() int           { return len(h) }
func (h restingLanes) Less(i, k int) bool { return h[i].rest.until.Before(h[k].rest.until) }
func (h restingLanes) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].rest.at, h[k].rest.at = i+1, k+1
}

// Push is called by heap.
func (h *restingLanes) Push(x any) {
	l := x.(*lane)
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
