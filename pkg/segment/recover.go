package segment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// extension is that of segments.
const extension = ".seg"

// recover reads the state log and all segments. It changes nothing unless all of them are whole.
func (l *Log) recover() error {
	if err := l.readState(); err != nil {
		return err
	}
	for _, t := range l.state.topics {
		l.addPartitions(t)
	}
	found, err := l.listSegments()
	if err != nil {
		return err
	}
	var errs []error
	for key := range found {
		if l.partitions[key] == nil {
			errs = append(errs, fmt.Errorf("%w: there is a file for partition %s, which %s does not name", ErrDamaged, key,
				StateFile))
		}
	}
	var buf []byte // one for all files
	for key, p := range l.partitions {
		errs = append(errs, p.scan(found[key], &buf))
	}
	if err := errors.Join(errs...); err != nil || l.cfg.check {
		return err
	}
	if err := l.syncParents(); err != nil {
		return err
	}
	err = l.openState()
	for _, p := range l.partitions {
		if err == nil {
			err = p.open()
		}
	}
	if err != nil {
		return errors.Join(err, l.closeFiles())
	}
	return nil
}

func (l *Log) closeFiles() (err error) {
	for _, p := range l.partitions {
		if p.file != nil {
			err = errors.Join(err, p.file.Close())
		}
	}
	if l.state.file != nil {
		err = errors.Join(err, l.state.file.Close())
	}
	return err
}

