package config

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// errGap stops a node that would otherwise go on with a configuration that misses changes.
var errGap = errors.New("records of the configuration log are missing")

// state is the whole configuration after some record. It is immutable; a change is a new state that
// shares what did not change.
type state struct {
	seq   int64 // how many records led here, applied or refused; kept in snapshots, unlike offsets it survives a re-created topic
	level int   // see level.go; 0 before the first record
	sets  [kinds]set
	// ops are the op_ids of the last records, as hashes: those since the last multiple of opWindow, and those of the
	// window before it.
	ops [2]trie[uint64]
}

// opWindow is how many records a record may come after what its writer had seen, many times what can be on its way.
const opWindow = 16_384

// repeated reports whether a record may have been in the log before: it was among the last, or its writer had not seen
// the last. So a record that somebody appends once more is refused, however old it is.
func (s *state) repeated(r record) bool {
	op := hash64(r.OpID)
	for _, known := range s.ops {
		if _, ok := known.get(op); ok {
			return true
		}
	}
	return s.seq-r.SeqSeen > opWindow
}

// remember notes the op_id of the record that led to the state.
func (s *state) remember(op string) {
	s.ops[0] = s.ops[0].put(hash64(op), hash64(op))
	if s.seq%opWindow == 0 {
		s.ops = [2]trie[uint64]{{}, s.ops[0]}
	}
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
	open   trie[*entity] // of these the ones that something is still to be done for
	graves trie[*entity] // tombstones, by the sequence of the deletion
	bytes  int64         // sizes of the living ones
}

// hashLen is the length of a SHA-256.
const hashLen = 32

// entity is a value and its place, or the tombstone that remembers a deletion. It never changes.
type entity struct {
	id      string
	kind    kind
	hash    [hashLen]byte  // of its secret; zero = none
	former  *[hashLen]byte // of the secret before it that is still good, for an ingest token; nil = none
	seq     int64          // sequence of the record that created it: the order of lists
	rev     int64          // sequence of the record that changed it last
	deleted int64          // unix milliseconds of the deletion, by the deleting node's clock
	size    int32          // of the value's JSON, by which bounds are judged
	open    bool           // something is still to be done for it; see openValue
	packed  []byte         // value; nil in a tombstone
}

// result says what became of a record.
type result uint8

const (
	applied  result = iota
	conflict        // its condition did not hold
	taken           // another entity has its hash, or the one account exists already
	invalid         // no valid record
	early           // of a kind above the level of the log
	full            // it goes beyond a bound; see exceeds
	repeated        // it was in the log before, or is too old to tell
)

func (r result) String() string {
	return [...]string{"applied", "conflict", "taken", "invalid", "early", "full", "repeated"}[r]
}

// apply is the only way from one state to the next. It depends on nothing but its arguments, so every
// node decides every record alike. Its error means that this node must stop: records are missing before
// this one, or a newer program wrote it.
func apply(s *state, r record) (*state, result, error) {
	if r.V > recordVersion {
		return s, invalid, fmt.Errorf("record of version %d, this program knows %d: a newer one wrote it", r.V, recordVersion)
	}
	if (s.seq == 0 || r.Op == opLevel) && r.Level > newestLevel {
		return s, invalid, fmt.Errorf("the configuration log is at level %d, this program knows %d: it is for a newer one", r.Level, newestLevel)
	}
	if r.SeqSeen > s.seq {
		return s, invalid, fmt.Errorf("%w: a writer had seen %d, here are %d", errGap, r.SeqSeen, s.seq)
	}
	next := *s
	next.seq++
	if s.seq == 0 {
		next.level = max(r.Level, baseLevel)
	}
	switch {
	case r.fault != nil:
		return &next, invalid, nil
	case s.repeated(r):
		return &next, repeated, nil
	}
	next.remember(r.OpID)
	switch {
	case r.Op == opLevel:
		return &next, next.raise(r.Level), nil
	case r.kind.level() > next.level, r.Op == opAdopt && kindTrail.level() > next.level: // one level has brought both
		return &next, early, nil
	}
	set := &next.sets[r.kind]
	old := set.living(r.ID)
	if !holds(r, old) {
		return &next, conflict, nil
	}
	if r.Op == opPut && s.exceeds(r.kind, old, int(r.size), r.Exempt) != nil {
		return &next, full, nil
	}
	res := applied
	switch r.Op {
	case opPut:
		res = set.put(r, old, next.seq)
	case opDelete:
		set.bury(old, next.seq, r.At)
	case opForget:
		set.remove(old)
	case opAdopt:
		if own := set.newest(); own != nil {
			set.remove(own)
		}
		res = set.put(r, nil, next.seq)
	case opTold:
		set.told(r.Rev)
	default:
		return &next, invalid, nil
	}
	if res == applied && r.note != nil && next.level >= kindTrail.level() {
		next.sets[kindTrail].insert(&entity{
			id: strconv.FormatInt(next.seq, 10), kind: kindTrail, seq: next.seq, rev: next.seq, packed: r.note, size: r.noteSize,
		})
	}
	return &next, res, nil
}

