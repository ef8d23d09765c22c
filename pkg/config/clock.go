package config

import (
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// trusted is how far this node's clock may be from the broker's before it is corrected.
const trusted = 2 * time.Second

// clockBeats is how many heartbeats are remembered: of ten seconds.
const clockBeats = 20

// brokerClock is what own heartbeats tell of the broker's clock.
type brokerClock struct {
	known chan struct{} // closed by the first one
	once  sync.Once
	said  []time.Duration // what the last ones said is to be added; only for the goroutine that hears them
}

// Now is the time by this node's clock, put right when it is more than 2 s away from the broker's: work passes
// from node to node, and a time that one of them wrote must mean the same to the next. A time that was put
// right is behind the broker's by as long as the fastest of the last heartbeats took, never ahead of it. With
// a broker that does not tell its time it is this node's.
func (c *Control) Now() time.Time { return c.now().Add(time.Duration(c.correction.Load())) }

// ClockKnown is closed once the broker's clock was heard of, so that Now can be trusted.
func (c *Control) ClockKnown() <-chan struct{} { return c.clock.known }

// heardTime takes an own heartbeat: sent and heard are times by this node's clock.
func (c *Control) heardTime(r *stream.Record, sent, heard time.Time) {
	if r.Attrs.TimestampType() == logAppendTime {
		skew := clockSkew(sent, r.Timestamp, heard)
		c.skew.Store(int64(skew))
		c.correction.Store(int64(c.clock.correct(skew, r.Timestamp, heard)))
	}
	c.clock.once.Do(func() { close(c.clock.known) })
}

// correct is what to add to this node's time after a heartbeat that says it is skew away. Each heartbeat says
// too little by its own way back; the one with the shortest is the nearest to the truth.
func (b *brokerClock) correct(skew time.Duration, appended, heard time.Time) time.Duration {
	if skew.Abs() <= trusted {
		b.said = nil
		return 0
	}
	says := appended.Sub(heard)
	if len(b.said) > 0 && (says-slices.Max(b.said)).Abs() > trusted {
		b.said = nil // somebody set one of the clocks
	}
	b.said = append(b.said, says)
	b.said = b.said[max(0, len(b.said)-clockBeats):]
	return slices.Max(b.said)
}
