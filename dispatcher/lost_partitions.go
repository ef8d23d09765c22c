package dispatcher

import "github.com/eventrelay/relay/pkg/stream"

// When brokers are unreachable for longer than the session timeout, this node loses its membership. Then it cannot
// commit what it has done since the last commit. When the partitions return, the node still knows which records it has
// finished: their follow-ups and outcomes are acknowledged, so they need nothing more, whoever owned the partition
// meanwhile and whatever is committed. They are skipped, and the next commit covers them. A record is the same one only
// if its offset and its leader epoch are the same.

// rememberLost keeps lost partitions. They still count deliveries that complete.
func (a *assignment) rememberLost(parts []*partition) {
	a.mu.Lock()
	for _, p := range parts {
		a.lost[p.id] = p
	}
	a.mu.Unlock()
}

// forgetLost forgets a lost partition whose log was truncated: other records have its offsets now.
func (a *assignment) forgetLost(id stream.Partition) {
	a.mu.Lock()
	delete(a.lost, id)
	a.mu.Unlock()
}

// inherit lets a newly assigned partition use what its predecessor knew when it was lost.
func (p *partition) inherit(predecessor *partition) {
	predecessor.mu.Lock()
	predecessor.predecessor = nil // only the last assignment is remembered
	predecessor.mu.Unlock()
	p.predecessor = predecessor
}

// doneBefore reports whether this node had finished the record before the partition was lost, and if so marks it as
// done. p.mu is held.
func (p *partition) doneBefore(offset int64, leaderEpoch int32) bool {
	if p.predecessor == nil {
		return false
	}
	p.predecessor.mu.Lock()
	known, last := p.predecessor.tracker.wasDone(offset, leaderEpoch), offset+1 >= p.predecessor.tracker.next
	p.predecessor.mu.Unlock()
	if last {
		p.predecessor = nil
	}
	if known {
		p.tracker.done(offset)
	}
	return known
}
