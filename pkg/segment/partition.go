package segment

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

// Entry is a record to append.
type Entry interface {
	Size() int                    // about the bytes of the payload
	AppendTo(dst []byte) []byte   // appends the payload
	Done(offset int64, err error) // is called once, on a goroutine of the log
}

// Partition is one partition. Its methods may be called at the same time.
type Partition struct {
	log  *Log
	key  Key
	seed uint32 // of checksums
	acks *acker
	// missing are ranges of records that an earlier start found missing. They do not change after Open.
	missing []Missing

	end    atomic.Int64 // offset of the next record to be written: all below can be read
	synced atomic.Int64 // offset below which all is on disk

	syncing sync.Mutex // held while file is synced or replaced
	file    File       // the newest segment; nil before the first record. Only who writes replaces it.

	mu       sync.Mutex // guards the fields below
	start    int64      // first offset that can be read
	next     int64      // offset of the next record to be appended
	segments []*segment
	tail     []*block // the newest blocks, without gaps up to end; older ones are only on disk
	pending  *block   // appended, not being written yet; nil: nothing
	writing  bool     // a goroutine writes, and will write pending too
	timer    bool     // pending will be written when a timer fires
	torn     bool     // the file may be longer than its segment, because a write failed; then nothing may follow it
	wake     []chan<- struct{}
}

// segment is one file.
type segment struct {
	base    int64 // offset of the first record
	size    int64 // bytes
	maxTime int64
	marks   []mark
}

// mark is a place in a segment from which it can be read.
type mark struct {
	offset, at int64
	maxTime    int64 // of the records up to the next mark
}

// markBytes is about how much of a file a reader reads to find one record.
const markBytes = 64 << 10

// block is what one write writes.
type block struct {
	partition *Partition
	first     int64 // offset
	count     int64
	maxTime   int64
	data      []byte
	entries   []Entry // to be acknowledged
}

// maxLingerBytes ends the wait of a record for others.
const maxLingerBytes = 1 << 20

// Append appends a record. With linger it may be written that much later, together with others. The order of calls is
// the order of records.
func (p *Partition) Append(timeMS int64, e Entry, linger time.Duration) {
	p.mu.Lock()
	if p.pending == nil {
		p.pending = &block{partition: p, first: p.next, data: make([]byte, 0, headerBytes+e.Size())}
	}
	b := p.pending
	b.data = appendFrame(b.data, p.seed, p.next, p.synced.Load(), timeMS, e.AppendTo)
	b.entries, b.maxTime = append(b.entries, e), max(b.maxTime, timeMS)
	b.count++
	p.next++
	switch {
	case p.writing:
	case linger == 0 || len(b.data) >= maxLingerBytes:
		p.writeLocked()
	case !p.timer:
		p.timer = true
		time.AfterFunc(linger, p.flush)
	}
	p.mu.Unlock()
	p.log.tail.evict()
}

// flush writes what waits for a timer.
func (p *Partition) flush() {
	p.mu.Lock()
	if p.timer = false; !p.writing {
		p.writeLocked()
	}
	p.mu.Unlock()
	p.log.tail.evict()
}

// writeLocked writes what is pending, and what others append meanwhile. It releases mu while it writes.
func (p *Partition) writeLocked() {
	p.writing = true
	for p.pending != nil {
		b := p.pending
		p.pending = nil
		at := p.newestLocked()
		p.mu.Unlock()
		at, err := p.write(b, at)
		p.mu.Lock()
		if at != p.newestLocked() {
			p.segments = append(p.segments, at)
		}
		if err != nil {
			p.failLocked(b, err)
		} else {
			p.publishLocked(b, at)
		}
	}
	p.writing = false
}

// newestLocked returns the segment that is written; nil if there is none.
func (p *Partition) newestLocked() *segment {
	if len(p.segments) == 0 {
		return nil
	}
	return p.segments[len(p.segments)-1]
}

// write writes a block behind a segment, or into a new one, and returns the one that it wrote to.
func (p *Partition) write(b *block, at *segment) (*segment, error) {
	if err := p.log.err(); err != nil {
		return at, err
	}
	if p.torn {
		if err := p.cut(at.size); err != nil {
			return at, fmt.Errorf("cut off a failed write: %w", err)
		}
		p.torn = false
	}
	if at == nil || at.size > 0 && at.size+int64(len(b.data)) > p.log.cfg.SegmentBytes {
		next, err := p.roll(b.first)
		if err != nil {
			return at, err
		}
		at = next
	}
	if _, err := p.file.WriteAt(b.data, at.size); err != nil {
		if p.torn = p.cut(at.size) != nil; p.torn {
			err = fmt.Errorf("%w: %w", ErrTorn, err)
		}
		return at, fmt.Errorf("write %s: %w", p.name(at.base), err)
	}
	return at, nil
}

// cut cuts the newest segment off behind its last record, on disk too: after a power cut a failed write must not come
// back, and only the newest segment may have a torn end.
func (p *Partition) cut(size int64) error {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	if err := p.file.Truncate(size); err != nil {
		return err
	}
	if err := p.file.Sync(); err != nil {
		p.log.fail(err)
		return p.log.err()
	}
	return nil
}

