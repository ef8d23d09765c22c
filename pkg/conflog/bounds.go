package conflog

import (
	"errors"
	"fmt"
)

// Bounds of the configuration, which is in the memory of every node and in every snapshot. They are constants, and
// apply judges them by nothing but the state and the record: every node refuses the same records. Sizes are those of
// the JSON, not of what a compressor makes of it, which may change with its version. What is beyond a bound already
// stays, and may shrink; only growth is refused. The bounds of a kind are its [Bounds].
const (
	// MaxEntityBytes is how large one entity may be, in bytes.
	MaxEntityBytes = 256 << 10
	// MaxStateBytes is how large all entities together may be, in bytes.
	MaxStateBytes = 512 << 20
	// maxTombstones is how many deleted entities of a kind are remembered; beyond it the oldest is forgotten early, for a
	// deletion is never refused. What is still open of such an endpoint then ends by its deadline.
	maxTombstones = 200_000
)

// Reasons why the configuration does not grow. Changes that take something away are never refused for them.
var (
	// ErrEntityTooLarge means that one entity would be larger than may be.
	ErrEntityTooLarge = fmt.Errorf("it would be larger than %d bytes", MaxEntityBytes)
	// ErrStateFull means that the whole configuration would be larger than may be.
	ErrStateFull = errors.New("the configuration would be larger than 512 MiB")
)

// exceeds reports which bound a put goes beyond. exempt is that of the record.
func (s *state) checkBounds(k Kind, old *Entity, size int, exempt bool) error {
	grown := size
	if old != nil {
		grown -= int(old.size)
	}
	if old != nil && (grown <= 0 || exempt) {
		return nil
	}
	if size > MaxEntityBytes {
		return ErrEntityTooLarge
	}
	set, b := s.sets[k], &s.kinds.infos[k].Bounds
	if old == nil && b.MaxCount > 0 && set.bySeq.len >= b.MaxCount {
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

func errUnless(holds bool, err error) error {
	if holds {
		return nil
	}
	return err
}

// bytes is the size of all living entities.
func (s *state) bytes() (n int64) {
	for _, set := range s.sets {
		n += set.bytes
	}
	return n
}
