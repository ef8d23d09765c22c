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

// recover reads the state log and all segments.
func (l *Log) recover() error {
	if err := l.recoverState(); err != nil {
		return err
	}
	for _, t := range l.state.topics {
		l.addPartitions(t)
	}
	found, err := l.listSegments()
	if err != nil {
		return errors.Join(err, l.closeFiles())
	}
	var buf []byte // one for all files
	for key, bases := range found {
		p := l.partitions[key]
		if p == nil {
			return errors.Join(fmt.Errorf("%w: there is a file for partition %s, which %s does not name", ErrDamaged, key,
				StateFile), l.closeFiles())
		}
		if err := p.recover(bases, &buf); err != nil {
			return errors.Join(err, l.closeFiles())
		}
	}
	return nil
}

func (l *Log) closeFiles() (err error) {
	for _, p := range l.partitions {
		if p.file != nil {
			err = errors.Join(err, p.file.Close())
		}
	}
	return errors.Join(err, l.state.file.Close())
}

// recoverState reads the state log, or creates it.
func (l *Log) recoverState() error {
	s := &state{log: l, max: maxStateBytes, topics: make(map[string]Topic), commits: make(map[string]map[Key]Commit),
		starts: make(map[Key]int64)}
	l.state = s
	b, err := os.ReadFile(l.path(StateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	end, next, err := scan(b, seedOf(StateFile), 0, func(f Frame, _ int) error {
		var e stateEntry
		if err := json.Unmarshal(f.Payload, &e); err != nil {
			return err
		}
		s.apply(e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", StateFile, err)
	}
	if end == 0 {
		return s.rewrite()
	}
	s.file, err = l.reopen(StateFile, int64(end), int64(len(b)))
	s.size, s.seq, s.synced = int64(end), next, next
	return err
}

// listSegments returns the base offsets of the segments of each partition, ascending.
func (l *Log) listSegments() (map[Key][]int64, error) {
	entries, err := os.ReadDir(l.cfg.Dir)
	if err != nil {
		return nil, err
	}
	found := make(map[Key][]int64)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), extension)
		if !ok {
			continue
		}
		parts := strings.Split(name, "-")
		n := len(parts)
		if n < 3 {
			return nil, fmt.Errorf("%w: unknown file %s", ErrDamaged, e.Name())
		}
		index, err1 := strconv.ParseInt(parts[n-2], 10, 32)
		base, err2 := strconv.ParseInt(parts[n-1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%w: unknown file %s: %w", ErrDamaged, e.Name(), err)
		}
		key := Key{strings.Join(parts[:n-2], "-"), int32(index)}
		found[key] = append(found[key], base)
	}
	for _, bases := range found {
		slices.Sort(bases)
	}
	return found, nil
}

// recover reads the segments of a partition. Only the last one may have a torn end: the others were complete and on
// disk before the next one was created.
func (p *Partition) recover(bases []int64, buf *[]byte) error {
	next := bases[0]
	for i, base := range bases {
		name := p.name(base)
		if base != next {
			return fmt.Errorf("%w: %s follows offset %d, so that records are missing", ErrDamaged, name, next)
		}
		b, err := readInto(p.log.path(name), buf)
		if err != nil {
			return err
		}
		s := &segment{base: base}
		end, scanned, err := scan(b, p.seed, base, func(f Frame, at int) error {
			s.add(f.Offset, int64(at), f.Time)
			return nil
		})
		if err == nil && end < len(b) && i < len(bases)-1 {
			err = fmt.Errorf("%w at byte %d", ErrDamaged, end)
		}
		if err != nil {
			return fmt.Errorf("%s: %w; restore a copy of the data directory", name, err)
		}
		s.size, next = int64(end), scanned
		p.segments = append(p.segments, s)
		if i == len(bases)-1 {
			if p.file, err = p.log.reopen(name, int64(end), int64(len(b))); err != nil {
				return err
			}
		}
	}
	p.start = min(max(bases[0], p.log.state.starts[p.key]), next)
	p.next = next
	p.end.Store(next)
	p.synced.Store(next)
	return nil
}

// reopen opens a file for writing, cuts off what a crash left of a write, and syncs it: readers and commits count on
// what an earlier process left in the page cache.
func (l *Log) reopen(name string, end, size int64) (*os.File, error) {
	f, err := os.OpenFile(l.path(name), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if end < size {
		l.cfg.Log.Warn("cut off a torn write", "file", name, "bytes", size-end)
		err = l.files.truncate(f, end)
	}
	if err == nil && l.cfg.Fsync {
		err = l.files.sync(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readInto reads a file into a buffer that is used again.
func readInto(path string, buf *[]byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if int64(cap(*buf)) < info.Size() {
		*buf = make([]byte, info.Size())
	}
	b := (*buf)[:info.Size()]
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// scan calls each for the frames of b, which have consecutive offsets from next on, and returns where they end. It
// returns an error if a later frame says that a frame which is missing was on disk.
func scan(b []byte, seed uint32, next int64, each func(f Frame, at int) error) (end int, offset int64, err error) {
	for end < len(b) {
		f, size, ok := checkedFrame(seed, b[end:])
		if !ok || f.Offset != next {
			break
		}
		if err := each(f, end); err != nil {
			return end, next, err
		}
		end, next = end+size, next+1
	}
	for at := end + 1; at+headerBytes <= len(b); at++ {
		head, _, whole := parseFrame(b[at:])
		if !whole || head.Offset <= next || syncedBefore(b[at:]) <= next || syncedBefore(b[at:]) > head.Offset {
			continue
		}
		if _, _, ok := checkedFrame(seed, b[at:]); ok {
			return end, next, fmt.Errorf("%w at byte %d: record %d is missing, and record %d is there", ErrDamaged, end, next,
				head.Offset)
		}
	}
	return end, next, nil
}
