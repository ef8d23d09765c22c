package stream

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
)

// Hole is a stretch of offsets [From, To) that a group has finished beyond the offset that it committed.
type Hole struct{ From, To int64 }

// MaxHoles is how many holes a commit carries at most.
const MaxHoles = 1000

// Kafka brokers take 4 KB of metadata with a commit by default.
const (
	maxHolesEncoded  = 4096
	holesPrefix      = "h1:" // names the encoding, so that a later one can be told apart
	maxHolesBytes    = (maxHolesEncoded - len(holesPrefix)) / 4 * 3
	maxUvarintLength = 10
)

// EncodeHoles writes holes beyond mark, ascending, as the metadata of a commit: pairs of unsigned varints,
// gap and length, in base64. Holes that do not fit are left out: their records will be done twice, none
// is lost.
func EncodeHoles(mark int64, holes []Hole) string {
	if len(holes) == 0 {
		return ""
	}
	b := make([]byte, 0, min(len(holes)*2*maxUvarintLength, maxHolesBytes))
	at := mark
	for _, h := range holes[:min(len(holes), MaxHoles)] {
		size := len(b)
		b = binary.AppendUvarint(b, uint64(h.From-at))
		b = binary.AppendUvarint(b, uint64(h.To-h.From))
		if len(b) > maxHolesBytes {
			b = b[:size]
			break
		}
		at = h.To
	}
	return holesPrefix + base64.StdEncoding.EncodeToString(b)
}

// Holes reads what EncodeHoles wrote. Metadata that is not ours is an error: the caller goes on without
// holes, which costs duplicates only.
func (m Mark) Holes() ([]Hole, error) {
	if m.Metadata == "" {
		return nil, nil
	}
	if len(m.Metadata) < len(holesPrefix) || m.Metadata[:len(holesPrefix)] != holesPrefix {
		return nil, errors.New("decode holes: unknown encoding")
	}
	b, err := base64.StdEncoding.DecodeString(m.Metadata[len(holesPrefix):])
	if err != nil {
		return nil, fmt.Errorf("decode holes: %w", err)
	}
	var holes []Hole
	for at := m.Offset; len(b) > 0; {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errors.New("decode holes: broken varint")
		}
		length, k := binary.Uvarint(b[n:])
		if k <= 0 || length == 0 || gap > 1<<40 || length > 1<<40 {
			return nil, errors.New("decode holes: broken varint")
		}
		h := Hole{From: at + int64(gap), To: at + int64(gap) + int64(length)}
		holes, at, b = append(holes, h), h.To, b[n+k:]
	}
	return holes, nil
}

// Done says which records of one partition a group has finished. The zero value says none.
type Done struct {
	mark  int64
	holes []Hole
}

// Done reads the commit. Without metadata that can be read, only what lies below the offset is done.
func (m Mark) Done() Done {
	holes, err := m.Holes()
	if err != nil {
		holes = nil
	}
	return Done{mark: m.Offset, holes: holes}
}

// Has reports whether the record at the offset is finished.
func (d Done) Has(offset int64) bool {
	if offset < d.mark {
		return true
	}
	i := sort.Search(len(d.holes), func(i int) bool { return offset < d.holes[i].To })
	return i < len(d.holes) && offset >= d.holes[i].From
}

// From is the lowest offset that is not finished.
func (d Done) From() int64 { return max(d.mark, 0) }
