// Package segment is a log on disk for one process: topics with partitions, whose records have consecutive offsets. It
// knows files and bytes only; what a record's payload means is up to the caller (pkg/stream). Begin reading at
// Partition.Append, then ack.go and recover.go.
//
//	lock                                     one process at a time
//	state.log                                topics, committed offsets, and where trimmed partitions start
//	<topic>-<partition>-<base offset>.seg    records, appended
//
// Append writes at once, and its callback runs when the record is safe: after an fdatasync that began after the write
// if the topic is durable, else after the write. Records that arrive while a partition is being written share the next
// write, and all that were written during a sync share the next one. Readers see a record after its write, before its
// sync.
//
// All readers share a tail in memory of bounded size. Older records are read from the files.
//
// A failed write, as on a full disk, is an error for the records of that write; the file is cut back, on disk too, and
// the log goes on when there is room. An error of a sync is final: the kernel has dropped the dirty pages, so that a
// second sync would succeed although the data is lost. Nothing is acknowledged after it, and Run returns it.
//
// Invariants:
//   - After a power cut at any write every acknowledged record and commit is there, no partition has a hole, and no
//     committed offset lies beyond the end: TestPowerCutAtEveryOperation, TestCutAtEveryByte
//   - A damaged record below a synced one is an error, not a shorter log: TestHoleIsAnError
//   - A partition that has lost records which were on disk is an error. Whatever is lost, no offset is used again:
//     TestDamagedFiles, TestSkipMissing
//   - A power cut without fsync loses the newest records, and never the ability to start: TestPowerCutWithoutFsync
//   - A full disk loses nothing that was acknowledged, and the log goes on when there is room: TestFullDisk,
//     TestFailedWriteIsCutOffOnDisk
//   - Nothing is acknowledged after a failed sync: TestSyncErrorIsFinal, TestSyncErrorIsFinalAtOnce
//   - A copy that is made while the log grows and is trimmed has all records above its commits: TestSnapshot
//   - Memory is bounded, and a reader that is behind reads the same records from the files: TestTailIsBounded
package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Config is the configuration of a log.
type Config struct {
	Dir string // created if it does not exist
	// Fsync delays acknowledgements on durable topics, and all commits, until they are on disk. Without it they survive
	// the death of the process but not a power cut.
	Fsync        bool
	Durable      func(topic string) bool // nil: all topics are
	SegmentBytes int64                   // size of a file; deleted records leave the disk by whole files. 0 = 16 MiB
	StateBytes   int64                   // size at which the state log is written anew; 0 = 8 MiB
	TailBytes    int64                   // records in memory, of all partitions together; 0 = 16 MiB
	// SkipMissing opens a log whose partitions have lost records, and goes on behind the highest offset that they are
	// known to have had. Without it Open refuses them.
	SkipMissing bool
	MustBeWhole func(topic string) bool // topics to which SkipMissing does not apply; nil: none
	// CommitEnd returns the end of a partition that a commit proves, from its offset and metadata. nil: its offset.
	CommitEnd func(Commit) int64
	Log       *slog.Logger // nil: nothing is logged
	Disk      Disk         // nil: that of the system
	// Synced is called after each round of syncs, with the number of files and the duration. nil: nobody counts.
	Synced func(durable bool, files int, took time.Duration)

	check bool // Open reads everything and changes nothing
}

// Log is an open log.
type Log struct {
	cfg    Config
	disk   Disk
	unlock func()
	state  *state
	tail   tail
	// durable and other acknowledge records of durable topics and of all others.
	durable, other acker

	commits sync.Mutex   // held by Commit: one runs at a time
	trims   sync.RWMutex // held by Trim for reading, and by a Snapshot

	mu         sync.Mutex // guards partitions
	partitions map[Key]*Partition

	failOnce sync.Once
	failed   chan struct{} // closed by the first error that is final
	failure  error         // set before failed is closed
}

// Key names a partition.
type Key struct {
	Topic string
	Index int32
}

func (k Key) String() string { return fmt.Sprintf("%s-%d", k.Topic, k.Index) }

// ErrTorn is part of the error of a write that failed and could not be cut off: if the process dies now, the next one
// may find its records.
var ErrTorn = errors.New("what was written could not be removed")

// ErrFailed is part of every error after a sync has failed.
var ErrFailed = errors.New("the log could not be synced to disk, and takes nothing more")

