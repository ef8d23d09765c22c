package stream

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sort"
	"strings"
)

// Hole is a stretch of offsets [From, To) that a group has finished beyond the offset that it committed.
type Hole struct{ From, To int64 }

// Kafka brokers take 4 KB of metadata with a commit by default.
const (
	maxHolesEncoded = 4096
	holesPrefix     = "h2:" // names the encoding, so that another one can be told apart
	maxHolesBytes   = (maxHolesEncoded - len(holesPrefix)) * 6 / 8
)

// Holes are written as a bitmap of what is finished from the mark on, one bit for an offset, the lowest bit of
// the first byte for the mark itself. Equal bytes, all finished or nothing finished, are counted instead of
// written. So a stretch costs as much as a pair of numbers where stretches are long, and a bit for each offset
// where finished and unfinished ones are mixed: 24,552 offsets always fit, and millions where few are open.
//
// The bitmap is a sequence of groups: a head, how many equal bytes there are and of what kind, how many bytes
// follow as they are, and these. The head has bit 7 for the kind (1 = finished), 4 bits for the first number and 3
// for the second; a number that is too large for its bits has the rest behind the head, as an unsigned varint.
const (
	headCompleted   = 1 << 7
	maxHeadRun      = 1<<4 - 1
	maxHeadLiterals = 1<<3 - 1
	literalBits     = 3
	maxRun          = 1 << 37 // bytes; no log has more offsets
)

// EncodeHoles writes holes beyond mark, ascending and apart, as the metadata of a commit. Of what does not fit
// the lowest part is kept; leftOut is how many finished records are not in it. They will be done twice, none is
// lost.
func EncodeHoles(mark int64, holes []Hole) (metadata string, leftOut int64) {
	if len(holes) == 0 {
		return "", 0
	}
	var w bitmapWriter
	at, open := int64(0), byte(0) // the byte that is being filled, and its bits
	for _, h := range holes {
		leftOut += h.To - h.From
		for from, to := h.From-mark, h.To-mark; from < to; {
			if index := from / 8; index > at {
				w.appendBytes(open, 1)
				w.appendBytes(0, index-at-1)
				at, open = index, 0
			}
			if whole := (to - from) / 8; from%8 == 0 && whole > 0 {
				w.appendBytes(0xff, whole)
				at += whole
				from += whole * 8
				continue
			}
			n := min(to-from, 8-from%8)
			open |= byte((1<<n - 1) << (from % 8))
			from += n
		}
	}
	if open != 0 {
		w.appendBytes(open, 1)
	}
	w.flushGroup()
	return holesPrefix + base64.RawStdEncoding.EncodeToString(w.out), leftOut - w.completed
}

// bitmapWriter makes groups of the bytes of a bitmap until there is no room.
type bitmapWriter struct {
	out       []byte
	full      bool
	completed int64 // bits that are set in out

	fill     byte  // of the group that is being made: 0 or 0xff
	run      int64 // how many bytes of the kind it has
	literals []byte
}

// add continues the bitmap with n equal bytes.
func (w *bitmapWriter) appendBytes(b byte, n int64) {
	switch {
	case n == 0:
	case b != 0 && b != 0xff:
		for range n {
			w.literals = append(w.literals, b)
		}
	case len(w.literals) > 0 || w.run > 0 && w.fill != b:
		w.flushGroup()
		w.fill, w.run = b, n
	default:
		w.fill = b
		w.run += n
	}
}

// group writes what was added since the last one, as far as there is room.
func (w *bitmapWriter) flushGroup() {
	defer func() { w.fill, w.run, w.literals = 0, 0, w.literals[:0] }()
	if w.full || w.run == 0 && len(w.literals) == 0 {
		return
	}
	room := maxHolesBytes - len(w.out)
	head := groupHead(w.fill, w.run, len(w.literals))
	if len(head) > room {
		w.full = true
		return
	}
	if over := len(head) + len(w.literals) - room; over > 0 {
		w.full = true
		w.literals = w.literals[:len(w.literals)-over]
		head = groupHead(w.fill, w.run, len(w.literals))
	}
	w.out = append(append(w.out, head...), w.literals...)
	if w.fill != 0 {
		w.completed += w.run * 8
	}
	for _, b := range w.literals {
		w.completed += int64(bits.OnesCount8(b))
	}
}

