package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Partition names one partition of a topic; the topic is without the prefix.
type Partition struct {
	Topic string
	Index int32
}

// Mark is what is committed for a partition: the next offset to read and up to 4 KB of metadata that
// come back with it.
type Commit struct {
	Offset      int64
	LeaderEpoch int32 // of the last record before Offset; -1 when unknown
	Metadata    string
}

// GroupConfig describes one member of a consumer group. Offsets are committed only through Commit.
type GroupConfig struct {
	Name   string   // of the group, without the prefix
	Topics []string // without the prefix
	// Patient are those of Topics whose records may be read half a second late; while the group is busy with
	// others they are left out of most fetches.
	DelayTolerant []string
	InstanceID    string // static membership on real Kafka; empty = dynamic (the embedded engine takes no other)
	MaxPoll       int    // most records a Poll returns; 0 = 10,000
	// MaxWait is how long a broker holds a fetch that finds nothing; 0 = 5 s. A partition that is
	// resumed is fetched when the fetch on its way returns, so this bounds how late Resume works.
	MaxWait time.Duration
	// MaxPartitionBytes is how much one fetch brings of a partition, larger records excepted, which come
	// alone; 0 = MaxMessageBytes. What was fetched of a partition that is paused is thrown away, so whoever
	// pauses often wants little.
	MaxPartitionBytes int32
	// MaxBytes is how much one fetch brings of all partitions that a broker has; 0 = 16 MB. What comes in one fetch is
	// handed over before the next is made, so a record that is to be read at once wants little before it.
	MaxBytes int32
	// Assigned is told, before the first record of a new assignment, where each partition begins. It is told
	// again, after Lost, when the log of a partition was found to end before the offset that was read last.
	Assigned func(map[Partition]Commit)
	// Revoked must stop work on these partitions and may commit; when it returns, another member owns them.
	Revoked func(context.Context, []Partition)
	// Lost is Revoked without the right to commit: another member may already own the partitions.
	Lost func([]Partition)
	// Cut is told between the two, in that case: these offsets may hold other records now.
	Truncated func(Partition)
	// Stripped is told whose metadata was too large for the brokers, so that only the offset was committed.
	MetadataDropped func([]Partition)
}

// Group is one member. It reads from the committed offset, or the start of a partition that has none.
type Group struct {
	cl     *kgo.Client
	cfg    GroupConfig
	prefix string
	log    *slog.Logger

	pause *fetchPause

	lastError   string    // the last trouble that was logged; used by Poll alone
	lastErrorAt time.Time // and when

	order *fetchOrder

	mu            sync.Mutex // guards next and end
	next          map[Partition]int64
	highWatermark map[Partition]int64 // of the log, as the last fetch told
}

// errorLogInterval is how often the same trouble is logged while it lasts.
const errorLogInterval = 10 * time.Second

// NewGroup joins when it is first polled.
func NewGroup(c Config, g GroupConfig) (*Group, error) {
	if g.MaxPoll == 0 {
		g.MaxPoll = 10_000
	}
	if g.MaxWait == 0 {
		g.MaxWait = 5 * time.Second
	}
	if g.MaxPartitionBytes == 0 {
		g.MaxPartitionBytes = MaxMessageBytes
	}
	if g.MaxBytes == 0 {
		g.MaxBytes = 16 << 20
	}
	if c.SessionTimeout == 0 {
		c.SessionTimeout = 30 * time.Second
	}
	m := &Group{cfg: g, prefix: c.Prefix, log: c.Log, order: newFetchOrder(), next: make(map[Partition]int64),
		highWatermark: make(map[Partition]int64)}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.pause = newFetchPause(c.Prefix, g.DelayTolerant, g.MaxPoll)
	topics := make([]string, len(g.Topics))
	for i, t := range g.Topics {
		topics[i] = c.Prefix + t
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(c.Prefix + g.Name),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// Range, with equal partition counts, gives partition p of every topic to one member.
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.DisableAutoCommit(),
		// Without it a Poll could still hand over records of an assignment that has ended, after the same
		// partition was assigned anew from another offset.
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(c.SessionTimeout),
		kgo.HeartbeatInterval(2 * time.Second),
		kgo.RebalanceTimeout(30 * time.Second),
		kgo.FetchMaxWait(g.MaxWait),
		kgo.FetchMinBytes(1),
		kgo.FetchMaxBytes(g.MaxBytes),
		kgo.FetchMaxPartitionBytes(g.MaxPartitionBytes),
		kgo.ConsumePreferringLagFn(m.order.prefer),
		kgo.WithHooks(m.pause),
		kgo.OnOffsetsFetched(m.onFetched),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, lost map[string][]int32) {
			if g.Revoked != nil {
				g.Revoked(ctx, m.partitions(lost))
			}
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			if g.Lost != nil {
				g.Lost(m.partitions(lost))
			}
		}),
	}
	if g.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(g.InstanceID))
	}
	cl, err := c.newClient(g.Name, opts...)
	if err != nil {
		return nil, err
	}
	m.cl, m.pause.cl = cl, cl
	return m, nil
}

