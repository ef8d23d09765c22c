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

// Gap is a range of offsets [From, To) above the committed offset that a group has completed.
type Gap struct{ From, To int64 }

// Kafka brokers accept 4,096 bytes of metadata with a commit (offset.metadata.max.bytes).
const (
	maxGapsEncoded = 4096
	gapsPrefix     = "h2:" // names the encoding
	maxGapsBytes   = (maxGapsEncoded - len(gapsPrefix)) * 6 / 8
)

// Gaps are encoded as a bitmap of completed offsets that begins at the committed offset, one bit an offset, lowest bit
// first. Runs of equal bytes, all completed or none, are stored as a count. So long gaps cost as much as pairs of
// numbers would, and mixed stretches one bit an offset: the first 21,800 offsets above the committed one always fit,
// and millions where few are incomplete.
//
// The bitmap is a sequence of groups: a head, which says how long a run of equal bytes is and how many literal bytes
// follow it, and the literal bytes. In the head bit 7 is the fill of the run (1 = completed), 4 bits are the length of
// the run and 3 bits the number of literals. A number that does not fit has its remainder behind the head as an
// unsigned varint.
const (
	headCompleted   = 1 << 7
	maxHeadRun      = 1<<4 - 1
	maxHeadLiterals = 1<<3 - 1
	literalBits     = 3
	maxRun          = 1 << 37 // bytes; more offsets than any log has
)

// EncodeGaps encodes gaps above the committed offset, ascending and not touching, as metadata of a commit. It keeps
// as many of the lowest offsets as fit; omitted is the number of completed records that did not fit. After a crash
// these are processed again; no record is lost.
func EncodeGaps(committed int64, gaps []Gap) (metadata string, omitted int64) {
	if len(gaps) == 0 {
		return "", 0
	}
	var w bitmapWriter
	index, open := int64(0), byte(0) // the byte that is being filled, and its bits
	for _, h := range gaps {
		omitted += h.To - h.From
		for from, to := h.From-committed, h.To-committed; from < to; {
			if next := from / 8; next > index {
				w.appendBytes(open, 1)
				w.appendBytes(0, next-index-1)
				index, open = next, 0
			}
			if bytes := (to - from) / 8; from%8 == 0 && bytes > 0 {
				w.appendBytes(0xff, bytes)
				index += bytes
				from += bytes * 8
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
	return gapsPrefix + base64.RawStdEncoding.EncodeToString(w.out), omitted - w.completed
}

// bitmapWriter encodes the bytes of a bitmap as groups until the metadata is full.
type bitmapWriter struct {
	out       []byte
	full      bool
	completed int64 // set bits in out

	fill     byte  // of the current group: 0 or 0xff
	run      int64 // how many bytes of fill it begins with
	literals []byte
}

// appendBytes appends n equal bytes to the bitmap.
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

// flushGroup encodes the current group, as far as it fits.
func (w *bitmapWriter) flushGroup() {
	defer func() { w.fill, w.run, w.literals = 0, 0, w.literals[:0] }()
	if w.full || w.run == 0 && len(w.literals) == 0 {
		return
	}
	room := maxGapsBytes - len(w.out)
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

func groupHead(fill byte, run int64, literals int) []byte {
	head := append(make([]byte, 0, 1+2*binary.MaxVarintLen64), fill&headCompleted|
		byte(min(run, maxHeadRun))<<literalBits|byte(min(literals, maxHeadLiterals)))
	if run >= maxHeadRun {
		head = binary.AppendUvarint(head, uint64(run-maxHeadRun))
	}
	if literals >= maxHeadLiterals {
		head = binary.AppendUvarint(head, uint64(literals-maxHeadLiterals))
	}
	return head
}

// Gaps decodes the metadata of a commit. Metadata of another program is an error; without gaps the caller processes
// completed records again, and loses none.
func (m Commit) Gaps() ([]Gap, error) {
	if m.Metadata == "" {
		return nil, nil
	}
	text, ours := strings.CutPrefix(m.Metadata, gapsPrefix)
	if !ours {
		return nil, errors.New("decode gaps: unknown encoding of the commit metadata")
	}
	b, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode gaps: %w", err)
	}
	var gaps []Gap
	at := m.Offset
	addGap := func(from, to int64) {
		if n := len(gaps); n > 0 && gaps[n-1].To == from {
			gaps[n-1].To = to
		} else if from < to {
			gaps = append(gaps, Gap{from, to})
		}
	}
	for len(b) > 0 {
		fill, run, literals, rest, err := readGroup(b)
		if err != nil {
			return nil, err
		}
		if b = rest; fill == headCompleted {
			addGap(at, at+run*8)
		}
		at += run * 8
		for _, set := range literals {
			for ; set != 0; set &= set - 1 {
				o := at + int64(bits.TrailingZeros8(set))
				addGap(o, o+1)
			}
			at += 8
		}
	}
	return gaps, nil
}

// readGroup decodes the first group of the bitmap.
func readGroup(b []byte) (fill byte, run int64, literals, rest []byte, err error) {
	head := b[0]
	b = b[1:]
	number := func(inHead, most byte) uint64 {
		if inHead < most {
			return uint64(inHead)
		}
		more, n := binary.Uvarint(b)
		if n <= 0 || more > maxRun {
			err = errors.New("decode gaps: invalid number")
			return 0
		}
		b = b[n:]
		return more + uint64(most)
	}
	run = int64(number(head>>literalBits&maxHeadRun, maxHeadRun))
	size := number(head&maxHeadLiterals, maxHeadLiterals)
	if err == nil && size > uint64(len(b)) {
		err = errors.New("decode gaps: the metadata is cut off")
	}
	if err != nil {
		return 0, 0, nil, nil, err
	}
	return head & headCompleted, run, b[:size], b[size:], nil
}

// Completed says which records of one partition a group has completed. The zero value says none.
type Completed struct {
	committed int64
	gaps      []Gap
}

// Completed decodes the commit. If its metadata cannot be decoded, only offsets below the committed one are completed.
func (m Commit) Completed() Completed {
	gaps, err := m.Gaps()
	if err != nil {
		gaps = nil
	}
	return Completed{committed: m.Offset, gaps: gaps}
}

// Contains reports whether the record at the offset is completed.
func (d Completed) Contains(offset int64) bool {
	if offset < d.committed {
		return true
	}
	i := sort.Search(len(d.gaps), func(i int) bool { return offset < d.gaps[i].To })
	return i < len(d.gaps) && offset >= d.gaps[i].From
}

// FirstIncomplete returns the lowest offset that is not completed.
func (d Completed) FirstIncomplete() int64 { return max(d.committed, 0) }
