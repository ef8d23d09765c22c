package kafka

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// disk knows the file layout of kfake and syncs its files.
//
//	partitions/<topic>-<partition>/<base offset>.dat   records, appended
//	                              /<base offset>.idx   leader epochs and transaction flags
//	groups.log                                         groups and committed offsets, appended
//	topics.json and the like                           replaced by rename after an fsync
//
// The .idx files need no sync: with one broker and no transactions all their entries are equal, and kfake assumes
// the same for a missing or damaged file.
type disk struct {
	root     string
	syncFile func(path string) error // fdatasync: data and length
	syncDir  func(path string) error // the entries of a directory

	groups *groupsLog
	state  *stateDir

	mu         sync.Mutex // guards partitions
	partitions map[topicPartition]*partition
}

type topicPartition struct {
	topic     string
	partition int32
}

func newDisk(root string) *disk {
	d := &disk{root: root, syncFile: fdatasync, syncDir: fsyncDir, partitions: make(map[topicPartition]*partition)}
	d.groups, d.state = &groupsLog{disk: d}, &stateDir{disk: d}
	return d
}

// partition returns the entry of a partition, which the first call creates.
func (d *disk) partition(topic string, p int32) *partition {
	key := topicPartition{topic, p}
	d.mu.Lock()
	defer d.mu.Unlock()
	part := d.partitions[key]
	if part == nil {
		part = &partition{disk: d, dir: d.partitionDir(topic, p), lastSynced: -1}
		d.partitions[key] = part
	}
	return part
}

func (d *disk) partitionDir(topic string, p int32) string {
	return filepath.Join(d.root, "partitions", url.PathEscape(topic)+"-"+strconv.Itoa(int(p)))
}

// syncAll syncs everything in the data directory.
func (d *disk) syncAll() error {
	dirs := []string{d.root}
	var files []string
	err := filepath.WalkDir(d.root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != d.root:
			dirs = append(dirs, path)
		case strings.HasSuffix(path, ".dat"), path == d.groups.path():
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list data directory: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(maxParallelSyncs)
	for _, path := range files {
		group.Go(func() error { return d.syncFile(path) })
	}
	for _, path := range dirs {
		group.Go(func() error { return d.syncDir(path) })
	}
	return group.Wait()
}

// partition is the directory of one partition. One barrier at a time syncs it.
type partition struct {
	disk       *disk
	dir        string
	lastSynced int64 // base offset of the newest segment at the last sync; -1 before the first
	listing    listing
}

// sync syncs what was appended since the last sync. kfake appends to the newest segment and closes the one before it
// without a sync, so all segments from lastSynced on are synced. Paths are opened each time: a topic that was deleted
// and created again has new files of the same names.
func (p *partition) sync() error {
	bases, err := p.listing.segments(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return p.disk.checkDataDir()
	}
	if err != nil {
		return fmt.Errorf("list partition: %w", err)
	}
	if len(bases) == 0 {
		return nil // its records were deleted
	}
	newest := bases[len(bases)-1]
	for _, base := range bases {
		if base < p.lastSynced && newest >= p.lastSynced {
			continue
		}
		if err := p.disk.syncFile(segmentPath(p.dir, base)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if newest == p.lastSynced {
		return nil
	}
	dirs := []string{p.dir}
	if p.lastSynced < 0 {
		dirs = append(dirs, filepath.Dir(p.dir), p.disk.root)
	}
	for _, dir := range dirs {
		if err := p.disk.syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.lastSynced = newest
	return nil
}

// checkDataDir is called when a file is missing. nil: its topic was deleted and nothing has to be synced. An error: the
// data directory was removed while the broker runs, which now writes to unlinked files.
func (d *disk) checkDataDir() error {
	if _, err := os.Stat(filepath.Join(d.root, "meta.json")); err != nil {
		return fmt.Errorf("find data directory: %w", err)
	}
	return nil
}

func segmentPath(dir string, base int64) string {
	return filepath.Join(dir, strconv.FormatInt(base, 10)+".dat")
}

// listing remembers the segments of one partition, because a sync that lists the directory costs several system calls
// more. A file that is created, removed or renamed sets the directory's modification time, from a clock that may be
// some milliseconds late. So the segments are remembered only if the directory had not changed for settled when it was
// listed: any later change then has a later time. That does not hold once the wall clock has been set, against which
// the monotonic clock is compared.
type listing struct {
	dir   os.FileInfo // before it was listed; nil: nothing is remembered
	at    time.Time   // when it was listed, by the monotonic clock
	wall  int64       // the same, by the wall clock, in nanoseconds
	bases []int64
}

// settled is how long a directory must not have changed, and twice as long as the wall clock may be set back.
const settled = time.Second

// segments is the function segments, from memory if the directory has not changed since.
func (l *listing) segments(dir string) ([]int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	setBy := time.Duration(now.UnixNano()-l.wall) - now.Sub(l.at) // the wall clock, since then
	if l.dir != nil && setBy.Abs() < settled/2 && os.SameFile(l.dir, info) && l.dir.ModTime().Equal(info.ModTime()) {
		return l.bases, nil
	}
	l.dir = nil
	bases, err := segments(dir)
	if err == nil && now.Sub(info.ModTime()) > settled {
		l.dir, l.at, l.wall, l.bases = info, now, now.UnixNano(), bases
	}
	return bases, err
}

// segments returns the base offsets of a partition's segments, ascending.
func segments(dir string) ([]int64, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, name := range names {
		if text, ok := strings.CutSuffix(name, ".dat"); ok {
			base, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("segment %q: %w", name, err)
			}
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// groupsLog is the file of committed offsets. kfake replaces it from time to time.
type groupsLog struct {
	disk     *disk
	lastInfo os.FileInfo // of the file when its directory was last synced
}

func (g *groupsLog) path() string { return filepath.Join(g.disk.root, "groups.log") }

func (g *groupsLog) sync() error {
	info, err := os.Stat(g.path())
	if errors.Is(err, fs.ErrNotExist) {
		return g.disk.checkDataDir() // no offset was committed yet
	}
	if err != nil {
		return fmt.Errorf("find committed offsets: %w", err)
	}
	if err := g.disk.syncFile(g.path()); err != nil {
		return err
	}
	if g.lastInfo != nil && os.SameFile(g.lastInfo, info) {
		return nil
	}
	if err := g.disk.syncDir(g.disk.root); err != nil {
		return err
	}
	g.lastInfo = info
	return nil
}

// stateDir is the root directory, with the files that kfake replaces by rename.
type stateDir struct{ disk *disk }

func (s *stateDir) sync() error { return s.disk.syncDir(s.disk.root) }
