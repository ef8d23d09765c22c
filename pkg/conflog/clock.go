package conflog

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// maxTrustedSkew is how far this node's clock may differ from the broker's before Now corrects it.
const maxTrustedSkew = 2 * time.Second

// clockSamples is how many heartbeats the correction is computed from: those of the last ten seconds.
const clockSamples = 20

// clock is this node's clock, corrected by the broker's timestamps of this node's own heartbeats.
type clock struct {
	now  func() time.Time
	wall func() time.Time // now without the monotonic clock, which stops while a machine sleeps
	skew atomic.Int64     // see ClockSkew, in nanoseconds
	// correction is added to this node's time, in nanoseconds; see Now.
	correction atomic.Int64
	known      chan struct{} // closed when this node has read its own first heartbeat
	once       sync.Once
	offsets    []time.Duration // correction according to each of the last heartbeats; used by one goroutine only
}

func newClock(now func() time.Time) *clock {
	c := &clock{now: now, known: make(chan struct{})}
	c.wall = func() time.Time { return c.now().Round(0) }
	return c
}

// Now returns this node's time, corrected when it differs from the broker's by more than 2 s: deliveries move between
// nodes, and a time that one node wrote must mean the same to the next. A corrected time is never ahead of the
// broker's; it is behind by the latency of the fastest of the last heartbeats. When the broker does not set timestamps
// (CreateTime), Now returns this node's time.
func (c *clock) Now() time.Time { return c.now().Add(time.Duration(c.correction.Load())) }

// ClockKnown returns a channel that is closed when this node has read its own first heartbeat. From then on Now is
// corrected.
func (c *clock) ClockKnown() <-chan struct{} { return c.known }

// ClockSkew returns how far the broker's clock is ahead of this node's. It is a lower bound, which the send and receive
// times of a heartbeat prove.
func (c *clock) ClockSkew() time.Duration { return time.Duration(c.skew.Load()) }

// observe evaluates one of this node's own heartbeats. sent and at are the times at which it was sent and received, by
// this node's clock.
func (c *clock) observe(r *stream.Record, sent, at time.Time) {
	if r.Attrs.TimestampType() == logAppendTime {
		skew := clockSkew(sent, r.Timestamp, at)
		c.skew.Store(int64(skew))
		c.correction.Store(int64(c.nextCorrection(skew, r.Timestamp, at)))
	}
	c.once.Do(func() { close(c.known) })
}

// logAppendTime is the timestamp type of records whose timestamp the broker set (Kafka: message.timestamp.type). The
// embedded engine never sets one; it runs on this machine's clock.
const logAppendTime = 1

// clockSkew returns by how much the append time of the broker lies outside the interval from sent to received.
func clockSkew(sent, appended, received time.Time) time.Duration {
	switch {
	case appended.Before(sent):
		return appended.Sub(sent)
	case appended.After(received):
		return appended.Sub(received)
	default:
		return 0
	}
}

// nextCorrection returns what to add to this node's time after a heartbeat with that skew. Each heartbeat
// underestimates the offset by the latency of its own delivery, so the largest estimate is the best.
func (c *clock) nextCorrection(skew time.Duration, appended, received time.Time) time.Duration {
	if skew.Abs() <= maxTrustedSkew {
		c.offsets = nil
		return 0
	}
	offset := appended.Sub(received)
	if len(c.offsets) > 0 && (offset-slices.Max(c.offsets)).Abs() > maxTrustedSkew {
		c.offsets = nil // one of the clocks was set
	}
	c.offsets = append(c.offsets, offset)
	c.offsets = c.offsets[max(0, len(c.offsets)-clockSamples):]
	return slices.Max(c.offsets)
}
