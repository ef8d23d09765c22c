package write

import (
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
)

// place is one assignment of a partition to this writer. Its fields are guarded by positions.mu.
type place struct {
	stream.Partition
	next     int64     // everything below has been read
	taken    int64     // everything below is in ClickHouse or on its way there
	stored   int64     // everything below is in ClickHouse
	storedAt time.Time // of the last record that is; zero before the first
	leaving  bool      // it is being revoked: nothing more is taken in
}

// positions knows which partitions this writer owns, how far each was read and stored, and what readers
// are waiting for.
type positions struct {
	mu    sync.Mutex // guards all below and the places
	owned map[stream.Partition]*place
	// Readers wait for these offsets, and nothing is on its way to ClickHouse that has them.
	wanted  map[stream.Partition]int64
	owed    map[*place]mark // stored, and not committed
	failing map[int]bool    // shards whose last insert failed: waiting is in vain
	changed chan struct{}   // closed when stored or failing changes
}

func newPositions() *positions {
	return &positions{
		owned: make(map[stream.Partition]*place), wanted: make(map[stream.Partition]int64), owed: make(map[*place]mark),
		failing: make(map[int]bool), changed: make(chan struct{}),
	}
}

// assign begins the partitions at their committed offsets; a partition without one begins at 0.
func (s *positions) assign(marks map[stream.Partition]stream.Commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, m := range marks {
		from := max(m.Offset, 0)
		s.owned[p] = &place{Partition: p, next: from, taken: from, stored: from}
	}
	s.announceLocked()
}

// leave stops the intake of the partitions and returns their places.
func (s *positions) leave(ps []stream.Partition) map[*place]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	leaving := make(map[*place]bool)
	for _, p := range ps {
		if at := s.owned[p]; at != nil {
			at.leaving = true
			leaving[at] = true
		}
	}
	return leaving
}

// forget removes places after leave.
func (s *positions) forget(places map[*place]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range places {
		if s.owned[at.Partition] == at {
			delete(s.owned, at.Partition)
		}
	}
	s.announceLocked()
}

// advance notes that a partition has been read up to next. It returns its place, nil when it is not ours
// any more, and whether all that readers want has now been read.
func (s *positions) advance(p stream.Partition, next int64) (*place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.owned[p]
	if at == nil || at.leaving {
		return nil, false
	}
	at.next = next
	return at, s.readAllLocked()
}

// want notes what readers wait for, unless it is on its way, and reports whether all of it that is ours has been read.
func (s *positions) want(targets map[stream.Partition]int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, offset := range targets {
		if at := s.owned[p]; at != nil && at.taken < offset {
			s.wanted[p] = max(s.wanted[p], offset)
		}
	}
	return s.readAllLocked()
}

// readAllLocked reports whether something is wanted and every wanted record has been read.
func (s *positions) readAllLocked() bool {
	for p, offset := range s.wanted {
		at := s.owned[p]
		if at == nil || at.taken >= offset {
			delete(s.wanted, p)
		} else if at.next < offset {
			return false
		}
	}
	return len(s.wanted) > 0
}

// awaited reports whether a reader waits for records that were not read yet.
func (s *positions) awaited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, offset := range s.wanted {
		if at := s.owned[p]; at != nil && at.next < offset {
			return true
		}
	}
	return false
}

// take notes that all that was read of these places is on its way: a reader who waits for it causes no other flush.
func (s *positions) take(marks map[*place]mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range marks {
		at.taken = at.next
	}
	s.readAllLocked() // clears what is on its way
}

// store notes that a batch is in ClickHouse, and is to be committed.
func (s *positions) store(marks map[*place]mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, m := range marks {
		at.stored, at.storedAt = m.Offset, m.at
		s.owed[at] = m
	}
	s.announceLocked()
}

// takeOwed returns what is to be committed and forgets it.
func (s *positions) takeOwed() map[*place]mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	owed := s.owed
	s.owed = make(map[*place]mark)
	return owed
}

// owe puts back what could not be committed, unless there is newer by now.
func (s *positions) owe(marks map[*place]mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, m := range marks {
		if _, newer := s.owed[at]; !newer && s.owned[at.Partition] == at {
			s.owed[at] = m
		}
	}
}

// setFailing reports whether that is news, and how many shards are failing now.
func (s *positions) setFailing(shard int, failing bool) (news bool, now int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing[shard] == failing {
		return false, len(s.failing)
	}
	if failing {
		s.failing[shard] = true
	} else {
		delete(s.failing, shard)
	}
	s.announceLocked()
	return true, len(s.failing)
}

// commitable are the marks of partitions that this member still owns.
func (s *positions) commitable(marks map[*place]mark) map[stream.Partition]stream.Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[stream.Partition]stream.Commit, len(marks))
	for at, m := range marks {
		if s.owned[at.Partition] == at {
			out[at.Partition] = m.Commit
		}
	}
	return out
}

func (s *positions) progress() store.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := store.Progress{Failing: len(s.failing) > 0, Changed: s.changed}
	p.Owned = make(map[stream.Partition]store.Position, len(s.owned))
	for name, at := range s.owned {
		p.Owned[name] = store.Position{Offset: at.stored, RecordTime: at.storedAt}
	}
	return p
}

func (s *positions) announceLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}