// Open locks the directory and reads the whole log. A torn end, which a crash leaves, is cut off. A damaged record
// before the end is an error, and so is a partition that has lost records which were on disk.
func Open(cfg Config) (*Log, error) {
	cfg.setDefaults()
	unlock, err := cfg.Disk.Lock(cfg.Dir)
	if err != nil {
		return nil, err
	}
	l := &Log{cfg: cfg, disk: cfg.Disk, unlock: unlock, partitions: make(map[Key]*Partition),
		failed: make(chan struct{}), tail: tail{max: cfg.TailBytes}}
	l.durable, l.other = newAcker(l, cfg.Fsync), newAcker(l, false)
	if err := l.recover(); err != nil {
		unlock()
		return nil, fmt.Errorf("read the log in %s: %w", cfg.Dir, err)
	}
	return l, nil
}

// Check returns the error of Open, with all that is damaged, or else what earlier starts skipped. It changes nothing.
// The error is fs.ErrNotExist if there is no log.
func Check(cfg Config) ([]Missing, error) {
	cfg.setDefaults()
	f, err := cfg.Disk.Open(filepath.Join(cfg.Dir, StateFile), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	cfg.check = true
	l, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	defer l.unlock()
	return l.Missing(), nil
}

func (cfg *Config) setDefaults() {
	cfg.SegmentBytes, cfg.TailBytes = cmp.Or(cfg.SegmentBytes, 16<<20), cmp.Or(cfg.TailBytes, 16<<20)
	cfg.StateBytes = cmp.Or(cfg.StateBytes, maxStateBytes)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MustBeWhole == nil {
		cfg.MustBeWhole = func(string) bool { return false }
	}
	if cfg.CommitEnd == nil {
		cfg.CommitEnd = func(c Commit) int64 { return c.Offset }
	}
	if cfg.Disk == nil {
		cfg.Disk = osDisk{}
	}
}

// syncParents lets the names of the log and of the data directory around it survive a power cut. What this user may not
// read was made by another one.
func (l *Log) syncParents() error {
	parent := filepath.Dir(l.cfg.Dir)
	for _, dir := range []string{parent, filepath.Dir(parent)} {
		if err := l.disk.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("sync directory: %w", err)
		}
	}
	return nil
}

// Run acknowledges what is appended until ctx ends, and then what is left. It returns an error if a sync fails. Nothing
// may be appended after it.
func (l *Log) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { l.durable.run(ctx) })
	running.Go(func() { l.other.run(ctx) })
	select {
	case <-ctx.Done():
	case <-l.failed:
		cancel()
	}
	running.Wait()
	return l.err()
}

// Close syncs what is written, unless a sync has failed, and closes the files. Run must have returned.
func (l *Log) Close() error {
	defer l.unlock()
	err := l.err()
	if err == nil { // without Fsync too: a power cut after a stop loses nothing
		err = l.syncDirty()
	}
	if ends := l.state.newEnds(); err == nil && len(ends) > 0 {
		if werr := l.state.write(stateEntry{Ends: ends}, true); werr != nil { // as on a full disk
			l.cfg.Log.Warn("cannot record where the log ends", "error", werr)
		}
	}
	for _, p := range l.all() {
		if p.torn && p.file.Truncate(p.newestLocked().size) == nil {
			p.torn = false
		}
		if p.file != nil {
			err = errors.Join(err, p.file.Close())
		}
	}
	return errors.Join(err, l.state.file.Close())
}

// Failed is closed when a sync has failed.
func (l *Log) Failed() <-chan struct{} { return l.failed }

func (l *Log) fail(err error) {
	l.failOnce.Do(func() {
		l.failure = fmt.Errorf("%w: %w", ErrFailed, err)
		close(l.failed)
	})
}

func (l *Log) err() error {
	select {
	case <-l.failed:
		return l.failure
	default:
		return nil
	}
}

// Partition returns a partition, nil if there is none.
func (l *Log) Partition(topic string, index int32) *Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.partitions[Key{topic, index}]
}

// all returns all partitions.
func (l *Log) all() []*Partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*Partition, 0, len(l.partitions))
	for _, p := range l.partitions {
		all = append(all, p)
	}
	return all
}

func (l *Log) path(name string) string { return filepath.Join(l.cfg.Dir, name) }