// roll begins a new segment. All earlier ones are complete and on disk.
func (p *Partition) roll(base int64) (*segment, error) {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	if p.file != nil && p.synced.Load() < p.end.Load() { // without Fsync too: recover relies on it
		if err := p.file.Sync(); err != nil {
			p.log.fail(err)
			return nil, p.log.err()
		}
		p.synced.Store(p.end.Load())
	}
	path, disk := p.log.path(p.name(base)), p.log.disk
	f, err := disk.Open(path, createFlag)
	if err != nil {
		return nil, err
	}
	if err := disk.SyncDir(p.log.cfg.Dir); err != nil {
		return nil, errors.Join(err, f.Close(), disk.Remove(path))
	}
	if p.file != nil {
		_ = p.file.Close() // what it has is on disk
	}
	p.file = f
	return &segment{base: base}, nil
}

// failLocked fails a block and all that was appended after it: their offsets are those of the next records.
func (p *Partition) failLocked(b *block, err error) {
	blocks := []*block{b}
	if p.pending != nil {
		blocks, p.pending = append(blocks, p.pending), nil
	}
	p.next = p.end.Load()
	for _, b := range blocks {
		p.acks.add(b, err)
	}
}

// publishLocked lets readers see a block that was written to a segment.
func (p *Partition) publishLocked(b *block, at *segment) {
	at.add(b.first, at.size, b.maxTime)
	at.size += int64(len(b.data))
	p.tail = append(p.tail, b)
	p.log.tail.add(b)
	p.end.Store(b.first + b.count)
	for _, c := range p.wake {
		wait.Wake(c)
	}
	p.acks.add(b, nil)
}

// add notes records from an offset and a place on.
func (s *segment) add(offset, at, maxTime int64) {
	if n := len(s.marks); n == 0 || at-s.marks[n-1].at >= markBytes {
		s.marks = append(s.marks, mark{offset, at, maxTime})
	}
	last := &s.marks[len(s.marks)-1]
	last.maxTime, s.maxTime = max(last.maxTime, maxTime), max(s.maxTime, maxTime)
}

// sync syncs what is written. An error is final at once: others must not sync the same file again.
func (p *Partition) sync() error {
	p.syncing.Lock()
	defer p.syncing.Unlock()
	end := p.end.Load()
	if err := p.log.err(); err != nil || p.synced.Load() >= end {
		return err
	}
	if err := p.file.Sync(); err != nil {
		p.log.fail(err)
		return p.log.err()
	}
	p.synced.Store(end)
	return nil
}

func (p *Partition) name(base int64) string {
	return fmt.Sprintf("%s-%020d%s", p.key, base, extension)
}

// Key names the partition.
func (p *Partition) Key() Key { return p.key }

// Start returns the first offset that can be read.
func (p *Partition) Start() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start
}

// End returns the offset behind the last record.
func (p *Partition) End() int64 {
	end := p.end.Load()
	for i := len(p.missing) - 1; i >= 0 && p.missing[i].To == end; i-- {
		end = max(p.missing[i].From, p.Start()) // who reads up to the end would wait for what is missing
	}
	return end
}

// AcknowledgedEnd returns the offset below which all records are as safe as acknowledged ones.
func (p *Partition) AcknowledgedEnd() int64 {
	if p.acks.syncs {
		return min(p.End(), p.synced.Load())
	}
	return p.End()
}

// Next returns the offset of the next record. It is not End while the last records are missing.
func (p *Partition) Next() int64 { return p.end.Load() }

// Bytes returns the size of the partition's files.
func (p *Partition) Bytes() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.segments {
		n += s.size
	}
	return n
}

// Subscribe lets each write send to c, unless c is full.
func (p *Partition) Subscribe(c chan<- struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake = append(p.wake, c)
}

// Unsubscribe ends a subscription.
func (p *Partition) Unsubscribe(c chan<- struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake = slices.DeleteFunc(p.wake, func(other chan<- struct{}) bool { return other == c })
}

// Begin sets the offset of the first record of a partition that never had one: it continues a log from elsewhere.
func (p *Partition) Begin(offset int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil || p.writing || p.pending != nil {
		return fmt.Errorf("partition %s has records already", p.key)
	}
	s, err := p.roll(offset)
	if err != nil {
		return err
	}
	p.segments, p.start = []*segment{s}, offset
	p.setEnd(offset)
	return nil
}

// trim deletes the records before an offset, and the files that have no others. It returns the new start.
func (p *Partition) trim(before int64) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start = max(p.start, min(before, p.end.Load()))
	errs := []error{p.removeTrimmedLocked()}
	// The newest segment says where the log ends, so it is deleted only when another one says it.
	if s := p.newestLocked(); s != nil && !p.writing && !p.torn && p.pending == nil && p.start == p.end.Load() &&
		s.size > p.log.cfg.SegmentBytes/emptiedShare {
		next, err := p.roll(p.start)
		if err == nil {
			p.segments = append(p.segments, next)
			err = p.removeTrimmedLocked()
		}
		errs = append(errs, err)
	}
	return p.start, errors.Join(errs...)
}

// removeTrimmedLocked deletes the files without records that can be read.
func (p *Partition) removeTrimmedLocked() error {
	for len(p.segments) > 1 && p.segments[1].base <= p.start {
		path := p.log.path(p.name(p.segments[0].base))
		if err := p.log.disk.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		p.segments = p.segments[1:]
	}
	return nil
}

// emptiedShare: a newest segment without records is replaced if it is larger than this share of a full one.
const emptiedShare = 64
