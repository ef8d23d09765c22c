package lane

import (
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// minTierTime is the least time that a record spends in a tier when the clocks of broker and node disagree. It bounds
// the retry passes of one record to two a second.
const minTierTime = 500 * time.Millisecond

// Slack is how much later than due a delivery may run: max(1 s, 5 %) of its wait.
func Slack(wait time.Duration) time.Duration { return max(time.Second, wait/20) }

// TierFor chooses the retry topic for a delivery that is due after wait: the shortest delay that covers wait within
// Slack, else the longest that does not exceed it, from where the delivery moves on, else the shortest of all.
func TierFor(tiers []stream.Tier, wait time.Duration) stream.Tier {
	longest := tiers[0]
	for _, t := range tiers {
		if t.Delay >= wait && t.Delay-wait <= Slack(wait) {
			return t
		}
		if t.Delay <= wait {
			longest = t
		}
	}
	return longest
}

// ReadyAt is when a record leaves its tier: when it is due, if that is within this tier, else when its time in the
// tier is over and it moves on to the next one.
//
// A node holds a bounded number of records of a tier and releases them in order of ReadyAt. A later record is read when
// there is room. All records before it leave at the latest when its own time in the tier is over, so it is late by no
// more than the slack of its tier. The append time may come from another clock. It can shorten the wait to minTierTime
// after the record was first seen, and never lengthen it beyond the delay of the tier.
func ReadyAt(due, appended, seen time.Time, delay time.Duration) time.Time {
	tierEnd := appended.Add(delay)
	if due.After(tierEnd) {
		if first := seen.Add(min(minTierTime, delay)); tierEnd.Before(first) {
			tierEnd = first
		}
		due = Earlier(due, tierEnd)
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
