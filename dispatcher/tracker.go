package dispatcher

import (
	"math/bits"
	"slices"

	"github.com/eventrelay/relay/pkg/stream"
)

const (
	wordBits = 64
	minWords = 16
)

// tracker knows which records of one partition are done. Records are added in offset order and finish in any order.
// commitOffset is the lowest offset that is not done. The ranges above it that are done are the gaps. They go into the
// commit metadata, so that the next owner skips them.
//
// It uses one bit per offset: a delivery that hangs for a minute while 10,000 a second pass it costs 75 KB.
type tracker struct {
	base         int64 // offset of the first bit
	next         int64 // lowest offset that the next record may have
	words        []uint64
	commitOffset int64        // lowest offset that is not done; base ≤ commitOffset ≤ next
	priorGaps    []stream.Gap // done before this assignment, ascending, not read yet
	firstAdded   int64        // offset of the first added record, -1 until then
	// recordedFrom: of the added records from this offset on that are done, this node has recorded the outcomes. One
	// below may be done as a copy of another record, which is not done.
	recordedFrom int64

	epochs []epoch // leader epochs by first offset, newest last; from that of the record before commitOffset on
}

type epoch struct {
	from  int64
	epoch int32
}

// start begins at the committed offset with the gaps of its metadata. A negative offset means that nothing was
// committed yet: the first record sets it.
func (t *tracker) start(offset int64, leaderEpoch int32, gaps []stream.Gap) {
	*t = tracker{base: offset, next: offset, commitOffset: offset, priorGaps: gaps, firstAdded: -1}
	if offset >= 0 {
		t.epochs = []epoch{{0, leaderEpoch}}
	}
}

// add adds the record at an offset. It returns false when the record is done already or was added before. Offsets that
// the log skips (transactions, compaction) count as done.
func (t *tracker) add(offset int64, leaderEpoch int32) bool {
	switch {
	case t.next < 0 || t.commitOffset == t.next && offset > t.next:
		// No record is unfinished: start again here, whatever the log skipped before.
		t.base, t.next, t.commitOffset, t.words = offset, offset, offset, t.words[:0]
	case offset < t.next:
		return false
	}
	for o := t.next; o < offset; o++ {
		t.setBit(o)
	}
	if t.next = offset + 1; t.firstAdded < 0 {
		t.firstAdded = offset
	}
	if n := len(t.epochs); n == 0 || t.epochs[n-1].epoch != leaderEpoch {
		t.epochs = append(t.epochs, epoch{offset, leaderEpoch})
	}
	for len(t.priorGaps) > 0 && offset >= t.priorGaps[0].To {
		t.priorGaps = t.priorGaps[1:]
	}
	if len(t.priorGaps) > 0 && offset >= t.priorGaps[0].From {
		t.recordedFrom = offset + 1
		t.done(offset)
		return false
	}
	return true
}

// done marks an added offset and moves commitOffset over everything that is done.
func (t *tracker) done(offset int64) {
	t.setBit(offset)
	if offset != t.commitOffset {
		return
	}
	i := t.commitOffset - t.base
	for w := i / wordBits; w < int64(len(t.words)); w++ {
		remaining := t.words[w] >> (i % wordBits)
		left := wordBits - i%wordBits
		ones := min(int64(bits.TrailingZeros64(^remaining)), left)
		i += ones
		if ones < left {
			break
		}
	}
	t.commitOffset = min(t.base+i, t.next)
	for len(t.epochs) > 1 && t.epochs[1].from < t.commitOffset {
		t.epochs = t.epochs[1:]
	}
	t.shrink()
}

// shrink frees the words below commitOffset once they are the larger part.
func (t *tracker) shrink() {
	unused := int((t.commitOffset - t.base) / wordBits)
	if unused < minWords || unused < len(t.words)/2 {
		return
	}
	t.words = t.words[:copy(t.words, t.words[unused:])] // setBit appends zeros over the rest
	t.base += int64(unused) * wordBits
}

func (t *tracker) setBit(offset int64) {
	i := offset - t.base
	for int(i/wordBits) >= len(t.words) {
		t.words = append(t.words, 0)
	}
	t.words[i/wordBits] |= 1 << (i % wordBits)
}

func (t *tracker) isDone(offset int64) bool {
	i := offset - t.base
	return int(i/wordBits) < len(t.words) && t.words[i/wordBits]&(1<<(i%wordBits)) != 0
}

// wasDone reports whether this node has read the record at an offset and recorded it. A leader epoch writes an offset
// once, so a record of another epoch is another record: the log was truncated and has grown again. While an epoch is
// unknown, or brokers report none, the result is false.
func (t *tracker) wasDone(offset int64, leaderEpoch int32) bool {
	if t.firstAdded < 0 || offset < max(t.firstAdded, t.recordedFrom) || offset >= t.next ||
		offset >= t.commitOffset && !t.isDone(offset) {
		return false
	}
	known := int32(-1)
	for _, e := range t.epochs {
		if e.from <= offset {
			known = e.epoch
		}
	}
	return known >= 0 && known == leaderEpoch
}

// doneByEarlierOwner reports whether the commit before this assignment names a record that was not read yet as done.
func (t *tracker) doneByEarlierOwner(offset int64) bool {
	return slices.ContainsFunc(t.priorGaps, func(g stream.Gap) bool { return offset >= g.From && offset < g.To })
}

// span is how many offsets lie between commitOffset and the newest record.
func (t *tracker) span() int64 { return t.next - t.commitOffset }

// leaderEpoch is the epoch of the last record before commitOffset, -1 if unknown.
func (t *tracker) leaderEpoch() int32 {
	if len(t.epochs) == 0 {
		return -1
	}
	return t.epochs[0].epoch
}

// gaps are the finished ranges above commitOffset, lowest first, and those of an earlier owner that were not read
// yet. Between two gaps lies an unfinished record. Since the partition pauses at maxUnfinished, there are at most some
// thousands of its own.
func (t *tracker) gaps() []stream.Gap {
	var gaps []stream.Gap
	for o := t.nextOffset(true, t.commitOffset); o < t.next; {
		r := stream.Gap{From: o, To: t.nextOffset(false, o)}
		gaps = append(gaps, r)
		o = t.nextOffset(true, r.To)
	}
	for _, s := range t.priorGaps {
		s.From = max(s.From, t.next)
		if s.From >= s.To {
			continue
		}
		if n := len(gaps); n > 0 && gaps[n-1].To == s.From {
			gaps[n-1].To = s.To
			continue
		}
		gaps = append(gaps, s)
	}
	return gaps
}

// nextOffset is the first offset from o on that is done, or that is not done if done is false; t.next if there is none.
func (t *tracker) nextOffset(done bool, o int64) int64 {
	for i := o - t.base; o < t.next; {
		word := uint64(0)
		if w := i / wordBits; w < int64(len(t.words)) {
			word = t.words[w]
		}
		if !done {
			word = ^word
		}
		if bitsLeft := word >> (i % wordBits); bitsLeft != 0 {
			return min(o+int64(bits.TrailingZeros64(bitsLeft)), t.next)
		}
		rest := wordBits - i%wordBits
		i, o = i+rest, o+rest
	}
	return t.next
}
