package dispatcher

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/eventrelay/relay/pkg/stream"
)

// assignment is which partitions this node has, and which it had until it lost them.
type assignment struct {
	mu         sync.RWMutex // guards the fields below
	partitions map[stream.Partition]*partition
	lost       map[stream.Partition]*partition // lost, and not assigned again since

	added   atomic.Bool // partitions were added since the timer looked
	placing sync.Mutex  // held from when a record counts as read until its place in an order is known
}

func newAssignment() *assignment {
	return &assignment{
		partitions: make(map[stream.Partition]*partition), lost: make(map[stream.Partition]*partition),
	}
}

// add adds newly assigned partitions. Those that were lost before inherit what they knew, unless another node has
// committed meanwhile in a partition of the same number.
func (a *assignment) add(parts []*partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	foreign := make(map[int32]bool)
	for _, p := range parts {
		if before := a.lost[p.id]; before != nil && !before.hasCommitted(p.commits[0]) {
			foreign[p.id.Index] = true
		}
	}
	for _, p := range parts {
		if before := a.lost[p.id]; before != nil && !foreign[p.id.Index] {
			p.inherit(before)
		}
		a.partitions[p.id] = p
	}
	clear(a.lost) // an assignment after a loss names all partitions of this node
	a.added.Store(true)
}

// remove removes partitions, unless they were assigned again since.
func (a *assignment) remove(parts []*partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range parts {
		if a.partitions[p.id] == p {
			delete(a.partitions, p.id)
		}
	}
}

// partition returns the partition if it is assigned, else nil.
func (a *assignment) partition(id stream.Partition) *partition {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.partitions[id]
}

// named returns the assigned partitions among ids.
func (a *assignment) named(ids []stream.Partition) []*partition {
	var parts []*partition
	for _, id := range ids {
		if p := a.partition(id); p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// all returns the partitions that are assigned now.
func (a *assignment) all() []*partition {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.AppendSeq(make([]*partition, 0, len(a.partitions)), maps.Values(a.partitions))
}

// When brokers are unreachable for longer than the session timeout, this node loses its membership. Then it cannot
// commit what it has done since the last commit. When the partitions return, the node still knows which records it has
// finished: their follow-ups and outcomes are acknowledged, so they need nothing more. They are skipped, and the next
// commit covers them. A record is the same one only if its offset and its leader epoch are the same. A copy that has
// ended without an outcome is read again.
//
// This holds only while no other owner has committed anything: it may have read such a record, which is a copy of its
// follow-up then, and ended the follow-up as the copy. Then nothing would be left of the delivery if the record were
// skipped.

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

// placedTo is the offset below which the places of all records are known to the lanes.
func (a *assignment) placedTo(p *partition) int64 {
	a.placing.Lock()
	defer a.placing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tracker.next
}
