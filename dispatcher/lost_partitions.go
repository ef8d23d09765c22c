package dispatcher

import "github.com/eventrelay/relay/pkg/stream"

// A broker that is away for longer than the session costs this node its membership, and what was done since
// the last commit, or was on its way to be recorded, could not be committed. When the partitions come back
// the node still knows what it has done itself: a record whose outcomes are acknowledged, and before them
// what continues it, needs nothing more, whoever had the partition meanwhile and whatever is committed. So
// it is skipped, and the next commit covers it. Only a record that was read then and has the offset and leader
// epoch of then is the same record.

// keep remembers partitions that were lost; they go on hearing of what is completed.
func (d *Dispatcher) rememberLost(parts []*partition) {
	d.mu.Lock()
	for _, p := range parts {
		d.lost[p.id] = p
	}
	d.mu.Unlock()
}

// forget is told of a partition whose log was cut off: other records have its offsets now.
func (d *Dispatcher) onTruncated(id stream.Partition) {
	d.mu.Lock()
	delete(d.lost, id)
	d.mu.Unlock()
}

// remember lets a partition that is assigned know what it knew before it was lost.
func (p *partition) inherit(before *partition) {
	before.mu.Lock()
	before.predecessor = nil // what it has not passed on by now is forgotten
	before.mu.Unlock()
	p.predecessor = before
}

// recall reports whether the record was done here before the partition was lost, and if so notes that it
// is. p.mu is held.
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
