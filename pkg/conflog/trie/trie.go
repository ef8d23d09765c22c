// Package trie has the map in which the state of the configuration log is kept: it never changes, so it is read without
// a lock, and each change returns another map that shares most of it.
package trie

import (
	"iter"
	"math/bits"
	"slices"
)

// Map is an immutable map from uint64 to V, ordered by key. It is a 32-way tree over the bits of the key, highest
// first; Put stores a value at the highest level where no other key shares its prefix. Put and Remove copy the path
// that they change (about four branches among 200,000 random keys) and share the rest. So readers need no lock, and a
// snapshot can be written while records are applied.
type Map[V any] struct {
	root *branch[V]
	Len  int
}

// branch is an inner node with up to 32 slots; empty slots take no memory.
type branch[V any] struct {
	bits  uint32 // which of the 32 digits have a slot
	slots []slot[V]
}

// slot is a subtree, or a value when sub is nil.
type slot[V any] struct {
	sub *branch[V]
	key uint64
	val V
}

// slotOf returns the bit of the key's digit at a level, and the index that its slot has or would have.
func (n *branch[V]) slotOf(key uint64, level int) (bit uint32, i int) {
	bit = 1 << (key << (5 * level) >> 59)
	return bit, bits.OnesCount32(n.bits & (bit - 1))
}

// Get returns the value of a key.
func (t Map[V]) Get(key uint64) (v V, ok bool) {
	for n, level := t.root, 0; n != nil; level++ {
		bit, i := n.slotOf(key, level)
		if n.bits&bit == 0 {
			return v, false
		}
		s := &n.slots[i]
		if s.sub == nil {
			if s.key != key {
				return v, false
			}
			return s.val, true
		}
		n = s.sub
	}
	return v, false
}

// Put returns the map with a value at a key.
func (t Map[V]) Put(key uint64, v V) Map[V] {
	if _, ok := t.Get(key); !ok {
		t.Len++
	}
	t.root = t.root.put(slot[V]{key: key, val: v}, 0)
	return t
}

func (n *branch[V]) put(s slot[V], level int) *branch[V] {
	if n == nil {
		n = &branch[V]{}
	}
	bit, i := n.slotOf(s.key, level)
	if n.bits&bit == 0 {
		slots := make([]slot[V], 0, len(n.slots)+1)
		slots = append(append(append(slots, n.slots[:i]...), s), n.slots[i:]...)
		return &branch[V]{bits: n.bits | bit, slots: slots}
	}
	out := &branch[V]{bits: n.bits, slots: slices.Clone(n.slots)}
	switch old := n.slots[i]; {
	case old.sub != nil:
		out.slots[i] = slot[V]{sub: old.sub.put(s, level+1)}
	case old.key == s.key:
		out.slots[i] = s
	default:
		var below *branch[V]
		out.slots[i] = slot[V]{sub: below.put(old, level+1).put(s, level+1)}
	}
	return out
}

// Remove returns the map without a key.
func (t Map[V]) Remove(key uint64) Map[V] {
	if _, ok := t.Get(key); !ok {
		return t
	}
	return Map[V]{root: t.root.remove(key, 0), Len: t.Len - 1}
}

// remove is called only for keys that exist; an empty branch disappears.
func (n *branch[V]) remove(key uint64, level int) *branch[V] {
	bit, i := n.slotOf(key, level)
	if sub := n.slots[i].sub; sub != nil {
		if sub = sub.remove(key, level+1); sub != nil {
			out := &branch[V]{bits: n.bits, slots: slices.Clone(n.slots)}
			out.slots[i] = slot[V]{sub: sub}
			return out
		}
	}
	if len(n.slots) == 1 {
		return nil
	}
	return &branch[V]{bits: n.bits &^ bit, slots: slices.Delete(slices.Clone(n.slots), i, i+1)}
}

// Least returns the value with the smallest key.
func (t Map[V]) Least() (v V, ok bool) {
	if t.root == nil {
		return v, false
	}
	s := &t.root.slots[0]
	for s.sub != nil {
		s = &s.sub.slots[0]
	}
	return s.val, true
}

// Ascend yields the values in ascending order of their keys.
func (t Map[V]) Ascend() iter.Seq[V] {
	return func(yield func(V) bool) { t.root.ascend(yield) }
}

func (n *branch[V]) ascend(yield func(V) bool) bool {
	if n == nil {
		return true
	}
	for i := range n.slots {
		if s := &n.slots[i]; s.sub != nil && !s.sub.ascend(yield) || s.sub == nil && !yield(s.val) {
			return false
		}
	}
	return true
}

// Below yields the values whose keys are less than limit, in descending order.
func (t Map[V]) Below(limit uint64) iter.Seq[V] {
	return func(yield func(V) bool) {
		if t.root != nil {
			t.root.descend(limit, 0, true, yield)
		}
	}
}

// descend yields the values below the limit. On the edge (edge is true) the keys of the subtree share the limit's
// digits so far; elsewhere all of them are below the limit.
func (n *branch[V]) descend(limit uint64, level int, edge bool, yield func(V) bool) bool {
	from := len(n.slots)
	edgeSlot := -1
	if edge {
		bit, i := n.slotOf(limit, level)
		from = i
		if n.bits&bit != 0 {
			from, edgeSlot = i+1, i
		}
	}
	for i := from - 1; i >= 0; i-- {
		s := &n.slots[i]
		switch {
		case s.sub != nil:
			if !s.sub.descend(limit, level+1, i == edgeSlot, yield) {
				return false
			}
		case i == edgeSlot && s.key >= limit:
		case !yield(s.val):
			return false
		}
	}
	return true
}
