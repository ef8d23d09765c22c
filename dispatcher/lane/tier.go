package lane

import (
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// minTierTime bounds how often one record can hop when the clocks of broker and nodes disagree: twice a second.
const minTierTime = 500 * time.Millisecond

// Slack is how much later than due work may run: max(1 s, 5 %) of the wait.
func Slack(wait time.Duration) time.Duration { return max(time.Second, wait/20) }

// TierFor chooses the retry topic for work that is due after rest: the shortest that covers it
// within the slack, else the longest that does not exceed it, from which it hops on.
func TierFor(tiers []stream.Tier, rest time.Duration) stream.Tier {
	longest := tiers[0]
	for _, t := range tiers {
		if t.Delay >= rest && t.Delay-rest <= Slack(rest) {
			return t
		}
		if t.Delay <= rest {
			longest = t
		}
	}
	return longest
}

// ReadyAt is when a record leaves its tier: when it is due, if that is in reach of this
// tier, else when its time in the tier is over and it hops to the next.
//
// Of those that a node holds, the one that is ready first comes first. One that is not read yet waits for those
// before it, at most until its own time in the tier is over: within the slack by which its tier was chosen.
// The append time may come from another clock: it can shorten the wait to minTierTime after the record was first
// seen and never lengthen it beyond the tier's delay.
func ReadyAt(due, appended, seen time.Time, delay time.Duration) time.Time {
	over := appended.Add(delay)
	if due.After(over) {
		if first := seen.Add(min(minTierTime, delay)); over.Before(first) {
			over = first
		}
		due = Earlier(due, over)
	}
	return Earlier(due, seen.Add(delay))
}

// Earlier is the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
