package segment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/eventrelay/relay/pkg/id"
)

// Topic is a topic of the log.
type Topic struct {
	Name       string
	ID         string // a topic that was deleted and created again has another one
	Partitions int32
}

// Commit is what a group has committed for a partition.
type Commit struct {
	Offset   int64
	Epoch    int32
	Metadata string
}

// stateEntry is one entry of the state log. A later one replaces what an earlier one says of the same thing.
type stateEntry struct {
	Topics  []Topic           `json:"topics,omitempty"`
	Commits []groupCommit     `json:"commits,omitempty"`
	Starts  []partitionOffset `json:"starts,omitempty"`
	// Ends are offsets below which all records were on disk when the entry was written. Versions before 0.3 wrote none;
	// an empty list says that later entries have them.
	Ends    []partitionOffset `json:"ends,omitzero"`
	Missing []Missing         `json:"missing,omitempty"`
}

type groupCommit struct {
	Group string `json:"group"`
	Key
	Offset   int64  `json:"offset"`
	Epoch    int32  `json:"epoch"`
	Metadata []byte `json:"metadata,omitempty"` // bytes: JSON would change what is no UTF-8
}

type partitionOffset struct {
	Key
	Offset int64 `json:"offset"`
}

// Missing is a range of records [From, To) that a partition had and has no more. Readers skip it.
type Missing struct {
	Key
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

func (m Missing) String() string {
	if m.To == m.From+1 {
		return fmt.Sprintf("record %d of %s", m.From, m.Key)
	}
	return fmt.Sprintf("records %d to %d of %s", m.From, m.To-1, m.Key)
}

// state is the state log and what it says.
type state struct {
	log *Log

	mu      sync.Mutex // guards the fields below
	file    File
	size    int64 // bytes
	seq     int64 // of the next entry
	synced  int64 // sequence number below which all entries are on disk
	torn    bool  // the file may be longer than size
	topics  map[string]Topic
	commits map[string]map[Key]Commit // by group
	starts  map[Key]int64
	ends    map[Key]int64 // nil: the file was written by a version that recorded none
	missing map[Key][]Missing
}

// StateFile is the name of the state log.
const StateFile = "state.log"

// maxStateBytes is the usual Config.StateBytes. All commits with the longest metadata are less.
const maxStateBytes = 8 << 20

// apply takes what an entry says.
func (s *state) apply(e stateEntry) {
	for _, t := range e.Topics {
		s.topics[t.Name] = t
	}
	for _, c := range e.Commits {
		if s.commits[c.Group] == nil {
			s.commits[c.Group] = make(map[Key]Commit)
		}
		s.commits[c.Group][c.Key] = Commit{c.Offset, c.Epoch, string(c.Metadata)}
	}
	for _, start := range e.Starts {
		s.starts[start.Key] = start.Offset
	}
	if e.Ends != nil && s.ends == nil {
		s.ends = make(map[Key]int64)
	}
	for _, end := range e.Ends {
		s.ends[end.Key] = end.Offset
	}
	for _, m := range e.Missing {
		if !slices.Contains(s.missing[m.Key], m) {
			s.missing[m.Key] = append(s.missing[m.Key], m)
		}
	}
}

// whole returns one entry that says everything.
func (s *state) whole() (e stateEntry) {
	for _, t := range s.topics {
		e.Topics = append(e.Topics, t)
	}
	for group, commits := range s.commits {
		for key, c := range commits {
			e.Commits = append(e.Commits, groupCommit{group, key, c.Offset, c.Epoch, []byte(c.Metadata)})
		}
	}
	for key, offset := range s.starts {
		e.Starts = append(e.Starts, partitionOffset{key, offset})
	}
	if s.ends != nil {
		e.Ends = []partitionOffset{}
	}
	for key, offset := range s.ends {
		e.Ends = append(e.Ends, partitionOffset{key, offset})
	}
	for key, ranges := range s.missing {
		for _, m := range ranges {
			if m.To >= s.log.firstBase(key) { // else its file was removed with what was before it
				e.Missing = append(e.Missing, m)
			}
		}
	}
	return e
}

// provenEnd returns the offset at which a partition ended at least: certain is what was on disk, and any is what a
// group has committed. They differ after a power cut without Config.Fsync only.
func (s *state) provenEnd(key Key) (certain, any int64) {
	for _, commits := range s.commits {
		if c, ok := commits[key]; ok {
			any = max(any, s.log.cfg.CommitEnd(c))
		}
	}
	if s.ends == nil && s.log.cfg.Fsync { // an older version synced what it committed
		return any, any
	}
	return s.ends[key], max(any, s.ends[key])
}

// skipped returns the end of the missing records from an offset on that an earlier start skipped; 0 = none.
func (s *state) skipped(key Key, from int64) (to int64) {
	for _, m := range s.missing[key] {
		if m.From == from {
			to = max(to, m.To)
		}
	}
	return to
}

// newEnds returns the partitions that have more on disk than the state log says.
func (s *state) newEnds() (ends []partitionOffset) {
	all := s.log.all()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range all {
		if end := p.synced.Load(); end > s.ends[p.key] {
			ends = append(ends, partitionOffset{p.key, end})
		}
	}
	return ends
}

// firstBase returns the offset with which the oldest file of a partition begins.
func (l *Log) firstBase(key Key) int64 {
	p := l.Partition(key.Topic, key.Index)
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.segments) == 0 {
		return 0
	}
	return p.segments[0].base
}

