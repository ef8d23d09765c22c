package conflog

import (
	"iter"
	"math"
)

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