func groupHead(kind byte, equal int64, plain int) []byte {
	head := append(make([]byte, 0, 1+2*binary.MaxVarintLen64), kind&headCompleted|
		byte(min(equal, maxHeadRun))<<literalBits|byte(min(plain, maxHeadLiterals)))
	if equal >= maxHeadRun {
		head = binary.AppendUvarint(head, uint64(equal-maxHeadRun))
	}
	if plain >= maxHeadLiterals {
		head = binary.AppendUvarint(head, uint64(plain-maxHeadLiterals))
	}
	return head
}

// Holes reads what EncodeHoles wrote. Metadata that is not ours is an error: the caller goes on without
// holes, which costs duplicates only.
func (m Commit) Holes() ([]Hole, error) {
	if m.Metadata == "" {
		return nil, nil
	}
	text, ours := strings.CutPrefix(m.Metadata, holesPrefix)
	if !ours {
		return nil, errors.New("decode holes: unknown encoding")
	}
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode holes: %w", err)
	}
	var holes []Hole
	at := m.Offset
	finish := func(from, to int64) {
		if n := len(holes); n > 0 && holes[n-1].To == from {
			holes[n-1].To = to
		} else if from < to {
			holes = append(holes, Hole{from, to})
		}
	}
	for len(b) > 0 {
		kind, equal, plain, rest, err := readGroup(b)
		if err != nil {
			return nil, err
		}
		if b = rest; kind == headCompleted {
			finish(at, at+equal*8)
		}
		at += equal * 8
		for _, set := range plain {
			for ; set != 0; set &= set - 1 {
				o := at + int64(bits.TrailingZeros8(set))
				finish(o, o+1)
			}
			at += 8
		}
	}
	return holes, nil
}

// readGroup takes the first group off the bitmap.
func readGroup(b []byte) (kind byte, equal int64, plain, rest []byte, err error) {
	head := b[0]
	b = b[1:]
	number := func(inHead, most byte) uint64 {
		if inHead < most {
			return uint64(inHead)
		}
		more, n := binary.Uvarint(b)
		if n <= 0 || more > maxRun {
			err = errors.New("decode holes: broken number")
			return 0
		}
		b = b[n:]
		return more + uint64(most)
	}
	equal = int64(number(head>>literalBits&maxHeadRun, maxHeadRun))
	size := number(head&maxHeadLiterals, maxHeadLiterals)
	if err == nil && size > uint64(len(b)) {
		err = errors.New("decode holes: cut off")
	}
	if err != nil {
		return 0, 0, nil, nil, err
	}
	return head & headCompleted, equal, b[:size], b[size:], nil
}

// Done says which records of one partition a group has finished. The zero value says none.
type Completed struct {
	committed int64
	holes     []Hole
}

// Done reads the commit. Without metadata that can be read, only what lies below the offset is done.
func (m Commit) Completed() Completed {
	holes, err := m.Holes()
	if err != nil {
		holes = nil
	}
	return Completed{committed: m.Offset, holes: holes}
}

// Has reports whether the record at the offset is finished.
func (d Completed) Contains(offset int64) bool {
	if offset < d.committed {
		return true
	}
	i := sort.Search(len(d.holes), func(i int) bool { return offset < d.holes[i].To })
	return i < len(d.holes) && offset >= d.holes[i].From
}

// From is the lowest offset that is not finished.
func (d Completed) FirstIncomplete() int64 { return max(d.committed, 0) }
