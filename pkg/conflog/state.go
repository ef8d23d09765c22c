package conflog

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// errGap stops a node that would otherwise go on with a configuration that misses changes.
var errGap = errors.New("records of the configuration log are missing")

// state is the whole configuration after some record. It is immutable; a change is a new state that
// shares what did not change.
type state struct {
	// how many records led here, applied or refused; kept in snapshots, unlike offsets it survives a re-created topic
	seq   int64
	level int // see level.go; 0 before the first record
	kinds *kinds
	sets  []*set // by Kind; a set that a record changes is replaced by a copy
	// ops are the op_ids of the last records, as hashes: those since the last multiple of opWindow, and those of the
	// window before it.
	ops [2]trie[uint64]
}

// newState is the state before the first record.
func newState(ks *kinds) *state {
	s := &state{kinds: ks, sets: make([]*set, len(ks.infos))}
	for k := range s.sets {
		s.sets[k] = &set{}
	}
	return s
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
func (s *state) rememberOp(op string) {
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
	byID       trie[*Entity] // living ones and tombstones, by FNV-1a of the id
	byHash     trie[*Entity] // living ones, by the first 8 bytes of the secret's hash
	bySeq      trie[*Entity] // living ones, by Seq
	pending    trie[*Entity] // of these the ones that something is still to be done for
	tombstones trie[*Entity] // by the sequence of the deletion
	bytes      int64         // sizes of the living ones
}

// Entity is a value and its place, or the tombstone that remembers a deletion. It never changes.
type Entity struct {
	ID         string
	Kind       Kind
	Hash       [HashLen]byte  // of its secret; zero = none
	FormerHash *[HashLen]byte // of the secret before it that is still good; nil = none
	Seq        int64          // sequence of the record that created it: the order of lists
	Rev        int64          // sequence of the record that changed it last
	Pending    bool           // see Index.Open

	deletedAt int64  // unix milliseconds of the deletion, by the deleting node's clock
	size      int32  // of the value's JSON, by which bounds are judged
	packed    []byte // value; nil in a tombstone
}

// Living reports whether the entity is no tombstone.
func (e *Entity) Living() bool { return e.packed != nil }

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
	if (s.seq == 0 || r.Op == opLevel) && r.Level > s.kinds.newestLevel {
		return s, invalid, errNewer(r.Level, s.kinds.newestLevel)
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
	next.rememberOp(r.OpID)
	switch {
	case r.Op == opLevel:
		return &next, next.raiseLevel(r.Level), nil
	case s.kinds.infos[r.kind].Level > next.level:
		return &next, early, nil
	}
	old := s.sets[r.kind].findLiving(r.ID)
	if !preconditionHolds(r, old) {
		return &next, conflict, nil
	}
	if r.Op == opPut && s.checkBounds(r.kind, old, int(r.size), r.Exempt) != nil {
		return &next, full, nil
	}
	next.sets = slices.Clone(s.sets)
	res := next.applyOp(r, old)
	if res == applied && r.outboxEntry != nil {
		next.ownSet(KindOutbox).insert(&Entity{
			ID: strconv.FormatInt(next.seq, 10), Kind: KindOutbox, Seq: next.seq, Rev: next.seq, packed: r.outboxEntry,
			size: r.outboxEntrySize,
		})
	}
	return &next, res, nil
}

// edit returns a copy of a set that stands in its place from here on; the sets themselves must be the state's own.
func (s *state) ownSet(k Kind) *set {
	own := *s.sets[k]
	s.sets[k] = &own
	return &own
}

// change does to its set what a record asks for.
func (s *state) applyOp(r record, old *Entity) result {
	set := s.ownSet(r.kind)
	switch r.Op {
	case opPut:
		return set.put(r, old, s.seq, s.kinds.infos[r.kind].Singleton)
	case opDelete:
		set.delete(old, s.seq, r.At)
	case opForget:
		set.remove(old)
	case opAdopt:
		if own := set.newest(); own != nil {
			set.remove(own)
		}
		return set.put(r, nil, s.seq, true)
	case opCopied:
		set.removeUpTo(r.Rev)
	default:
		return invalid
	}
	return applied
}

func preconditionHolds(r record, old *Entity) bool {
	switch r.Pre {
	case preAbsent:
		return old == nil && r.Op == opPut
	case preExists:
		return old != nil
	case preRev:
		return old != nil && old.Rev == r.Rev
	case preNone:
		return r.Op == opCopied || r.Op == opAdopt
	default:
		return false
	}
}

func (s *set) put(r record, old *Entity, seq int64, sole bool) result {
	if sole && old == nil && s.bySeq.len > 0 || s.collides(r, old) {
		return taken
	}
	e := &Entity{
		ID: r.ID, Kind: r.kind, Hash: r.index.Hash, FormerHash: r.index.FormerHash, Seq: seq, Rev: seq,
		Pending: r.index.Pending,
		packed:  r.packed, size: r.size,
	}
	if old != nil {
		s.bytes -= int64(old.size)
		e.ID, e.Seq = old.ID, old.Seq
		s.removeHashes(old)
	}
	s.insert(e)
	return applied
}

// insert puts a living entity into every index. A tombstone of the same id is forgotten.
func (s *set) insert(e *Entity) {
	if tombstone, ok := s.byID.get(hash64(e.ID)); ok && tombstone.packed == nil {
		s.tombstones = s.tombstones.remove(uint64(tombstone.Rev))
	}
	s.byID = s.byID.put(hash64(e.ID), e)
	s.bySeq = s.bySeq.put(uint64(e.Seq), e)
	s.bytes += int64(e.size)
	if e.Pending {
		s.pending = s.pending.put(uint64(e.Seq), e)
	} else if s.pending.len > 0 {
		s.pending = s.pending.remove(uint64(e.Seq))
	}
	s.addHashes(e)
}

// collides keeps apart what must be unique: hashes of tokens and keys, and the keys of the tries themselves.
func (s *set) collides(r record, old *Entity) bool {
	if other, ok := s.byID.get(hash64(r.ID)); ok && other.packed != nil && other.ID != r.ID {
		return true
	}
	for _, h := range hashesOf(r.index.Hash, r.index.FormerHash) {
		if other, ok := s.byHash.get(prefix64(h)); ok && other != old {
			return true
		}
	}
	return false
}

// tombstoneLife is how long a tombstone is kept: longer than any event of the entity is.
const tombstoneLife = 60 * 24 * time.Hour

// delete leaves a tombstone, so that "deleted" and "not heard of yet" can be told apart. Each deletion lets
// go of at most two that are too old or too many, so that the time of one record is bounded and their number too.
// No condition looks at tombstones: it makes no difference to later records when one is let go.
func (s *set) delete(old *Entity, seq int64, at time.Time) {
	for range 2 {
		tombstone, ok := s.tombstones.least()
		if ok && (at.UnixMilli()-tombstone.deletedAt > tombstoneLife.Milliseconds() || s.tombstones.len >= maxTombstones) {
			s.tombstones = s.tombstones.remove(uint64(tombstone.Rev))
			if e, _ := s.byID.get(hash64(tombstone.ID)); e == tombstone {
				s.byID = s.byID.remove(hash64(tombstone.ID))
			}
		}
	}
	s.remove(old)
	s.addTombstone(&Entity{ID: old.ID, Kind: old.Kind, Seq: old.Seq, Rev: seq, deletedAt: at.UnixMilli()})
}

// remove takes a living entity out of every index.
func (s *set) remove(old *Entity) {
	s.removeHashes(old)
	s.byID = s.byID.remove(hash64(old.ID))
	s.bySeq = s.bySeq.remove(uint64(old.Seq))
	s.pending = s.pending.remove(uint64(old.Seq))
	s.bytes -= int64(old.size)
}

func (s *set) addTombstone(e *Entity) {
	s.byID = s.byID.put(hash64(e.ID), e)
	s.tombstones = s.tombstones.put(uint64(e.Rev), e)
}

// find returns the entity or tombstone with that id, or nil.
func (s *set) find(id string) *Entity {
	if e, ok := s.byID.get(hash64(id)); ok && e.ID == id {
		return e
	}
	return nil
}

// living is find without the tombstones.
func (s *set) findLiving(id string) *Entity {
	if e := s.find(id); e != nil && e.packed != nil {
		return e
	}
	return nil
}

// newest is the living entity created last, or nil.
func (s *set) newest() *Entity {
	for e := range s.bySeq.below(math.MaxUint64) {
		return e
	}
	return nil
}

func prefix64(hash [HashLen]byte) uint64 { return binary.BigEndian.Uint64(hash[:]) }

// hash64 is FNV-1a.
func hash64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// hashesOf are those by which an entity with these secrets is found.
func hashesOf(hash [HashLen]byte, former *[HashLen]byte) (all [][HashLen]byte) {
	if hash != [HashLen]byte{} {
		all = append(all, hash)
	}
	if former != nil {
		all = append(all, *former)
	}
	return all
}

// addHashes lets an entity be found by its secrets.
func (s *set) addHashes(e *Entity) {
	for _, h := range hashesOf(e.Hash, e.FormerHash) {
		s.byHash = s.byHash.put(prefix64(h), e)
	}
}

// removeHashes is the reverse of addHashes.
func (s *set) removeHashes(e *Entity) {
	for _, h := range hashesOf(e.Hash, e.FormerHash) {
		s.byHash = s.byHash.remove(prefix64(h))
	}
}

// hashed returns the living entity whose secret has that hash, or nil. What the trie found by the first
// bytes is compared in constant time.
func (s *set) findByHash(h [HashLen]byte) *Entity {
	e, ok := s.byHash.get(prefix64(h))
	switch {
	case !ok:
		return nil
	case subtle.ConstantTimeCompare(e.Hash[:], h[:]) == 1,
		e.FormerHash != nil && subtle.ConstantTimeCompare(e.FormerHash[:], h[:]) == 1:
		return e
	}
	return nil
}