// readState reads the state log.
func (l *Log) readState() error {
	s := &state{log: l, topics: make(map[string]Topic), commits: make(map[string]map[Key]Commit),
		starts: make(map[Key]int64), missing: make(map[Key][]Missing)}
	l.state = s
	b, err := l.read(StateFile, new([]byte))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	end, next, err := scan(b, 0, seedOf(StateFile), 0, 0, func(f Frame, _ int) error {
		var e stateEntry
		if err := json.Unmarshal(f.Payload, &e); err != nil {
			return err
		}
		s.apply(e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, StateFile, err)
	}
	s.size, s.seq, s.synced = int64(end), next, next
	return nil
}

// openState opens the state log for writing, or creates it.
func (l *Log) openState() (err error) {
	if l.state.size == 0 {
		l.state.ends = make(map[Key]int64)
		return l.state.rewrite()
	}
	l.state.file, err = l.reopen(StateFile, l.state.size)
	return err
}

// listSegments returns the base offsets of the segments of each partition, ascending.
func (l *Log) listSegments() (map[Key][]int64, error) {
	names, err := l.disk.ReadDir(l.cfg.Dir)
	if err != nil {
		return nil, err
	}
	found := make(map[Key][]int64)
	for _, file := range names {
		name, ok := strings.CutSuffix(file, extension)
		if !ok {
			continue
		}
		parts := strings.Split(name, "-")
		n := len(parts)
		if n < 3 {
			return nil, fmt.Errorf("%w: unknown file %s", ErrDamaged, file)
		}
		index, err1 := strconv.ParseInt(parts[n-2], 10, 32)
		base, err2 := strconv.ParseInt(parts[n-1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%w: unknown file %s: %w", ErrDamaged, file, err)
		}
		key := Key{strings.Join(parts[:n-2], "-"), int32(index)}
		found[key] = append(found[key], base)
	}
	for _, bases := range found {
		slices.Sort(bases)
	}
	return found, nil
}

// scan reads the segments of a partition. Only the last one may have a torn end: the others were complete and on disk
// before the next one was created.
func (p *Partition) scan(bases []int64, buf *[]byte) error {
	for i, base := range bases {
		name := p.name(base)
		switch before := (Missing{p.key, p.next, base}); {
		case i == 0:
			p.start, p.next = max(base, p.log.state.starts[p.key]), base
		case base == p.next:
		case base > p.next && p.mayLack(before):
			p.missing, p.next = append(p.missing, before), base
		default:
			return fmt.Errorf("%w: %s begins at offset %d, and the file before it ends at %d; restore a copy of the data "+
				"directory", p.errMissing(), name, base, p.next)
		}
		b, err := p.log.read(name, buf)
		if err != nil {
			return err
		}
		s := &segment{base: base}
		var following int64 // all before the next file was on disk
		if i+1 < len(bases) {
			following = bases[i+1]
		}
		end, err := p.scanSegment(s, b, following)
		if err == nil && end < len(b) && i < len(bases)-1 && !p.mayLack(Missing{p.key, p.next, bases[i+1]}) {
			err = fmt.Errorf("%w at byte %d", p.errMissing(), end)
		}
		if err != nil {
			return fmt.Errorf("%s: %w; restore a copy of the data directory", name, err)
		}
		s.size = int64(end)
		p.segments = append(p.segments, s)
	}
	p.start = min(p.start, p.next)
	return p.checkEnd()
}

// mayLack reports whether records may be missing: because an earlier start has skipped them, or because this one does.
func (p *Partition) mayLack(m Missing) bool {
	return p.skips() || slices.Contains(p.log.state.missing[p.key], m)
}

// skips reports whether this start skips what is missing.
func (p *Partition) skips() bool { return p.log.cfg.SkipMissing && !p.log.cfg.MustBeWhole(p.key.Topic) }

// errMissing is the error of records that are missing: one that SkipMissing ignores, or not.
func (p *Partition) errMissing() error {
	if p.log.cfg.MustBeWhole(p.key.Topic) {
		return fmt.Errorf("%w and cannot be skipped", ErrDamaged)
	}
	return ErrMissing
}

// scanSegment reads the records of a file from p.next on, and returns where they end. Damaged ones between others are
// missing if an earlier start or this one skips them.
func (p *Partition) scanSegment(s *segment, b []byte, following int64) (end int, err error) {
	proven, _ := p.log.state.provenEnd(p.key)
	proven = max(proven, following)
	for {
		resume := true
		end, p.next, err = scan(b, end, p.seed, p.next, proven, func(f Frame, at int) error {
			if resume { // readers begin at a mark
				s.marks = append(s.marks, mark{offset: f.Offset, at: int64(at)})
				resume = false
			}
			s.add(f.Offset, int64(at), f.Time)
			return nil
		})
		var hole holeError
		if !errors.As(err, &hole) {
			return end, err
		}
		m := Missing{p.key, p.next, hole.offset}
		if !p.mayLack(m) {
			return end, fmt.Errorf("%w at byte %d: record %d is missing, and record %d is there", p.errMissing(), end, p.next,
				hole.offset)
		}
		p.missing = append(p.missing, m)
		end, p.next = hole.at, hole.offset
	}
}

// holeError says where records go on after some that are damaged.
type holeError struct {
	damaged, at     int   // bytes
	missing, offset int64 // of records
}

func (e holeError) Error() string {
	return fmt.Sprintf("damaged at byte %d: record %d is missing, and record %d is there", e.damaged, e.missing, e.offset)
}

// checkEnd returns an error if a partition has lost records that were on disk.
func (p *Partition) checkEnd() error {
	end, _ := p.log.state.provenEnd(p.key)
	if end <= p.next || p.skips() || p.log.state.skipped(p.key, p.next) >= end {
		return nil
	}
	what := "no file of " + p.key.String() + " is there"
	if s := p.newestLocked(); s != nil {
		what = p.name(s.base)
	}
	return fmt.Errorf("%w: %s: lost records that were on disk: %v; restore a copy of the data directory",
		p.errMissing(), what, Missing{p.key, p.next, end})
}

// open opens the newest segment for writing. If records are missing behind it, the partition goes on behind them: their
// offsets must not be used again, because commits may say that they are completed.
func (p *Partition) open() (err error) {
	for _, s := range p.segments { // all but the newest are cut if what follows their records is skipped
		if p.file != nil {
			_ = p.file.Close()
		}
		if p.file, err = p.log.reopen(p.name(s.base), s.size); err != nil {
			return err
		}
	}
	p.setEnd(p.next)
	state := p.log.state
	_, end := state.provenEnd(p.key)
	end = max(end, state.skipped(p.key, p.next))
	missing := p.missing
	if end > p.next {
		missing = append(missing, Missing{p.key, p.next, end})
	}
	for _, m := range missing {
		if slices.Contains(state.missing[p.key], m) {
			continue
		}
		p.log.cfg.Log.Error("records of the log are missing and are skipped", "missing", m.String())
		if err := state.write(stateEntry{Missing: []Missing{m}}, true); err != nil {
			return err
		}
	}
	if end <= p.next {
		return nil
	}
	s, err := p.roll(end)
	if err != nil {
		return err
	}
	if p.segments = append(p.segments, s); len(p.segments) == 1 {
		p.start = end
	} else {
		p.missing = missing
	}
	p.setEnd(end)
	return nil
}

// setEnd sets the offset of the next record of a partition that is on disk up to there.
func (p *Partition) setEnd(offset int64) {
	p.next = offset
	p.end.Store(offset)
	p.synced.Store(offset)
}

// reopen opens a file for writing, cuts off what a crash left of a write, and syncs it: readers and commits count on
// what an earlier process left in the page cache, and records say that it is on disk.
func (l *Log) reopen(name string, end int64) (File, error) {
	f, err := l.disk.Open(l.path(name), os.O_RDWR)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil && end < size {
		l.cfg.Log.Warn("cut off a torn write", "file", name, "bytes", size-end)
		err = f.Truncate(end)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// read reads a file into a buffer that is used again.
func (l *Log) read(name string, buf *[]byte) ([]byte, error) {
	f, err := l.disk.Open(l.path(name), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if int64(cap(*buf)) < size {
		*buf = make([]byte, size)
	}
	b := (*buf)[:size]
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// scan calls each for the frames of b from a place on, which have consecutive offsets from next on, and returns where
// they end. All below proven were on disk. It returns a holeError if there are later frames, and one that is missing
// was on disk.
func scan(b []byte, from int, seed uint32, next, proven int64, each func(f Frame, at int) error) (
	end int, offset int64, err error) {
	for end = from; end < len(b); {
		f, size, ok := checkedFrame(seed, b[end:])
		if !ok || f.Offset != next {
			break
		}
		if err := each(f, end); err != nil {
			return end, next, err
		}
		end, next = end+size, next+1
	}
	hole := holeError{damaged: end, missing: next}
	for at := end + 1; at+headerBytes <= len(b); at++ {
		head, _, whole := parseFrame(b[at:])
		if !whole || head.Offset <= next || head.Offset-next > int64(len(b)/headerBytes) ||
			syncedBefore(b[at:]) > head.Offset {
			continue
		}
		proves := max(proven, syncedBefore(b[at:])) > next
		if hole.at > 0 && !proves {
			continue
		}
		if _, _, ok := checkedFrame(seed, b[at:]); !ok {
			continue
		}
		if hole.at == 0 { // the first one that is whole
			hole.at, hole.offset = at, head.Offset
		}
		if proves {
			return end, next, hole
		}
	}
	return end, next, nil
}
