package conflog

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// trusted is how far this node's clock may be from the broker's before it is corrected.
const maxTrustedSkew = 2 * time.Second

// clockSamples is how many heartbeats are remembered: of ten seconds.
const clockSamples = 20

// clock is this node's, and what own heartbeats tell of the broker's.
type clock struct {
	now  func() time.Time
	wall func() time.Time // now without the monotonic clock, which stands still while a machine sleeps
	skew atomic.Int64     // see ClockSkew, in nanoseconds
	// correction is added to this node's time, in nanoseconds; see Now.
	correction atomic.Int64
	known      chan struct{} // closed by the first heartbeat
	once       sync.Once
	offsets    []time.Duration // what the last ones said is to be added; only for the goroutine that hears them
}

func newClock(now func() time.Time) *clock {
	c := &clock{now: now, known: make(chan struct{})}
	c.wall = func() time.Time { return c.now().Round(0) }
	return c
}

// Now is the time by this node's clock, put right when it is more than 2 s away from the broker's: work passes
// from node to node, and a time that one of them wrote must mean the same to the next. A time that was put
// right is behind the broker's by as long as the fastest of the last heartbeats took, never ahead of it. With
// a broker that does not tell its time it is this node's.
func (c *clock) Now() time.Time { return c.now().Add(time.Duration(c.correction.Load())) }

// ClockKnown is closed once the broker's clock was heard of, so that Now can be trusted.
func (c *clock) ClockKnown() <-chan struct{} { return c.known }

// ClockSkew is how far the broker's clock is ahead of this node's, as far as the way of a heartbeat
// there and back proves it.
func (c *clock) ClockSkew() time.Duration { return time.Duration(c.skew.Load()) }

// heard takes an own heartbeat: sent and at are times by this node's clock.
func (c *clock) observe(r *stream.Record, sent, at time.Time) {
	if r.Attrs.TimestampType() == logAppendTime {
		skew := clockSkew(sent, r.Timestamp, at)
		c.skew.Store(int64(skew))
		c.correction.Store(int64(c.nextCorrection(skew, r.Timestamp, at)))
	}
	c.once.Do(func() { close(c.known) })
}

// logAppendTime marks a record whose timestamp the broker set. The embedded engine never does; it has
// this machine's clock.
const logAppendTime = 1

func clockSkew(sent, appended, heard time.Time) time.Duration {
	switch {
	case appended.Before(sent):
		return appended.Sub(sent)
	case appended.After(heard):
		return appended.Sub(heard)
	default:
		return 0
	}
}

// correct is what to add to this node's time after a heartbeat that says it is skew away. Each heartbeat says
// too little by its own way back; the one with the shortest is the nearest to the truth.
func (c *clock) nextCorrection(skew time.Duration, appended, heard time.Time) time.Duration {
	if skew.Abs() <= maxTrustedSkew {
		c.offsets = nil
		return 0
	}
	says := appended.Sub(heard)
	if len(c.offsets) > 0 && (says-slices.Max(c.offsets)).Abs() > maxTrustedSkew {
		c.offsets = nil // somebody set one of the clocks
	}
	c.offsets = append(c.offsets, says)
	c.offsets = c.offsets[max(0, len(c.offsets)-clockSamples):]
	return slices.Max(c.offsets)
}
