package conflog

import (
	"iter"
	"math"
)

// View is the configuration as it stood after some record. It never changes.
type View struct {
	*state
	nextOffset int64 // offset of the first record that is not in the state
}

// View returns the newest one of this node.
func (l *Log) View() *View { return l.view.Load() }

// Sequence is how many records led here.
func (v *View) Sequence() int64 { return v.seq }

// Find returns the entity or tombstone with that id, or nil.
func (v *View) Find(k Kind, id string) *Entity { return v.sets[k].find(id) }

// Living is Find without the tombstones.
func (v *View) FindLiving(k Kind, id string) *Entity { return v.sets[k].findLiving(id) }

// Hashed returns the living entity whose secret has that hash, or nil.
func (v *View) FindByHash(k Kind, hash [HashLen]byte) *Entity { return v.sets[k].findByHash(hash) }

// Newest is the living entity created last, or nil.
func (v *View) Newest(k Kind) *Entity { return v.sets[k].newest() }

// Below yields the living entities that were created before a sequence, 0 for all, the newest first.
func (v *View) NewestFirst(k Kind, seq int64) iter.Seq[*Entity] {
	if seq <= 0 {
		return v.sets[k].bySeq.below(math.MaxUint64)
	}
	return v.sets[k].bySeq.below(uint64(seq))
}

// Ascend yields the living entities, the oldest first.
func (v *View) OldestFirst(k Kind) iter.Seq[*Entity] { return v.sets[k].bySeq.ascend() }

// Open yields the living entities that something is still to be done for, the newest first.
func (v *View) Pending(k Kind) iter.Seq[*Entity] { return v.sets[k].pending.below(math.MaxUint64) }

// Len is how many living entities there are, Bytes how large they are as JSON.
func (v *View) Len(k Kind) int { return v.sets[k].bySeq.len }

// Bytes is the size of the living entities of a kind as JSON.
func (v *View) Bytes(k Kind) int64 { return v.sets[k].bytes }

// Size is that of all living entities.
func (v *View) TotalBytes() int64 { return v.bytes() }

// Value is the JSON of a living entity.
func (p *parser) Value(e *Entity) []byte { return p.unpack(e.packed) }

// Pack returns a value's JSON, which is one line, as it is kept in memory: a third of its size.
func (p *parser) Pack(raw []byte) []byte { return p.pack(raw) }

// Unpack is the reverse of Pack.
func (p *parser) Unpack(packed []byte) []byte { return p.unpack(packed) }

// Packed is the value of a living entity as it is kept.
func (e *Entity) Packed() []byte { return e.packed }

// KindByName returns the kind of that name.
func (p *parser) KindByName(name string) (k Kind, ok bool) {
	k, ok = p.kinds.byName[name]
	return k, ok
}

// Name is that of a kind.
func (p *parser) KindName(k Kind) string { return p.kinds.name(k) }
