package leak

import (
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/finding"
)

// A sender may have as many findings as a third of what the account may still have, or a sixth for findings below high.
// So one sender gets at most a quarter of all, another one after it still gets a share, and findings that are easily
// made up do not displace severe ones. Both bounds, MaxFindings and MaxOutstandingFindings, are shared like this.
const (
	shareOfSevere = 3
	shareOfMinor  = 6
)

// senderCounts are the numbers of findings by hashOfSender.
type senderCounts struct {
	at               time.Time
	sequence         int64 // of the view
	all, outstanding map[uint32]int
}

// senderCountsAge is how old the counts may be while the configuration changes.
const senderCountsAge = time.Second

// OutstandingFindings returns the number of findings that are neither resolved nor ignored.
func (c Findings) OutstandingFindings() int { return c.View().PendingLen(entity.KindFinding) }

// RemainingFindings returns how many new findings of a severity a sender may open. It counts findings of the last
// second only in part. A sender asks before it produces hits of new findings: apply refuses more than
// MaxOutstandingFindings and MaxFindings.
func (c Findings) RemainingFindings(sender string, severity finding.Severity) int {
	share := shareOfSevere
	if severity < finding.High {
		share = shareOfMinor
	}
	counts, hash, v := c.countSenders(), hashOfSender(sender), c.View()
	remaining := func(most, used, own int) int { return max(0, (most-used)/share-own) }
	return min(remaining(MaxOutstandingFindings, v.PendingLen(entity.KindFinding), counts.outstanding[hash]),
		remaining(MaxFindings, v.Len(entity.KindFinding), counts.all[hash]))
}

// countSenders counts the findings of all senders, at most once a second: it walks over all findings.
func (c Findings) countSenders() *senderCounts {
	v, now := c.View(), c.Now()
	old := c.senders.Load()
	if old != nil && (old.sequence == v.Sequence() || now.Sub(old.at).Abs() < senderCountsAge) {
		return old
	}
	n := &senderCounts{at: now, sequence: v.Sequence(), all: map[uint32]int{}, outstanding: map[uint32]int{}}
	for e := range v.NewestFirst(entity.KindFinding, 0) {
		sender := uint32(e.Attributes >> attrSender)
		n.all[sender]++
		if e.Pending {
			n.outstanding[sender]++
		}
	}
	c.senders.Store(n)
	return n
}