// onFetched runs after the assignment is known and before anything is fetched.
func (m *Group) onFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	marks := make(map[Partition]Commit)
	add := func(topic string, p int32, offset int64, epoch int32, meta *string) {
		mark := Commit{Offset: offset, LeaderEpoch: epoch}
		if meta != nil {
			mark.Metadata = *meta
		}
		marks[Partition{strings.TrimPrefix(topic, m.prefix), p}] = mark
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			add(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata)
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata)
			}
		}
	}
	m.mu.Lock()
	for p, mark := range marks {
		m.next[p] = mark.Offset
	}
	m.mu.Unlock()
	if m.cfg.Assigned != nil {
		m.cfg.Assigned(marks)
	}
	return nil
}

// Poll waits for records, at most MaxPoll, and calls each once per partition that has some, in
// offset order. It returns when ctx ends (with its error), after one batch, or with nothing when patient topics
// have rested.
//
// Trouble is logged and the client goes on trying: one partition that cannot be read, or a group that cannot
// be joined for a while, must not end a process that serves others. Only what a new client could mend, or
// nobody but the operator, is returned.
//
// No partition is assigned, revoked or lost while each runs, so each must be quick: it holds up the
// rebalance of the whole group. While Revoked runs, Poll waits.
func (m *Group) Poll(ctx context.Context, each func(Partition, []*Record)) error {
	defer m.cl.AllowRebalance()
	polling := ctx
	if end := m.pause.pollDeadline(time.Now()); !end.IsZero() {
		var stop context.CancelFunc
		polling, stop = context.WithDeadline(ctx, end)
		defer stop()
	}
	fs := m.cl.PollRecords(polling, m.cfg.MaxPoll)
	if fs.IsClientClosed() {
		return errors.New("consumer is closed")
	}
	var fatal []error
	fs.EachError(func(topic string, p int32, err error) {
		switch {
		case polling.Err() != nil:
		case errors.Is(err, kerr.FencedInstanceID):
			fatal = append(fatal, fmt.Errorf(
				"join group %s as %s: another process has this node's name: %w", m.cfg.Name, m.cfg.InstanceID, err))
		case errors.Is(err, kerr.UnknownTopicID):
			fatal = append(fatal, fmt.Errorf("read %s[%d]: the topic was deleted and made again: %w", topic, p, err))
		default:
			m.logFetchError(ctx, topic, p, err)
		}
	})
	all, patient := 0, 0
	m.order.startRound()
	fs.EachPartition(func(p kgo.FetchTopicPartition) {
		part := Partition{strings.TrimPrefix(p.Topic, m.prefix), p.Partition}
		if len(p.Records) > 0 || p.Err == nil && !m.recordEmptyFetch(part, p.FetchPartition) {
			m.order.markServed(p.Topic, p.Partition)
		}
		if len(p.Records) > 0 {
			if all += len(p.Records); m.pause.contains[part.Topic] {
				patient += len(p.Records)
			}
			m.advance(ctx, part, p.Records, p.HighWatermark)
			each(part, p.Records)
		}
	})
	m.pause.afterPoll(time.Now(), all, patient)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(fatal...)
}

// trouble logs what hinders the reading, the same not more often than every errorLogInterval.
func (m *Group) logFetchError(ctx context.Context, topic string, p int32, err error) {
	text := fmt.Sprintf("%s[%d]: %v", topic, p, err)
	if text == m.lastError && time.Since(m.lastErrorAt) < errorLogInterval {
		return
	}
	m.lastError, m.lastErrorAt = text, time.Now()
	m.log.LogAttrs(ctx, slog.LevelWarn, "group cannot read, trying again", slog.String("group", m.cfg.Name),
		slog.String("topic", strings.TrimPrefix(topic, m.prefix)), slog.Int("partition", int(p)), slog.Any("error", err))
}

// advance notes how far a partition was read. Records from before that mean that the log lost its end, in an
// election of a replica that was behind or by being made anew, and has grown again: these offsets now hold
// other records, and whoever remembers the old ones as done would never do the new ones.
func (m *Group) advance(ctx context.Context, p Partition, records []*Record, end int64) {
	first, last := records[0], records[len(records)-1]
	m.mu.Lock()
	next := m.next[p]
	m.next[p], m.highWatermark[p] = last.Offset+1, end
	m.mu.Unlock()
	if first.Offset >= next {
		return
	}
	m.log.LogAttrs(ctx, slog.LevelError, "log was cut off, reading it again", slog.String("group", m.cfg.Name),
		slog.String("topic", p.Topic),
		slog.Int("partition", int(p.Index)), slog.Int64("read", next), slog.Int64("from", first.Offset))
	if m.cfg.Lost != nil {
		m.cfg.Lost([]Partition{p})
	}
	if m.cfg.Truncated != nil {
		m.cfg.Truncated(p)
	}
	if m.cfg.Assigned != nil {
		m.cfg.Assigned(map[Partition]Commit{p: {Offset: first.Offset, LeaderEpoch: -1}})
	}
}