func holds(r record, old *entity) bool {
	switch r.Pre {
	case preAbsent:
		return old == nil && r.Op == opPut
	case preExists:
		return old != nil
	case preRev:
		return old != nil && old.rev == r.Rev
	case preNone:
		return r.Op == opTold || r.Op == opAdopt
	default:
		return false
	}
}

func (s *set) put(r record, old *entity, seq int64) result {
	if s.collides(r, old) {
		return taken
	}
	e := &entity{
		id: r.ID, kind: r.kind, hash: r.hash, former: r.former, seq: seq, rev: seq, packed: r.packed, size: r.size, open: r.open,
	}
	if old != nil {
		s.bytes -= int64(old.size)
		e.id, e.seq = old.id, old.seq
		s.removeHashes(old)
	}
	s.insert(e)
	return applied
}

// insert puts a living entity into every index. A tombstone of the same id is forgotten.
func (s *set) insert(e *entity) {
	if grave, ok := s.byID.get(hash64(e.id)); ok && grave.packed == nil {
		s.graves = s.graves.remove(uint64(grave.rev))
	}
	s.byID = s.byID.put(hash64(e.id), e)
	s.bySeq = s.bySeq.put(uint64(e.seq), e)
	s.bytes += int64(e.size)
	if e.open {
		s.open = s.open.put(uint64(e.seq), e)
	} else if s.open.len > 0 {
		s.open = s.open.remove(uint64(e.seq))
	}
	s.addHashes(e)
}

// collides keeps apart what must be unique: hashes of tokens and keys, the account, and the keys of the
// tries themselves.
func (s *set) collides(r record, old *entity) bool {
	if (r.kind == kindAccount || r.kind == kindLog) && old == nil && s.bySeq.len > 0 {
		return true
	}
	if other, ok := s.byID.get(hash64(r.ID)); ok && other.packed != nil && other.id != r.ID {
		return true
	}
	for _, h := range hashesOf(r.hash, r.former) {
		if other, ok := s.byHash.get(prefix64(h)); ok && other != old {
			return true
		}
	}
	return false
}

// graveLife is how long a tombstone is kept: longer than any event of the entity is.
const graveLife = 60 * 24 * time.Hour

// bury leaves a tombstone, so that "deleted" and "not heard of yet" can be told apart. Each burial lets
// go of at most two that are too old or too many, so that the time of one record is bounded and their number too.
// No condition looks at tombstones: it makes no difference to later records when one is let go.
func (s *set) bury(old *entity, seq int64, at time.Time) {
	for range 2 {
		grave, ok := s.graves.least()
		if ok && (at.UnixMilli()-grave.deleted > graveLife.Milliseconds() || s.graves.len >= maxTombstones) {
			s.graves = s.graves.remove(uint64(grave.rev))
			if e, _ := s.byID.get(hash64(grave.id)); e == grave {
				s.byID = s.byID.remove(hash64(grave.id))
			}
		}
	}
	s.remove(old)
	s.addGrave(&entity{id: old.id, kind: old.kind, seq: old.seq, rev: seq, deleted: at.UnixMilli()})
}

// remove takes a living entity out of every index.
func (s *set) remove(old *entity) {
	s.removeHashes(old)
	s.byID = s.byID.remove(hash64(old.id))
	s.bySeq = s.bySeq.remove(uint64(old.seq))
	s.open = s.open.remove(uint64(old.seq))
	s.bytes -= int64(old.size)
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
	if e := s.find(id); e != nil && e.packed != nil {
		return e
	}
	return nil
}

// newest is the living entity created last, or nil.
func (s *set) newest() *entity {
	for e := range s.bySeq.below(math.MaxUint64) {
		return e
	}
	return nil
}

func prefix64(hash [hashLen]byte) uint64 { return binary.BigEndian.Uint64(hash[:]) }

// hash64 is FNV-1a.
func hash64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
