package conflog

import (
	"errors"
	"fmt"
)

// Bounds of the configuration, which is in the memory of every node and in every snapshot. They are constants, and
// apply enforces them with nothing but the state and the record: so every node refuses the same records. Sizes are
// bytes of JSON: compressed sizes could change with the version of the compressor. Only growth is refused; an entity
// that is already beyond a bound stays and may shrink. The bounds of a kind are in its [Bounds].
const (
	// MaxEntityBytes is the maximum size of one entity in bytes.
	MaxEntityBytes = 256 << 10
	// MaxStateBytes is the maximum size of all entities together in bytes. Entities of kinds with Bounds.MaxBytes count
	// towards it, but are refused by their own bound only.
	MaxStateBytes = 512 << 20
	// maxTombstones is the maximum number of tombstones of a kind. A deletion is never refused: beyond the maximum the
	// oldest tombstone is dropped early. If it was that of an endpoint, the open deliveries of the endpoint then end at
	// their deadline.
	maxTombstones = 200_000
)

// Errors of the bounds. Changes that only restrict or revoke something never return them.
var (
	// ErrEntityTooLarge means that the entity would exceed MaxEntityBytes.
	ErrEntityTooLarge = fmt.Errorf("the entity would be larger than %d bytes", MaxEntityBytes)
	// ErrStateFull means that the configuration would exceed MaxStateBytes.
	ErrStateFull = errors.New("the configuration would be larger than 512 MiB")
)

// put is what a bound needs to know of the new value of an entity.
type put struct {
	size    int  // bytes of JSON
	pending bool // Index.Pending
	exempt  bool // the record's Exempt
}

// put returns what the bounds need to know of a put.
func (r *record) put() put { return put{int(r.size), r.index.Pending, r.Exempt} }

// checkBounds returns the error of the bound that a put would exceed, or nil. old is the entity that it replaces; nil =
// none.
func (s *state) checkBounds(k Kind, old *Entity, p put) error {
	set, b := s.sets[k], &s.kinds.infos[k].Bounds
	becomesPending := p.pending && (old == nil || !old.Pending) && !p.exempt
	if becomesPending && b.MaxPending > 0 && set.pending.Len >= b.MaxPending {
		return b.ErrPending
	}
	grown := p.size
	if old != nil {
		grown -= int(old.size)
	}
	if old != nil && (grown <= 0 || p.exempt) {
		return nil
	}
	if p.size > MaxEntityBytes {
		return ErrEntityTooLarge
	}
	if old == nil && b.MaxCount > 0 && set.bySeq.Len >= b.MaxCount {
		return b.ErrCount
	}
	if b.MaxBytes > 0 {
		room := b.MaxBytes
		if old == nil {
			room -= b.ReservedBytes
		}
		return errUnless(set.bytes+int64(grown) <= room, b.ErrBytes)
	}
	if b.AllowWhenFull || b.AllowGrowthWhenFull && old != nil {
		return nil
	}
	return errUnless(s.bytes()+int64(grown) <= s.kinds.maxStateBytes, ErrStateFull)
}

// errUnless returns err unless holds is true.
func errUnless(holds bool, err error) error {
	if holds {
		return nil
	}
	return err
}

// bytes returns the JSON bytes of all living entities.
func (s *state) bytes() (n int64) {
	for _, set := range s.sets {
		n += set.bytes
	}
	return n
}
