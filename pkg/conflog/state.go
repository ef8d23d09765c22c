package conflog

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/conflog/trie"
)

// errGap stops a node that would otherwise continue with a configuration that lacks changes.
var errGap = errors.New("records of the configuration log are missing")

// state is the whole configuration after some record. It is immutable: apply returns a new state, which shares the
// unchanged parts.
type state struct {
	// number of records with a valid MAC before this state, applied or refused; offsets count the other records too
	seq   int64
	level int // see level.go; 0 before the first record
	kinds *kinds
	sets  []*set // by Kind; apply replaces a set that changes by a copy
	// ops holds hashes of the op_ids of the last records: [0] those since the last multiple of opWindow, [1] those of
	// the window before it.
	ops [2]trie.Map[uint64]
}

// newState returns the state before the first record.
func newState(ks *kinds) *state {
	s := &state{kinds: ks, sets: make([]*set, len(ks.infos))}
	for k := range s.sets {
		s.sets[k] = &set{}
	}
	return s
}

// opWindow is how many records may stand between the last record that a writer had seen and its own. It is many times
// the number of records that can be in flight.
const opWindow = 16_384

// repeated reports whether a record may have been in the log before: its op_id is among the last ones, or it is too old
// for them. So a record that is appended once more is refused, however old it is.
func (s *state) repeated(r record) bool {
	op := hash64(r.OpID)
	for _, known := range s.ops {
		if _, ok := known.Get(op); ok {
			return true
		}
	}
	return s.seq-r.SeqSeen > opWindow
}

// rememberOp stores the op_id of the record that led to the state.
func (s *state) rememberOp(op string) {
	s.ops[0] = s.ops[0].Put(hash64(op), hash64(op))
	if s.seq%opWindow == 0 {
		s.ops = [2]trie.Map[uint64]{{}, s.ops[0]}
	}
}

// set holds the entities of one kind.
//
// The tries are keyed by 64 bits of a hash. With 200,000 entities the probability that any two collide is about 1 in a
// billion. apply refuses the later one of two that collide: all nodes do the same, and the tries need no collision
// chains.
type set struct {
	byID       trie.Map[*Entity] // living entities and tombstones, by FNV-1a of the id
	byHash     trie.Map[*Entity] // living entities, by the first 8 bytes of the secret's hash
	bySeq      trie.Map[*Entity] // living entities, by Seq
	pending    trie.Map[*Entity] // living entities with unfinished work, by Seq
	tombstones trie.Map[*Entity] // by the sequence of the deletion
	bytes      int64             // JSON bytes of the living entities
}

// Entity is a value with its metadata, or the tombstone of a deleted entity. It never changes.
type Entity struct {
	ID         string
	Kind       Kind
	Hash       [HashLen]byte  // SHA-256 of its secret; zero = none
	FormerHash *[HashLen]byte // SHA-256 of the previous secret while that is valid; nil = none
	Seq        int64          // sequence of the record that created it; lists are in this order
	Rev        int64          // sequence of the record that changed it last
	Pending    bool           // see Index.Pending
	Attributes uint64         // see Index.Attributes

	deletedAt int64  // Unix milliseconds, by the clock of the node that deleted it
	size      int32  // bytes of the value's JSON; bounds count these
	packed    []byte // the compressed value; nil in a tombstone
}

// Living reports whether the entity exists, that is, is not a tombstone.
func (e *Entity) Living() bool { return e.packed != nil }

// result is the outcome of a record.
type result uint8

const (
	applied  result = iota
	conflict        // its precondition does not hold
	taken           // another entity has its hash, or the kind is a singleton and has its entity
	invalid         // the record is not valid
	early           // its kind is above the level of the log
	full            // it exceeds a bound; see checkBounds
	repeated        // it was in the log before, or is too old to tell
)

func (r result) String() string {
	return [...]string{"applied", "conflict", "taken", "invalid", "early", "full", "repeated"}[r]
}

