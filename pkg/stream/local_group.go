package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/segment"
	"github.com/eventrelay/relay/pkg/wait"
)

// localGroup is one member of a consumer group of the log in this process. The member that joined first owns all
// partitions, until it is closed.
type localGroup struct {
	in   *Log
	cfg  GroupConfig
	conf Config
	wake chan struct{} // capacity 1: there may be records, or partitions
	decoder

	polling sync.Mutex // held by Poll, and by Close while it gives partitions back
	joined  bool       // guarded by polling

	mu     sync.Mutex // guards the fields below
	closed bool
	owner  bool
	owned  []*ownedPartition // those first that have waited longest
}

// ownedPartition is a partition that a member reads. localGroup.mu guards next, which only Poll changes, and paused.
type ownedPartition struct {
	Partition
	log    *segment.Partition
	next   int64 // offset
	paused bool
}

// readRetry is the pause after a read that failed.
const readRetry = time.Second

// errClosed is returned by the Poll of a member that was closed, errNotOwner by the Commit of one that owns nothing.
var (
	errClosed   = errors.New("consumer is closed")
	errNotOwner = errors.New("this member does not own the partitions of its group")
)

func newLocalGroup(c Config, g GroupConfig) *localGroup {
	return &localGroup{in: c.Embedded, cfg: g, conf: c, wake: make(chan struct{}, 1)}
}

func (m *localGroup) name() string { return m.conf.Prefix + m.cfg.Name }

func (m *localGroup) notify() { wait.Wake(m.wake) }

func (m *localGroup) Poll(ctx context.Context, each func(Partition, []*Record)) error {
	m.polling.Lock()
	defer m.polling.Unlock()
	for {
		if m.isClosed() {
			return errClosed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		m.join()
		found, err := m.fetch(each)
		switch {
		case found:
			return nil
		case errors.Is(err, segment.ErrDamaged), errors.Is(err, errNoRecord):
			return err
		case err != nil: // the system lacks something, such as file descriptors
			m.warn("cannot read the log, retrying", slog.Any("error", err))
			_ = wait.For(ctx, readRetry)
			continue
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
		}
	}
}

func (m *localGroup) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// join becomes a member, and the owner of all partitions if no other member was there first.
func (m *localGroup) join() {
	if m.joined && m.owner {
		return
	}
	m.in.mu.Lock()
	if !m.joined {
		m.in.groups[m.name()] = append(m.in.groups[m.name()], m)
		m.joined = true
	}
	first := m.in.groups[m.name()][0] == m
	m.in.mu.Unlock()
	if first {
		m.assign()
	}
}

// assign takes all partitions, from their committed offsets on.
func (m *localGroup) assign() {
	committed := m.in.segments.Commits(m.name())
	commits, truncated := make(map[Partition]Commit), make(map[Partition]Commit)
	var owned []*ownedPartition
	for _, topic := range m.cfg.Topics {
		for i, p := range m.in.partitions(m.conf.Prefix + topic) {
			at := Partition{topic, int32(i)}
			commits[at] = Commit{Offset: -1, LeaderEpoch: -1}
			if c, ok := committed[p.Key()]; ok {
				commits[at] = Commit{c.Offset, c.Epoch, c.Metadata}
			}
			next := max(commits[at].Offset, p.Start())
			if next > p.Next() {
				next = p.Start()
				truncated[at] = Commit{Offset: next, LeaderEpoch: -1}
			}
			owned = append(owned, &ownedPartition{Partition: at, log: p, next: next})
			p.Subscribe(m.wake)
		}
	}
	m.mu.Lock()
	m.owned, m.owner = owned, true
	m.mu.Unlock()
	if m.cfg.Assigned != nil {
		m.cfg.Assigned(commits)
	}
	for at, commit := range truncated {
		m.warn("log was truncated, reading it again", slog.String("topic", at.Topic), slog.Int("partition", int(at.Index)),
			slog.Int64("read", commits[at].Offset), slog.Int64("from", commit.Offset))
		if m.cfg.Lost != nil {
			m.cfg.Lost([]Partition{at})
		}
		if m.cfg.Truncated != nil {
			m.cfg.Truncated(at)
		}
		if m.cfg.Assigned != nil {
			m.cfg.Assigned(map[Partition]Commit{at: commit})
		}
	}
}

func (m *localGroup) warn(text string, attrs ...slog.Attr) {
	m.in.log.LogAttrs(context.Background(), slog.LevelWarn, text, append(attrs, slog.String("group", m.cfg.Name))...)
}

// fetch hands over what one Poll returns, and reports whether there was anything.
func (m *localGroup) fetch(each func(Partition, []*Record)) (found bool, err error) {
	type batch struct {
		of      *ownedPartition
		records []*Record
	}
	var batches []batch
	bytes, count := int(m.cfg.MaxBytes), m.cfg.MaxPoll
	var ready []*ownedPartition
	m.mu.Lock()
	for _, p := range m.owned {
		if !p.paused && p.next < p.log.End() {
			ready = append(ready, p)
		}
	}
	m.mu.Unlock()
	var frames []segment.Frame
	for _, p := range ready {
		if bytes <= 0 || count <= 0 {
			break
		}
		frames, err = p.log.Read(p.next, segment.Most{Bytes: min(bytes, int(m.cfg.MaxPartitionBytes)), Frames: count,
			One: len(batches) == 0}, frames[:0])
		if errors.Is(err, segment.ErrOutOfRange) { // it was trimmed beyond what the group has committed
			frames, err = p.log.Read(p.log.Start(), segment.Most{Bytes: bytes, Frames: count, One: true}, frames[:0])
		}
		if err != nil {
			return false, fmt.Errorf("read %s[%d]: %w", p.Topic, p.Index, err)
		}
		if len(frames) == 0 {
			continue
		}
		records, err := m.records(p.log.Key(), frames)
		if err != nil {
			return false, err
		}
		for _, f := range frames {
			bytes -= len(f.Payload)
		}
		count -= len(frames)
		batches = append(batches, batch{p, records})
	}
	if len(batches) == 0 {
		return false, nil
	}
	m.mu.Lock()
	for _, b := range batches {
		b.of.next = b.records[len(b.records)-1].Offset + 1
		i := slices.Index(m.owned, b.of)
		m.owned = append(slices.Delete(m.owned, i, i+1), b.of)
	}
	m.mu.Unlock()
	for _, b := range batches {
		each(b.of.Partition, b.records)
	}
	return true, nil
}

func (m *localGroup) find(p Partition) *ownedPartition {
	for _, o := range m.owned {
		if o.Partition == p {
			return o
		}
	}
	return nil
}

func (m *localGroup) Lag(p Partition) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.find(p); o != nil {
		return max(o.log.End()-o.next, 0)
	}
	return 0
}