// write appends an entry to the state log, and applies it. It is on disk afterwards if sync is set.
func (s *state) write(e stateEntry, sync bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.log.err(); err != nil {
		return err
	}
	if s.size > s.log.cfg.StateBytes {
		if err := s.rewrite(); err != nil {
			return err
		}
	}
	b, err := s.frame(e)
	if err != nil {
		return err
	}
	if s.torn {
		if err := s.file.Truncate(s.size); err != nil {
			return err
		}
		s.torn = false
	}
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		s.torn = s.file.Truncate(s.size) != nil
		return fmt.Errorf("write %s: %w", StateFile, err)
	}
	if sync {
		if err := s.file.Sync(); err != nil {
			s.log.fail(err)
			return s.log.err()
		}
	}
	s.size += int64(len(b))
	if s.seq++; sync {
		s.synced = s.seq
	}
	s.apply(e)
	return nil
}

func (s *state) frame(e stateEntry) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return appendFrame(nil, seedOf(StateFile), s.seq, s.synced, 0, func(dst []byte) []byte {
		return append(dst, text...)
	}), nil
}

// rewrite replaces the file by one with a single entry. A crash leaves the old one or the new one.
func (s *state) rewrite() error {
	seq, synced := s.seq, s.synced
	s.seq, s.synced = 0, 0
	b, err := s.frame(s.whole())
	if err != nil {
		return err
	}
	disk, path := s.log.disk, s.log.path(StateFile)
	f, err := disk.Open(path+".new", createFlag)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = disk.Rename(path+".new", path)
	}
	if err == nil {
		err = disk.SyncDir(s.log.cfg.Dir)
	}
	if err != nil {
		s.seq, s.synced = seq, synced
		if f != nil {
			_ = f.Close()
		}
		return fmt.Errorf("rewrite %s: %w", StateFile, err)
	}
	if s.file != nil {
		_ = s.file.Close()
	}
	s.file, s.size, s.seq, s.synced, s.torn = f, int64(len(b)), 1, 1, false
	return nil
}

// Topics returns all topics by name.
func (l *Log) Topics() map[string]Topic {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	return maps.Clone(l.state.topics)
}

// Topic returns a topic by its name.
func (l *Log) Topic(name string) (t Topic, ok bool) {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	t, ok = l.state.topics[name]
	return t, ok
}

// CreateTopic creates a topic, and reports whether it is new. One that exists stays as it is; with grow it gets the
// partitions that it lacks. An empty ID becomes a random one.
func (l *Log) CreateTopic(t Topic, grow bool) (created bool, err error) {
	old, exists := l.Topic(t.Name)
	switch {
	case exists && (t.Partitions <= old.Partitions || !grow):
		return false, nil
	case exists:
		t.ID = old.ID
	case t.ID == "":
		t.ID = id.Random("")
	}
	if err := l.state.write(stateEntry{Topics: []Topic{t}}, true); err != nil {
		return false, err
	}
	l.addPartitions(t)
	return !exists, nil
}

// addPartitions makes the partitions of a topic that do not exist in memory.
func (l *Log) addPartitions(t Topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range t.Partitions {
		key := Key{t.Name, i}
		if l.partitions[key] != nil {
			continue
		}
		p := &Partition{log: l, key: key, seed: seedOf(t.ID + key.String()), acks: &l.other}
		if l.cfg.Durable == nil || l.cfg.Durable(t.Name) {
			p.acks = &l.durable
		}
		l.partitions[key] = p
	}
}

// Commits returns what a group has committed.
func (l *Log) Commits(group string) map[Key]Commit {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	return maps.Clone(l.state.commits[group])
}

// Commit commits offsets of a group. All records that were written before are on disk first, so that no committed
// offset lies beyond the end of its partition after a power cut.
func (l *Log) Commit(ctx context.Context, group string, commits map[Key]Commit) error {
	l.commits.Lock()
	defer l.commits.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.cfg.Fsync {
		if err := l.syncDirty(); err != nil {
			return err
		}
	}
	e := stateEntry{Ends: l.state.newEnds()}
	for key, c := range commits {
		e.Commits = append(e.Commits, groupCommit{group, key, c.Offset, c.Epoch, []byte(c.Metadata)})
	}
	return l.state.write(e, l.cfg.Fsync)
}

// Missing returns the ranges of records that were lost and are not trimmed yet: by damage that Config.SkipMissing
// accepted, or by a power cut without Config.Fsync.
func (l *Log) Missing() (all []Missing) {
	for _, p := range l.all() {
		start := p.Start()
		l.state.mu.Lock()
		for _, m := range l.state.missing[p.key] {
			if m.To >= start {
				all = append(all, m)
			}
		}
		l.state.mu.Unlock()
	}
	return all
}

// Trim deletes the records of partitions before an offset. Files leave the disk when all their records are deleted.
// While a Snapshot is open it does nothing.
func (l *Log) Trim(before map[Key]int64) error {
	if !l.trims.TryRLock() {
		return nil
	}
	defer l.trims.RUnlock()
	var e stateEntry
	var errs []error
	for key, offset := range before {
		p := l.Partition(key.Topic, key.Index)
		if p == nil {
			continue
		}
		start, err := p.trim(offset)
		if err != nil {
			errs = append(errs, fmt.Errorf("trim %s: %w", key, err))
		}
		e.Starts = append(e.Starts, partitionOffset{key, start})
	}
	return errors.Join(append(errs, l.state.write(e, false))...)
}