// left notes where the log of a partition ends that had no records, and reports whether there are some nevertheless.
func (m *Group) recordEmptyFetch(p Partition, f kgo.FetchPartition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.highWatermark[p] = f.HighWatermark
	return f.HighWatermark > max(m.next[p], f.LogStartOffset) // next is -1 where nothing was ever committed
}

// Behind is how many records of a partition were not handed over yet. It is as old as the last fetch that any partition
// of its broker had records in: while the partition is paused more may have come.
func (m *Group) Lag(p Partition) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.highWatermark[p]-m.next[p], 0)
}

// Commit stores the marks. Brokers take them from whoever is a member of the group, of partitions that are not its own
// too: leave out those that were revoked or lost, and let Revoked wait for a commit under way.
// Metadata that the brokers find too large is left out, and Stripped is told.
func (m *Group) Commit(ctx context.Context, marks map[Partition]Commit) error {
	if len(marks) == 0 {
		return nil
	}
	tooLarge, err := m.commit(ctx, marks)
	if len(tooLarge) > 0 {
		bare := make(map[Partition]Commit, len(tooLarge))
		for _, p := range tooLarge {
			bare[p] = Commit{Offset: marks[p].Offset, LeaderEpoch: marks[p].LeaderEpoch}
		}
		_, again := m.commit(ctx, bare)
		err = errors.Join(err, again)
		if again == nil && m.cfg.MetadataDropped != nil {
			m.cfg.MetadataDropped(tooLarge)
		}
	}
	if err != nil {
		return fmt.Errorf("commit offsets of %s: %w", m.cfg.Name, err)
	}
	return nil
}

// commit makes one request. It returns the partitions whose metadata was too large, which are not part of
// the error.
func (m *Group) commit(ctx context.Context, marks map[Partition]Commit) (tooLarge []Partition, err error) {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for p, mark := range marks {
		t := m.prefix + p.Topic
		if offsets[t] == nil {
			offsets[t] = make(map[int32]kgo.EpochOffset)
		}
		offsets[t][p.Index] = kgo.EpochOffset{Epoch: mark.LeaderEpoch, Offset: mark.Offset}
	}
	named := func(topic string, p int32) Partition { return Partition{strings.TrimPrefix(topic, m.prefix), p} }
	withMetadata := kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				mark := marks[named(t.Topic, t.Partitions[j].Partition)]
				t.Partitions[j].Metadata = &mark.Metadata
			}
		}
		return nil
	})
	var errs []error
	m.cl.CommitOffsetsSync(withMetadata, offsets,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				errs = append(errs, err)
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					at, err := named(t.Topic, p.Partition), kerr.ErrorForCode(p.ErrorCode)
					switch {
					case err == nil:
					case isMetadataTooLarge(err) && marks[at].Metadata != "":
						tooLarge = append(tooLarge, at)
					default:
						errs = append(errs, fmt.Errorf("%s[%d]: %w", t.Topic, p.Partition, err))
					}
				}
			}
		})
	return tooLarge, errors.Join(errs...)
}

// isMetadataTooLarge: one partition's is beyond the brokers' limit (offset.metadata.max.bytes, 4,096 unless
// changed), or all of them together are beyond the largest record batch of the topic that holds commits.
func isMetadataTooLarge(err error) bool {
	return errors.Is(err, kerr.OffsetMetadataTooLarge) || errors.Is(err, kerr.InvalidCommitOffsetSize)
}

// Pause stops fetching these partitions; records already fetched may still come from the next Poll.
func (m *Group) Pause(ps ...Partition) {
	m.pause.setCallerPaused(ps, true)
	m.cl.PauseFetchPartitions(m.byTopic(ps))
}

// Resume ends Pause.
func (m *Group) Resume(ps ...Partition) {
	m.pause.setCallerPaused(ps, false)
	m.cl.ResumeFetchPartitions(m.byTopic(ps))
}

// Close leaves the group (a static member stays in it until its session ends). Revoked runs first.
func (m *Group) Close() { m.cl.Close() }

func (m *Group) byTopic(ps []Partition) map[string][]int32 {
	out := make(map[string][]int32)
	for _, p := range ps {
		out[m.prefix+p.Topic] = append(out[m.prefix+p.Topic], p.Index)
	}
	return out
}

func (m *Group) partitions(byTopic map[string][]int32) []Partition {
	var out []Partition
	for t, ps := range byTopic {
		for _, p := range ps {
			out = append(out, Partition{strings.TrimPrefix(t, m.prefix), p})
		}
	}
	return out
}