// apply returns the state after a record, and the result of the record. It depends on its arguments alone, so every
// node decides every record in the same way. An error means that this node must stop: records before this one are
// missing, or a newer version of the program wrote it.
func apply(s *state, r record) (*state, result, error) {
	if r.V > recordVersion {
		return s, invalid, fmt.Errorf(
			"record has version %d, this version of the program supports up to %d: run a newer version", r.V, recordVersion)
	}
	if (s.seq == 0 || r.Op == opLevel) && r.Level > s.kinds.newestLevel {
		return s, invalid, errNewer(r.Level, s.kinds.newestLevel)
	}
	if r.SeqSeen > s.seq {
		return s, invalid, fmt.Errorf("%w: the writer had applied %d records, this node %d", errGap, r.SeqSeen, s.seq)
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
	if r.Op == opPut && s.checkBounds(r.kind, old, r.put()) != nil {
		return &next, full, nil
	}
	next.sets = slices.Clone(s.sets)
	res := next.applyOp(r, old)
	if res == applied && r.Second != nil {
		res = next.applySecond(r)
	}
	if res != applied {
		next.sets = s.sets // all or nothing
	}
	if res == applied && r.outboxEntry != nil {
		next.ownSet(KindOutbox).insert(&Entity{
			ID: strconv.FormatInt(next.seq, 10), Kind: KindOutbox, Seq: next.seq, Rev: next.seq, packed: r.outboxEntry,
			size: r.outboxEntrySize,
		})
	}
	return &next, res, nil
}

// ownSet replaces a set by a copy that may be changed, and returns it. The slice of sets must be the state's own.
func (s *state) ownSet(k Kind) *set {
	own := *s.sets[k]
	s.sets[k] = &own
	return &own
}

// applyOp executes the operation of a record on the set of its kind.
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

// preconditionHolds reports whether a record may be applied to the entity old, nil if there is none.
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

// put creates an entity or replaces the value of old.
func (s *set) put(r record, old *Entity, seq int64, singleton bool) result {
	if singleton && old == nil && s.bySeq.Len > 0 || s.collides(r, old) {
		return taken
	}
	e := &Entity{
		ID: r.ID, Kind: r.kind, Hash: r.index.Hash, FormerHash: r.index.FormerHash, Seq: seq, Rev: seq,
		Pending: r.index.Pending, Attributes: r.index.Attributes,
		packed: r.packed, size: r.size,
	}
	if old != nil {
		s.bytes -= int64(old.size)
		e.ID, e.Seq = old.ID, old.Seq
		s.removeHashes(old)
	}
	s.insert(e)
	return applied
}

// insert adds a living entity to every index and drops a tombstone of the same id.
func (s *set) insert(e *Entity) {
	if tombstone, ok := s.byID.Get(hash64(e.ID)); ok && tombstone.packed == nil {
		s.tombstones = s.tombstones.Remove(uint64(tombstone.Rev))
	}
	s.byID = s.byID.Put(hash64(e.ID), e)
	s.bySeq = s.bySeq.Put(uint64(e.Seq), e)
	s.bytes += int64(e.size)
	if e.Pending {
		s.pending = s.pending.Put(uint64(e.Seq), e)
	} else if s.pending.Len > 0 {
		s.pending = s.pending.Remove(uint64(e.Seq))
	}
	s.addHashes(e)
}

// collides reports whether a new value would share a secret's hash, or a key of the tries, with another entity.
func (s *set) collides(r record, old *Entity) bool {
	if other, ok := s.byID.Get(hash64(r.ID)); ok && other.packed != nil && other.ID != r.ID {
		return true
	}
	for _, h := range hashesOf(r.index.Hash, r.index.FormerHash) {
		if other, ok := s.byHash.Get(prefix64(h)); ok && other != old {
			return true
		}
	}
	return false
}

// tombstoneLife is how long a tombstone is kept: longer than a delivery to the deleted entity can be open.
const tombstoneLife = 60 * 24 * time.Hour

// delete replaces an entity by a tombstone, so that a reader can tell "deleted" from "not yet created". Each deletion
// drops at most two tombstones that are expired or beyond maxTombstones, which bounds both the time of one record and
// the number of tombstones. No precondition depends on tombstones, so dropping one never changes the result of a later
// record.
func (s *set) delete(old *Entity, seq int64, at time.Time) {
	for range 2 {
		tombstone, ok := s.tombstones.Least()
		if ok && (at.UnixMilli()-tombstone.deletedAt > tombstoneLife.Milliseconds() || s.tombstones.Len >= maxTombstones) {
			s.tombstones = s.tombstones.Remove(uint64(tombstone.Rev))
			if e, _ := s.byID.Get(hash64(tombstone.ID)); e == tombstone {
				s.byID = s.byID.Remove(hash64(tombstone.ID))
			}
		}
	}
	s.remove(old)
	s.addTombstone(&Entity{ID: old.ID, Kind: old.Kind, Seq: old.Seq, Rev: seq, deletedAt: at.UnixMilli()})
}

// remove removes a living entity from every index.
func (s *set) remove(old *Entity) {
	s.removeHashes(old)
	s.byID = s.byID.Remove(hash64(old.ID))
	s.bySeq = s.bySeq.Remove(uint64(old.Seq))
	s.pending = s.pending.Remove(uint64(old.Seq))
	s.bytes -= int64(old.size)
}

func (s *set) addTombstone(e *Entity) {
	s.byID = s.byID.Put(hash64(e.ID), e)
	s.tombstones = s.tombstones.Put(uint64(e.Rev), e)
}

// find returns the entity or tombstone with that id, or nil.
func (s *set) find(id string) *Entity {
	if e, ok := s.byID.Get(hash64(id)); ok && e.ID == id {
		return e
	}
	return nil
}

// findLiving returns the living entity with that id, or nil.
func (s *set) findLiving(id string) *Entity {
	if e := s.find(id); e != nil && e.packed != nil {
		return e
	}
	return nil
}

// newest returns the living entity that was created last, or nil.
func (s *set) newest() *Entity {
	for e := range s.bySeq.Below(math.MaxUint64) {
		return e
	}
	return nil
}

func prefix64(hash [HashLen]byte) uint64 { return binary.BigEndian.Uint64(hash[:]) }

// hash64 returns the 64-bit FNV-1a hash.
func hash64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// hashesOf returns the hashes by which an entity with these secrets is found.
func hashesOf(hash [HashLen]byte, former *[HashLen]byte) (all [][HashLen]byte) {
	if hash != [HashLen]byte{} {
		all = append(all, hash)
	}
	if former != nil {
		all = append(all, *former)
	}
	return all
}

// addHashes makes an entity findable by the hashes of its secrets.
func (s *set) addHashes(e *Entity) {
	for _, h := range hashesOf(e.Hash, e.FormerHash) {
		s.byHash = s.byHash.Put(prefix64(h), e)
	}
}

// removeHashes undoes addHashes.
func (s *set) removeHashes(e *Entity) {
	for _, h := range hashesOf(e.Hash, e.FormerHash) {
		s.byHash = s.byHash.Remove(prefix64(h))
	}
}

// findByHash returns the living entity whose current or previous secret has that hash, or nil. The trie finds it by the
// first 8 bytes; the whole hash is then compared in constant time.
func (s *set) findByHash(h [HashLen]byte) *Entity {
	e, ok := s.byHash.Get(prefix64(h))
	switch {
	case !ok:
		return nil
	case subtle.ConstantTimeCompare(e.Hash[:], h[:]) == 1,
		e.FormerHash != nil && subtle.ConstantTimeCompare(e.FormerHash[:], h[:]) == 1:
		return e
	}
	return nil
}

// View is the configuration after some record. It never changes, so it can be read without locks.
type View struct {
	*state
	nextOffset int64 // offset of the first record that the state does not include
}

// View returns the newest state of this node.
func (l *Log) View() *View { return l.view.Load() }

// Sequence returns the number of records before this state, applied or refused.
func (v *View) Sequence() int64 { return v.seq }

// Find returns the entity or tombstone with that id, or nil.
func (v *View) Find(k Kind, id string) *Entity { return v.sets[k].find(id) }

// FindLiving returns the living entity with that id, or nil.
func (v *View) FindLiving(k Kind, id string) *Entity { return v.sets[k].findLiving(id) }

// FindByHash returns the living entity whose current or previous secret has that SHA-256, or nil.
func (v *View) FindByHash(k Kind, hash [HashLen]byte) *Entity { return v.sets[k].findByHash(hash) }

// Newest returns the living entity that was created last, or nil.
func (v *View) Newest(k Kind) *Entity { return v.sets[k].newest() }

// NewestFirst yields the living entities that were created before the sequence beforeSeq (0 = all), newest first.
func (v *View) NewestFirst(k Kind, beforeSeq int64) iter.Seq[*Entity] {
	if beforeSeq <= 0 {
		return v.sets[k].bySeq.Below(math.MaxUint64)
	}
	return v.sets[k].bySeq.Below(uint64(beforeSeq))
}

// OldestFirst yields the living entities, oldest first.
func (v *View) OldestFirst(k Kind) iter.Seq[*Entity] { return v.sets[k].bySeq.Ascend() }

// Pending yields the living entities with unfinished work (see Index.Pending), newest first.
func (v *View) Pending(k Kind) iter.Seq[*Entity] { return v.sets[k].pending.Below(math.MaxUint64) }

// PendingLen returns the number of living entities of a kind with unfinished work.
func (v *View) PendingLen(k Kind) int { return v.sets[k].pending.Len }

// Len returns the number of living entities of a kind.
func (v *View) Len(k Kind) int { return v.sets[k].bySeq.Len }

// Tombstones returns the number of deleted entities of a kind that are remembered.
func (v *View) Tombstones(k Kind) int { return v.sets[k].tombstones.Len }

// Bytes returns the JSON bytes of the living entities of a kind.
func (v *View) Bytes(k Kind) int64 { return v.sets[k].bytes }

// TotalBytes returns the JSON bytes of all living entities.
func (v *View) TotalBytes() int64 { return v.bytes() }

// Value returns the JSON of a living entity.
func (p *parser) Value(e *Entity) []byte { return p.unpack(e.packed) }

// Pack compresses the JSON of a value, which must be one line, to about a third of its size.
func (p *parser) Pack(raw []byte) []byte { return p.pack(raw) }

// Unpack is the reverse of Pack.
func (p *parser) Unpack(packed []byte) []byte { return p.unpack(packed) }

// Packed returns the compressed value of a living entity.
func (e *Entity) Packed() []byte { return e.packed }

// KindByName returns the kind with that name.
func (p *parser) KindByName(name string) (k Kind, ok bool) {
	k, ok = p.kinds.byName[name]
	return k, ok
}

// KindName returns the name of a kind.
func (p *parser) KindName(k Kind) string { return p.kinds.name(k) }
