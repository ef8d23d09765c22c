package write

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
)

// assignment is one assignment of a partition to this writer. Its fields are guarded by positions.mu.
type assignment struct {
	stream.Partition
	readTo           int64     // offset: every record below it has been read
	flushedTo        int64     // offset: every record below it is stored or in a running flush
	storedTo         int64     // offset: every record below it is stored
	storedRecordTime time.Time // timestamp of the last stored record; zero before the first
	revoked          bool      // it is being revoked: no more records are added
}

// positions holds the partitions that a loader owns, how far each was read and stored, and the offsets that readers
// wait for.
type positions struct {
	mu    sync.Mutex // guards all fields and those of the assignments
	owned map[stream.Partition]*assignment
	// offsets that readers wait for and that no running flush covers
	wanted map[stream.Partition]int64
	// offsets up to which readers wait for records to be read; announce says that some were since the last announceRead
	unread      map[stream.Partition]int64
	announce    bool
	uncommitted map[*assignment]partitionEnd // stored and not committed yet
	failing     map[int]bool                 // shards whose last insert failed
	changed     *broadcast                   // when storedTo or failing changes, or what readers wait for was read
}

func newPositions(changed *broadcast) *positions {
	return &positions{
		owned: make(map[stream.Partition]*assignment), wanted: make(map[stream.Partition]int64),
		unread: make(map[stream.Partition]int64), uncommitted: make(map[*assignment]partitionEnd),
		failing: make(map[int]bool), changed: changed,
	}
}

// assign adds the partitions at their committed offsets; a partition without one begins at 0.
func (s *positions) assign(commits map[stream.Partition]stream.Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, commit := range commits {
		from := max(commit.Offset, 0)
		s.owned[p] = &assignment{Partition: p, readTo: from, flushedTo: from, storedTo: from}
	}
	s.changed.notify()
}

// revoke stops adding records of the partitions and returns their assignments.
func (s *positions) revoke(ps []stream.Partition) map[*assignment]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	revoked := make(map[*assignment]bool)
	for _, p := range ps {
		if a := s.owned[p]; a != nil {
			a.revoked = true
			revoked[a] = true
		}
	}
	return revoked
}

// remove deletes assignments after revoke.
func (s *positions) remove(revoked map[*assignment]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range revoked {
		if s.owned[a.Partition] == a {
			delete(s.owned, a.Partition)
			delete(s.unread, a.Partition)
		}
	}
	s.changed.notify()
}

// advance records that a partition has been read up to next. It returns its assignment, nil if this writer does not own
// it any more, and whether readers wait for something and all of it has been read.
func (s *positions) advance(p stream.Partition, next int64) (*assignment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.owned[p]
	if a == nil || a.revoked {
		return nil, false
	}
	a.readTo = next
	if end, waited := s.unread[p]; waited && next >= end {
		delete(s.unread, p)
		s.announce = true
	}
	return a, s.readAllLocked()
}

// waitFor records the offsets that a reader waits for. It reports whether there are any that no flush covers, and
// whether readers wait for something in owned partitions and all of it has been read.
func (s *positions) waitFor(targets map[stream.Partition]int64) (awaited, allRead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, offset := range targets {
		if a := s.owned[p]; a != nil && a.flushedTo < offset {
			s.wanted[p], awaited = max(s.wanted[p], offset), true
		}
	}
	return awaited, s.readAllLocked()
}

// readAllLocked reports whether readers wait for something and all of it has been read. It removes the offsets that a
// flush covers and those of partitions that were revoked.
func (s *positions) readAllLocked() bool {
	for p, offset := range s.wanted {
		a := s.owned[p]
		if a == nil || a.flushedTo >= offset {
			delete(s.wanted, p)
		} else if a.readTo < offset {
			return false
		}
	}
	return len(s.wanted) > 0
}

// readerWaits reports whether a reader waits for records that have not been read yet.
func (s *positions) readerWaits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, offset := range s.wanted {
		if a := s.owned[p]; a != nil && a.readTo < offset {
			return true
		}
	}
	return len(s.unread) > 0
}

// waitRead reports whether this writer owns all of the partitions, and whether it has read all records below the
// offsets. If not, it records that a reader waits for them.
func (s *positions) waitRead(offsets map[stream.Partition]int64) (owned, read bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read = true
	for p, offset := range offsets {
		a := s.owned[p]
		if a == nil || a.revoked {
			return false, false
		}
		read = read && a.readTo >= offset
	}
	if read {
		return true, true
	}
	for p, offset := range offsets {
		if s.owned[p].readTo < offset {
			s.unread[p] = max(s.unread[p], offset)
		}
	}
	return true, false
}

// announceRead wakes the readers that wait for records to be read, if some of them were.
func (s *positions) announceRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.announce {
		s.announce = false
		s.changed.notify()
	}
}

// markFlushing records that a flush has begun with everything read so far: a reader that waits for it needs no other
// one.
func (s *positions) markFlushing(ends map[*assignment]partitionEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range ends {
		a.flushedTo = a.readTo
	}
	s.readAllLocked() // removes the wanted offsets that this flush covers
}

// markStored records that the rows of a batch are stored, so that readers see them.
func (s *positions) markStored(ends map[*assignment]partitionEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, m := range ends {
		a.storedTo, a.storedRecordTime = m.Offset, m.lastRecordAt
	}
	s.changed.notify()
}

// markComplete records that nothing of a stored batch is left to do; its offsets are to be committed.
func (s *positions) markComplete(ends map[*assignment]partitionEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, m := range ends {
		s.uncommitted[a] = m
	}
}

// takeUncommitted removes and returns the offsets that are to be committed.
func (s *positions) takeUncommitted() map[*assignment]partitionEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	uncommitted := s.uncommitted
	s.uncommitted = make(map[*assignment]partitionEnd)
	return uncommitted
}

// putBackUncommitted puts back offsets that could not be committed, unless newer ones have been added.
func (s *positions) putBackUncommitted(ends map[*assignment]partitionEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, m := range ends {
		if _, newer := s.uncommitted[a]; !newer && s.owned[a.Partition] == a {
			s.uncommitted[a] = m
		}
	}
}

// setFailing records whether inserts into a shard fail, and reports whether that changed.
func (s *positions) setFailing(shard int, failing bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing[shard] == failing {
		return false
	}
	if failing {
		s.failing[shard] = true
	} else {
		delete(s.failing, shard)
	}
	s.changed.notify()
	return true
}

// failingShards returns the shards into which inserts fail.
func (s *positions) failingShards() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.failing))
}

// committable returns the ends of the partitions that this writer still owns.
func (s *positions) committable(ends map[*assignment]partitionEnd) map[stream.Partition]stream.Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[stream.Partition]stream.Commit, len(ends))
	for a, m := range ends {
		if s.owned[a.Partition] == a {
			out[a.Partition] = m.Commit
		}
	}
	return out
}

func (s *positions) progress() map[stream.Partition]store.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	owned := make(map[stream.Partition]store.Position, len(s.owned))
	for p, a := range s.owned {
		owned[p] = store.Position{Offset: a.storedTo, RecordTime: a.storedRecordTime, Failing: len(s.failing) > 0}
	}
	return owned
}

// broadcast wakes all who wait for a change.
type broadcast struct {
	mu      sync.Mutex // guards changed
	changed chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{changed: make(chan struct{})} }

// wait returns a channel that the next notify closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}
