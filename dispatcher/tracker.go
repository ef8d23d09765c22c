package dispatcher

import (
	"math/bits"

	"github.com/eventrelay/relay/pkg/stream"
)

const (
	trackerWord     = 64
	minTrackerWords = 16
)

// tracker knows which records of one partition are done. Records are added in offset order and
// finish in any order; the mark is the lowest offset that is not done, and what is done beyond it are
// the holes, which go into the commit's metadata so that the next owner skips them.
//
// One bit per offset: a delivery that hangs for a minute while 10,000 a second pass it costs 75 KB.
type tracker struct {
	base  int64 // offset of the first bit
	next  int64 // offset that the next record will have at least
	words []uint64
	mark  int64         // lowest offset that is not done; base ≤ mark ≤ next
	skip  []stream.Hole // done before this assignment, ascending, not yet passed
	first int64         // offset of the first record that was added, -1 until then

	epochs []epoch // leader epochs by first offset, the newest last; at least the one before mark is kept
}

type epoch struct {
	from  int64
	epoch int32
}

// start begins at the committed offset with the holes of its metadata. A negative offset means that
// nothing was ever committed: the first record decides.
func (t *tracker) start(offset int64, leaderEpoch int32, holes []stream.Hole) {
	*t = tracker{base: offset, next: offset, mark: offset, skip: holes, first: -1}
	if offset >= 0 {
		t.epochs = []epoch{{0, leaderEpoch}}
	}
}

// add notes the record at an offset. It reports false when the record needs no work: it is done
// already, or was added before. Offsets that the log left out count as done.
func (t *tracker) add(offset int64, leaderEpoch int32) bool {
	switch {
	case t.next < 0 || t.mark == t.next && offset > t.next:
		// Nothing is open: begin anew here, whatever the log left out before.
		t.base, t.next, t.mark, t.words = offset, offset, offset, t.words[:0]
	case offset < t.next:
		return false
	}
	for o := t.next; o < offset; o++ {
		t.set(o)
	}
	if t.next = offset + 1; t.first < 0 {
		t.first = offset
	}
	if n := len(t.epochs); n == 0 || t.epochs[n-1].epoch != leaderEpoch {
		t.epochs = append(t.epochs, epoch{offset, leaderEpoch})
	}
	for len(t.skip) > 0 && offset >= t.skip[0].To {
		t.skip = t.skip[1:]
	}
	if len(t.skip) > 0 && offset >= t.skip[0].From {
		t.done(offset)
		return false
	}
	return true
}

// done marks one added offset and moves the mark over everything that is done.
func (t *tracker) done(offset int64) {
	t.set(offset)
	if offset != t.mark {
		return
	}
	i := t.mark - t.base
	for w := i / trackerWord; w < int64(len(t.words)); w++ {
		rest := t.words[w] >> (i % trackerWord)
		left := trackerWord - i%trackerWord
		ones := min(int64(bits.TrailingZeros64(^rest)), left)
		i += ones
		if ones < left {
			break
		}
	}
	t.mark = min(t.base+i, t.next)
	for len(t.epochs) > 1 && t.epochs[1].from < t.mark {
		t.epochs = t.epochs[1:]
	}
	t.shrink()
}

// shrink forgets the words below the mark once they are the larger part.
func (t *tracker) shrink() {
	gone := int((t.mark - t.base) / trackerWord)
	if gone < minTrackerWords || gone < len(t.words)/2 {
		return
	}
	kept := copy(t.words, t.words[gone:])
	clear(t.words[kept:])
	t.words = t.words[:kept]
	t.base += int64(gone) * trackerWord
}

func (t *tracker) set(offset int64) {
	i := offset - t.base
	for int(i/trackerWord) >= len(t.words) {
		t.words = append(t.words, 0)
	}
	t.words[i/trackerWord] |= 1 << (i % trackerWord)
}

func (t *tracker) isDone(offset int64) bool {
	i := offset - t.base
	return int(i/trackerWord) < len(t.words) && t.words[i/trackerWord]&(1<<(i%trackerWord)) != 0
}

// knows reports whether the record at an offset was read here and is done. A leader epoch writes an offset
// once, so a record of another epoch is another record: the log lost its end meanwhile and has grown
// again. Where no epoch is known any more, or brokers tell none, nothing is.
func (t *tracker) knows(offset int64, leaderEpoch int32) bool {
	if t.first < 0 || offset < t.first || offset >= t.next || offset >= t.mark && !t.isDone(offset) {
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

// span is how many offsets lie between the mark and the newest record.
func (t *tracker) span() int64 { return t.next - t.mark }

// leaderEpoch is the epoch of the last record before the mark, -1 when unknown.
func (t *tracker) leaderEpoch() int32 {
	if len(t.epochs) == 0 {
		return -1
	}
	return t.epochs[0].epoch
}

// holes are the done stretches beyond the mark, lowest first, and those of an earlier owner that were not
// passed yet. There is at most one more of them than there are undone records, of which a partition has few
// thousand, and what the earlier owner left.
func (t *tracker) holes() []stream.Hole {
	var runs []stream.Hole
	for o := t.nextThatIs(true, t.mark); o < t.next; {
		r := stream.Hole{From: o, To: t.nextThatIs(false, o)}
		runs = append(runs, r)
		o = t.nextThatIs(true, r.To)
	}
	for _, s := range t.skip {
		s.From = max(s.From, t.next)
		if s.From >= s.To {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].To == s.From {
			runs[n-1].To = s.To
			continue
		}
		runs = append(runs, s)
	}
	return runs
}

// nextThatIs is the first offset from o on that is done, or is not, or next.
func (t *tracker) nextThatIs(done bool, o int64) int64 {
	for i := o - t.base; o < t.next; {
		word := uint64(0)
		if w := i / trackerWord; w < int64(len(t.words)) {
			word = t.words[w]
		}
		if !done {
			word = ^word
		}
		if rest := word >> (i % trackerWord); rest != 0 {
			return min(o+int64(bits.TrailingZeros64(rest)), t.next)
		}
		step := trackerWord - i%trackerWord
		i, o = i+step, o+step
	}
	return t.next
}
