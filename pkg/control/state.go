package control

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// errGap stops a node that would otherwise go on with a configuration that misses changes.
var errGap = errors.New("records of the configuration log are missing")

// state is the whole configuration after some record. It is immutable; a change is a new state that
// shares what did not change.
type state struct {
	seq  int64 // how many records led here, applied or refused; kept in snapshots, unlike offsets it survives a re-created topic
	sets [kinds]set
}

// set holds the entities of one kind.
//
// The tries are keyed by 64 bits of a hash. Two entities whose hashes agree in them would be one in a
// billion among 200,000, and the later one is refused: a rule that all nodes follow alike and that
// needs no chains.
type set struct {
	byID   trie[*entity] // living ones and tombstones, by FNV-1a of the id
	byHash trie[*entity] // living ones, by the first 8 bytes of the secret's hash
	bySeq  trie[*entity] // living ones, by Seq
	graves trie[*entity] // tombstones, by the sequence of the deletion
}

// entity is a value and its place, or the tombstone that remembers a deletion.
type entity struct {
	id      string
	seq     int64     // sequence of the record that created it: the order of lists
	rev     int64     // sequence of the record that changed it last
	deleted time.Time // of a tombstone
	value   value     // nil in a tombstone
}

// result says what became of a record.
type result uint8

const (
	applied  result = iota
	conflict        // its condition did not hold
	taken           // another entity has its hash, or the one account exists already
	invalid         // no valid record
)

func (r result) String() string {
	return [...]string{"applied", "conflict", "taken", "invalid"}[r]
}

// apply is the only way from one state to the next. It depends on nothing but its arguments, so every
// node decides every record alike. Its error means that this node must stop: records are missing before
// this one, or a newer program wrote it.
func apply(s *state, r record) (*state, result, error) {
	if r.V > recordVersion {
		return s, invalid, fmt.Errorf("record of version %d, this program knows %d: a newer one wrote it", r.V, recordVersion)
	}
	if r.SeqSeen > s.seq {
		return s, invalid, fmt.Errorf("%w: a writer had seen %d, here are %d", errGap, r.SeqSeen, s.seq)
	}
	next := *s
	next.seq++
	if r.fault != nil {
		return &next, invalid, nil
	}
	set := &next.sets[r.kind]
	old := set.living(r.ID)
	if !holds(r, old) {
		return &next, conflict, nil
	}
	switch r.Op {
	case opPut:
		return &next, set.put(r, old, next.seq), nil
	case opDelete:
		set.bury(old, next.seq, r.At)
		return &next, applied, nil
	default:
		return &next, invalid, nil
	}
}

func holds(r record, old *entity) bool {
	switch r.Pre {
	case preAbsent:
		return old == nil && r.Op == opPut
	case preExists:
		return old != nil
	case preRev:
		return old != nil && old.rev == r.Rev
	default:
		return false
	}
}

func (s *set) put(r record, old *entity, seq int64) result {
	if s.collides(r, old) {
		return taken
	}
	e := &entity{id: r.value.entityID(), seq: seq, rev: seq}
	if old != nil {
		e.seq = old.seq
		if h := old.value.secretHash(); h != nil {
			s.byHash = s.byHash.remove(prefix64(h))
		}
	}
	e.value = r.value.placed(e.rev, e.seq)
	s.insert(e)
	return applied
}

// insert puts a living entity into every index. A tombstone of the same id is forgotten.
func (s *set) insert(e *entity) {
	if grave, ok := s.byID.get(hash64(e.id)); ok && grave.value == nil {
		s.graves = s.graves.remove(uint64(grave.rev))
	}
	s.byID = s.byID.put(hash64(e.id), e)
	s.bySeq = s.bySeq.put(uint64(e.seq), e)
	if h := e.value.secretHash(); h != nil {
		s.byHash = s.byHash.put(prefix64(h), e)
	}
}

// collides keeps apart what must be unique: hashes of tokens and keys, the account, and the keys of the
// tries themselves.
func (s *set) collides(r record, old *entity) bool {
	if r.kind == kindAccount && old == nil && s.byID.len > 0 {
		return true
	}
	if other, ok := s.byID.get(hash64(r.ID)); ok && other.value != nil && other.id != r.ID {
		return true
	}
	h := r.value.secretHash()
	if h == nil {
		return false
	}
	other, ok := s.byHash.get(prefix64(h))
	return ok && other != old
}

// bury leaves a tombstone, so that "deleted" and "not heard of yet" can be told apart.
func (s *set) bury(old *entity, seq int64, at time.Time) {
	if h := old.value.secretHash(); h != nil {
		s.byHash = s.byHash.remove(prefix64(h))
	}
	s.bySeq = s.bySeq.remove(uint64(old.seq))
	s.addGrave(&entity{id: old.id, seq: old.seq, rev: seq, deleted: at})
}

func (s *set) addGrave(e *entity) {
	s.byID = s.byID.put(hash64(e.id), e)
	s.graves = s.graves.put(uint64(e.rev), e)
}

// find returns the entity or tombstone with that id, or nil.
func (s *set) find(id string) *entity {
	if e, ok := s.byID.get(hash64(id)); ok && e.id == id {
		return e
	}
	return nil
}

// living is find without the tombstones.
func (s *set) living(id string) *entity {
	if e := s.find(id); e != nil && e.value != nil {
		return e
	}
	return nil
}

// valueOf returns the value of a living entity, or nil.
func (s *state) valueOf(k kind, id string) value {
	if e := s.sets[k].living(id); e != nil {
		return e.value
	}
	return nil
}

// hashed returns the living entity whose secret has that hash, or nil. The caller compares the rest of
// the hash in constant time.
func (s *set) hashed(h []byte) *entity {
	e, _ := s.byHash.get(prefix64(h))
	return e
}

// newest is the living entity created last, or nil.
func (s *set) newest() *entity {
	for e := range s.bySeq.below(math.MaxUint64) {
		return e
	}
	return nil
}

func prefix64(hash []byte) uint64 { return binary.BigEndian.Uint64(hash) }

// hash64 is FNV-1a.
func hash64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
