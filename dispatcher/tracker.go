package dispatcher

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Limits of what a commit carries beside its offset: Kafka brokers take 4 KB of metadata by default.
const (
	maxHoles         = 1000
	maxHolesEncoded  = 4096
	holesPrefix      = "h1:" // names the encoding, so that a later one can be told apart
	maxHolesBytes    = (maxHolesEncoded - len(holesPrefix)) / 4 * 3
	trackerWord      = 64
	minTrackerWords  = 16
	maxUvarintLength = 10
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
	mark  int64 // lowest offset that is not done; base ≤ mark ≤ next
	skip  []run // done before this assignment, ascending, not yet passed

	epochs []epoch // leader epochs by first offset, the newest last; at least the one before mark is kept
}

// run is a stretch of done offsets [from, to).
type run struct{ from, to int64 }

type epoch struct {
	from  int64
	epoch int32
}

// start begins at the committed offset with the holes of its metadata. A negative offset means that
// nothing was ever committed: the first record decides.
func (t *tracker) start(offset int64, leaderEpoch int32, holes []run) {
	*t = tracker{base: offset, next: offset, mark: offset, skip: holes}
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
	t.next = offset + 1
	if n := len(t.epochs); n == 0 || t.epochs[n-1].epoch != leaderEpoch {
		t.epochs = append(t.epochs, epoch{offset, leaderEpoch})
	}
	for len(t.skip) > 0 && offset >= t.skip[0].to {
		t.skip = t.skip[1:]
	}
	if len(t.skip) > 0 && offset >= t.skip[0].from {
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

// span is how many offsets lie between the mark and the newest record.
func (t *tracker) span() int64 { return t.next - t.mark }

// leaderEpoch is the epoch of the last record before the mark, -1 when unknown.
func (t *tracker) leaderEpoch() int32 {
	if len(t.epochs) == 0 {
		return -1
	}
	return t.epochs[0].epoch
}

// holes are the done stretches beyond the mark, at most limit of them, lowest first, and those of an
// earlier owner that were not passed yet.
func (t *tracker) holes(limit int) []run {
	var runs []run
	for o := t.mark; o < t.next && len(runs) < limit; {
		if !t.isDone(o) {
			o = t.nextDone(o)
			continue
		}
		r := run{from: o}
		for o < t.next && t.isDone(o) {
			o++
		}
		r.to = o
		runs = append(runs, r)
	}
	for _, s := range t.skip {
		s.from = max(s.from, t.next)
		if s.from >= s.to || len(runs) == limit {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].to == s.from {
			runs[n-1].to = s.to
			continue
		}
		runs = append(runs, s)
	}
	return runs
}

// nextDone is the first done offset from o on, or next.
func (t *tracker) nextDone(o int64) int64 {
	i := o - t.base
	for w := i / trackerWord; w < int64(len(t.words)); w++ {
		if rest := t.words[w] >> (i % trackerWord); rest != 0 {
			return min(o+int64(bits.TrailingZeros64(rest)), t.next)
		}
		step := trackerWord - i%trackerWord
		i, o = i+step, o+step
	}
	return t.next
}

// encodeHoles writes runs beyond mark as pairs of unsigned varints, gap and length, in base64. Runs
// that do not fit are left out: their records will be done twice, none is lost.
func encodeHoles(mark int64, runs []run) string {
	if len(runs) == 0 {
		return ""
	}
	b := make([]byte, 0, min(len(runs)*2*maxUvarintLength, maxHolesBytes))
	at := mark
	for _, r := range runs[:min(len(runs), maxHoles)] {
		size := len(b)
		b = binary.AppendUvarint(b, uint64(r.from-at))
		b = binary.AppendUvarint(b, uint64(r.to-r.from))
		if len(b) > maxHolesBytes {
			b = b[:size]
			break
		}
		at = r.to
	}
	return holesPrefix + base64.StdEncoding.EncodeToString(b)
}

// decodeHoles reads what encodeHoles wrote. Metadata that is not ours is an error: the caller goes on
// without holes, which costs duplicates only.
func decodeHoles(mark int64, metadata string) ([]run, error) {
	if metadata == "" {
		return nil, nil
	}
	if len(metadata) < len(holesPrefix) || metadata[:len(holesPrefix)] != holesPrefix {
		return nil, errors.New("decode holes: unknown encoding")
	}
	b, err := base64.StdEncoding.DecodeString(metadata[len(holesPrefix):])
	if err != nil {
		return nil, fmt.Errorf("decode holes: %w", err)
	}
	var runs []run
	for at := mark; len(b) > 0; {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errors.New("decode holes: broken varint")
		}
		length, m := binary.Uvarint(b[n:])
		if m <= 0 || length == 0 || gap > 1<<40 || length > 1<<40 {
			return nil, errors.New("decode holes: broken varint")
		}
		r := run{from: at + int64(gap), to: at + int64(gap) + int64(length)}
		runs, at, b = append(runs, r), r.to, b[n+m:]
	}
	return runs, nil
}