func (m *localGroup) Commit(ctx context.Context, commits map[Partition]Commit) error {
	if len(commits) == 0 {
		return nil
	}
	m.mu.Lock()
	owner := m.owner
	m.mu.Unlock()
	if !owner {
		return fmt.Errorf("commit offsets of %s: %w", m.cfg.Name, errNotOwner)
	}
	var tooLarge []Partition
	all := make(map[segment.Key]segment.Commit, len(commits))
	for p, c := range commits {
		if len(c.Metadata) > maxGapsEncoded {
			tooLarge, c.Metadata = append(tooLarge, p), ""
		}
		all[m.conf.key(p)] = segment.Commit{
			Offset: c.Offset, Epoch: c.LeaderEpoch, Metadata: c.Metadata}
	}
	if err := m.in.segments.Commit(ctx, m.name(), all); err != nil {
		return fmt.Errorf("commit offsets of %s: %w", m.cfg.Name, err)
	}
	if len(tooLarge) > 0 && m.cfg.MetadataDropped != nil {
		m.cfg.MetadataDropped(tooLarge)
	}
	return nil
}

func (m *localGroup) Pause(ps ...Partition) { m.setPaused(ps, true) }

func (m *localGroup) Resume(ps ...Partition) {
	m.setPaused(ps, false)
	m.notify()
}

func (m *localGroup) setPaused(ps []Partition, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range ps {
		if o := m.find(p); o != nil {
			o.paused = paused
		}
	}
}

func (m *localGroup) Close() {
	m.mu.Lock()
	again := m.closed
	m.closed = true
	m.mu.Unlock()
	m.notify()
	m.polling.Lock() // Poll has returned
	defer m.polling.Unlock()
	if again || !m.joined {
		return
	}
	if m.owner {
		var all []Partition
		for _, o := range m.owned {
			o.log.Unsubscribe(m.wake)
			all = append(all, o.Partition)
		}
		if m.cfg.Revoked != nil {
			m.cfg.Revoked(context.Background(), all)
		}
	}
	m.mu.Lock()
	m.owner, m.owned = false, nil
	m.mu.Unlock()
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	rest := slices.DeleteFunc(m.in.groups[m.name()], func(o *localGroup) bool { return o == m })
	if m.in.groups[m.name()] = rest; len(rest) > 0 {
		rest[0].notify()
	}
}

// key names a partition in the log in this process.
func (c Config) key(p Partition) segment.Key {
	return segment.Key{Topic: c.Prefix + p.Topic, Index: p.Index}
}
