package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// Errors of Read.
var (
	// ErrOutOfRange means that an offset is below the start of a partition, or beyond its end.
	ErrOutOfRange = errors.New("the log does not have this offset")
	// ErrDamaged means that a file does not contain what was written.
	ErrDamaged = errors.New("a file of the log is damaged")
	// ErrMissing is an ErrDamaged that Config.SkipMissing ignores: a partition has lost records.
	ErrMissing = fmt.Errorf("%w or cut", ErrDamaged)
)

// Most bounds what Read returns.
type Most struct {
	Bytes, Frames int
	One           bool // the first record is returned even if it alone is larger than Bytes
}

// Read appends the records from an offset on to dst, without those that are missing. At the end of the partition it
// appends none.
func (p *Partition) Read(from int64, most Most, dst []Frame) ([]Frame, error) {
	p.mu.Lock()
	if from < p.start || from > p.end.Load() {
		p.mu.Unlock()
		return dst, ErrOutOfRange
	}
	for _, m := range p.missing {
		if m.From <= from && from < m.To {
			from = m.To
		}
	}
	if from == p.end.Load() {
		p.mu.Unlock()
		return dst, nil
	}
	i, _ := slices.BinarySearchFunc(p.tail, from, func(b *block, from int64) int { return cmp.Compare(b.first, from+1) })
	if i == 0 {
		s, _ := slices.BinarySearchFunc(p.segments, from, func(s *segment, from int64) int {
			return cmp.Compare(s.base, from+1)
		})
		seg := *p.segments[s-1]
		m, _ := slices.BinarySearchFunc(seg.marks, from, func(m mark, from int64) int {
			return cmp.Compare(m.offset, from+1)
		})
		at := seg.marks[m-1].at
		p.mu.Unlock()
		return p.readFile(seg, at, reading{from: from, most: most, dst: dst, parse: p.checkedFrame})
	}
	var blocks []*block
	for bytes := 0; i-1 < len(p.tail) && bytes <= most.Bytes && len(blocks) < most.Frames; i++ {
		b := p.tail[i-1]
		blocks = append(blocks, b)
		if len(blocks) > 1 { // of the first one the records below from do not count
			bytes += len(b.data)
		}
	}
	p.mu.Unlock()
	r := reading{from: from, most: most, dst: dst, parse: parseFrame}
	for _, b := range blocks {
		if r.add(b.data); r.full {
			break
		}
	}
	return r.dst, nil
}

func (p *Partition) checkedFrame(b []byte) (Frame, int, bool) { return checkedFrame(p.seed, b) }

// reading collects frames.
type reading struct {
	from        int64
	most        Most // that may still be added
	dst         []Frame
	added, full bool
	parse       func([]byte) (Frame, int, bool)
}

// add adds the frames of b, and returns how many bytes of it were whole frames that are added or below from.
func (r *reading) add(b []byte) (used int) {
	for used < len(b) {
		f, size, ok := r.parse(b[used:])
		if !ok {
			return used
		}
		if f.Offset >= r.from {
			if r.most.Frames == 0 || !r.most.One && size > r.most.Bytes {
				r.full = true
				return used
			}
			r.dst, r.added, r.most.One = append(r.dst, f), true, false
			r.most.Bytes -= size
			r.most.Frames--
		}
		used += size
	}
	return used
}

// readFile reads records of a segment from a place on.
func (p *Partition) readFile(seg segment, at int64, r reading) ([]Frame, error) {
	f, err := p.log.disk.Open(p.log.path(p.name(seg.base)), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return r.dst, ErrOutOfRange // it was trimmed meanwhile
	}
	if err != nil {
		return r.dst, err
	}
	defer f.Close()
	for want := int64(markBytes + min(r.most.Bytes, maxFrameBytes)); at < seg.size; {
		b := make([]byte, min(want, seg.size-at))
		if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return r.dst, err
		}
		used := r.add(b)
		if r.full || r.added && used > 0 {
			return r.dst, nil
		}
		if used == 0 { // one frame is larger, or is none
			want = int64(frameSize(b))
			if want <= int64(len(b)) || at+int64(len(b)) == seg.size {
				if next, ok := p.afterMissing(seg, at); ok {
					at, want = next, markBytes
					continue
				}
				return r.dst, fmt.Errorf("%w: %s at byte %d", ErrDamaged, p.name(seg.base), at)
			}
		}
		at += int64(used)
	}
	return r.dst, nil
}

// afterMissing returns where a segment goes on behind damaged records that begin at a place.
func (p *Partition) afterMissing(seg segment, at int64) (next int64, ok bool) {
	for _, m := range seg.marks {
		if m.at > at {
			return m.at, slices.ContainsFunc(p.missing, func(x Missing) bool { return x.To == m.offset })
		}
	}
	return 0, false
}

// OffsetForTime returns the offset of the first record that is not older than a time; without one it is the end.
func (p *Partition) OffsetForTime(timeMS int64) (int64, error) {
	p.mu.Lock()
	start, end := p.start, p.end.Load()
	var ranges [][2]int64 // of offsets in which there may be one
	for i, s := range p.segments {
		if s.maxTime < timeMS {
			continue
		}
		for j, m := range s.marks {
			to := end
			if j+1 < len(s.marks) {
				to = s.marks[j+1].offset
			} else if i+1 < len(p.segments) {
				to = p.segments[i+1].base
			}
			if m.maxTime >= timeMS && to > start {
				ranges = append(ranges, [2]int64{max(m.offset, start), to})
			}
		}
	}
	p.mu.Unlock()
	for _, r := range ranges {
		for from := r[0]; from < r[1]; {
			frames, err := p.Read(from, Most{markBytes, 1000, true}, nil)
			if errors.Is(err, ErrOutOfRange) { // it was trimmed meanwhile
				break
			}
			if err != nil {
				return 0, err
			}
			if len(frames) == 0 { // the rest is missing
				break
			}
			for _, f := range frames {
				if f.Time >= timeMS {
					return f.Offset, nil
				}
			}
			from = frames[len(frames)-1].Offset + 1
		}
	}
	return end, nil
}

// memory returns about the bytes that a block takes.
func (b *block) memory() int64 { return int64(cap(b.data)) + 256 }

// tail bounds the blocks that all partitions keep in memory.
type tail struct {
	max int64

	mu     sync.Mutex // guards the fields below
	bytes  int64
	blocks []*block // in the order in which they were written
}

func (t *tail) add(b *block) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes += b.memory()
	t.blocks = append(t.blocks, b)
}

// evict drops the oldest blocks that are too many. The caller holds the lock of no partition.
func (t *tail) evict() {
	t.mu.Lock()
	n := 0
	for ; t.bytes > t.max && n < len(t.blocks); n++ {
		t.bytes -= t.blocks[n].memory()
	}
	dropped := t.blocks[:n:n]
	t.blocks = t.blocks[n:]
	t.mu.Unlock()
	for _, b := range dropped {
		p := b.partition
		p.mu.Lock()
		p.tail[0] = nil // the array lives on
		p.tail = p.tail[1:]
		p.mu.Unlock()
	}
	clear(dropped)
}
