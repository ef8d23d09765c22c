package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaGroup is one member of a consumer group of Kafka.
type kafkaGroup struct {
	cl     *kgo.Client
	cfg    GroupConfig
	prefix string
	log    *slog.Logger

	pause *fetchPause

	lastError   string // the fetch error that was logged last; used by Poll alone
	lastErrorAt time.Time

	order *fetchOrder

	mu            sync.Mutex // guards next and highWatermark
	next          map[Partition]int64
	highWatermark map[Partition]int64 // as of the last fetch
}

// errorLogInterval is how often the same fetch error is logged while it lasts.
const errorLogInterval = 10 * time.Second

func newKafkaGroup(c Config, g GroupConfig) (*kafkaGroup, error) {
	if c.SessionTimeout == 0 {
		c.SessionTimeout = 30 * time.Second
	}
	m := &kafkaGroup{cfg: g, prefix: c.Prefix, log: c.Log, order: newFetchOrder(),
		next: make(map[Partition]int64), highWatermark: make(map[Partition]int64)}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.pause = newFetchPause(c.Prefix, g.DelayTolerant, g.MaxPoll)
	topics := make([]string, len(g.Topics))
	for i, t := range g.Topics {
		topics[i] = c.Prefix + t
	}
	cl, err := c.newClient(g.Name, m.options(c, topics)...)
	if err != nil {
		return nil, err
	}
	m.cl, m.pause.cl = cl, cl
	return m, nil
}

// options returns the client's options. topics have the prefix.
func (m *kafkaGroup) options(c Config, topics []string) []kgo.Opt {
	g := m.cfg
	opts := []kgo.Opt{
		kgo.ConsumerGroup(c.Prefix + g.Name),
		kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// If all topics have equally many partitions, this gives partition p of every topic to one member.
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.DisableAutoCommit(),
		// Without it a Poll could still return records of an assignment that has ended, after the same
		// partition was assigned again from another offset.
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
	if g.Shards > 1 {
		// Members of the version before know the second one only; the group uses what all of them know.
		opts = append(opts, kgo.Balancers(shardBalancer{kgo.RangeBalancer(), int32(g.Shards)}, kgo.RangeBalancer()))
	}
	if g.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(g.InstanceID))
	}
	return opts
}

// onFetched runs when the committed offsets of a new assignment are known and before the first fetch.
func (m *kafkaGroup) onFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	commits := make(map[Partition]Commit)
	setCommit := func(topic string, p int32, offset int64, epoch int32, meta *string) {
		commit := Commit{Offset: offset, LeaderEpoch: epoch}
		if meta != nil {
			commit.Metadata = *meta
		}
		commits[Partition{strings.TrimPrefix(topic, m.prefix), p}] = commit
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			setCommit(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata)
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				setCommit(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata)
			}
		}
	}
	m.mu.Lock()
	for p, commit := range commits {
		m.next[p] = commit.Offset
	}
	m.mu.Unlock()
	if m.cfg.Assigned != nil {
		m.cfg.Assigned(commits)
	}
	return nil
}

func (m *kafkaGroup) Poll(ctx context.Context, each func(Partition, []*Record)) error {
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
				"join group %s as %s: another process uses this node's name, give each its own: %w", m.cfg.Name,
				m.cfg.InstanceID, err))
		case errors.Is(err, kerr.UnknownTopicID):
			fatal = append(fatal, fmt.Errorf(
				"read %s[%d]: the topic was deleted and created again: %w", topic, p, err))
		default:
			m.logFetchError(ctx, topic, p, err)
		}
	})
	all, tolerant := 0, 0
	m.order.startRound()
	fs.EachPartition(func(p kgo.FetchTopicPartition) {
		part := Partition{strings.TrimPrefix(p.Topic, m.prefix), p.Partition}
		if len(p.Records) > 0 || p.Err == nil && !m.recordEmptyFetch(part, p.FetchPartition) {
			m.order.markServed(p.Topic, p.Partition)
		}
		if len(p.Records) > 0 {
			if all += len(p.Records); m.pause.contains[part.Topic] {
				tolerant += len(p.Records)
			}
			m.advance(ctx, part, p.Records, p.HighWatermark)
			each(part, p.Records)
		}
	})
	m.pause.afterPoll(time.Now(), all, tolerant)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(fatal...)
}

// logFetchError logs an error of a partition, the same one at most once per errorLogInterval.
func (m *kafkaGroup) logFetchError(ctx context.Context, topic string, p int32, err error) {
	text := fmt.Sprintf("%s[%d]: %v", topic, p, err)
	if text == m.lastError && time.Since(m.lastErrorAt) < errorLogInterval {
		return
	}
	m.lastError, m.lastErrorAt = text, time.Now()
	m.log.LogAttrs(ctx, slog.LevelWarn, "cannot read partition, retrying", slog.String("group", m.cfg.Name),
		slog.String("topic", strings.TrimPrefix(topic, m.prefix)), slog.Int("partition", int(p)), slog.Any("error", err))
}

// advance records how far a partition was read. Records below that position mean that the log was truncated, by the
// election of a replica that was behind or by recreating the topic, and has grown again. These offsets now hold other
// records; whoever remembers the old ones as completed would skip the new ones.
func (m *kafkaGroup) advance(ctx context.Context, p Partition, records []*Record, end int64) {
	first, last := records[0], records[len(records)-1]
	m.mu.Lock()
	next := m.next[p]
	m.next[p], m.highWatermark[p] = last.Offset+1, end
	m.mu.Unlock()
	if first.Offset >= next {
		return
	}
	m.log.LogAttrs(ctx, slog.LevelError, "log was truncated, reading it again", slog.String("group", m.cfg.Name),
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

// recordEmptyFetch records the high watermark of a partition that a fetch returned without records, and reports whether
// the partition has unread records nevertheless.
func (m *kafkaGroup) recordEmptyFetch(p Partition, f kgo.FetchPartition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.highWatermark[p] = f.HighWatermark
	return f.HighWatermark > max(m.next[p], f.LogStartOffset) // next is -1 without a commit
}

func (m *kafkaGroup) Lag(p Partition) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.highWatermark[p]-m.next[p], 0)
}

func (m *kafkaGroup) Commit(ctx context.Context, commits map[Partition]Commit) error {
	if len(commits) == 0 {
		return nil
	}
	tooLarge, err := m.commit(ctx, commits)
	if len(tooLarge) > 0 {
		withoutMetadata := make(map[Partition]Commit, len(tooLarge))
		for _, p := range tooLarge {
			withoutMetadata[p] = Commit{Offset: commits[p].Offset, LeaderEpoch: commits[p].LeaderEpoch}
		}
		_, retryErr := m.commit(ctx, withoutMetadata)
		err = errors.Join(err, retryErr)
		if retryErr == nil && m.cfg.MetadataDropped != nil {
			m.cfg.MetadataDropped(tooLarge)
		}
	}
	if err != nil {
		return fmt.Errorf("commit offsets of %s: %w", m.cfg.Name, err)
	}
	return nil
}

// commit makes one request. It returns the partitions whose metadata was too large; the error does not include them.
func (m *kafkaGroup) commit(ctx context.Context, commits map[Partition]Commit) (tooLarge []Partition, err error) {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for p, commit := range commits {
		t := m.prefix + p.Topic
		if offsets[t] == nil {
			offsets[t] = make(map[int32]kgo.EpochOffset)
		}
		offsets[t][p.Index] = kgo.EpochOffset{Epoch: commit.LeaderEpoch, Offset: commit.Offset}
	}
	partitionOf := func(topic string, p int32) Partition { return Partition{strings.TrimPrefix(topic, m.prefix), p} }
	withMetadata := kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				commit := commits[partitionOf(t.Topic, t.Partitions[j].Partition)]
				t.Partitions[j].Metadata = &commit.Metadata
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
					at, err := partitionOf(t.Topic, p.Partition), kerr.ErrorForCode(p.ErrorCode)
					switch {
					case err == nil:
					case isMetadataTooLarge(err) && commits[at].Metadata != "":
						tooLarge = append(tooLarge, at)
					default:
						errs = append(errs, fmt.Errorf("%s[%d]: %w", t.Topic, p.Partition, err))
					}
				}
			}
		})
	return tooLarge, errors.Join(errs...)
}

// isMetadataTooLarge reports whether one partition's metadata is beyond the brokers' limit (offset.metadata.max.bytes,
// 4,096 by default), or all of it together is beyond the largest batch of the topic that holds commits.
func isMetadataTooLarge(err error) bool {
	return errors.Is(err, kerr.OffsetMetadataTooLarge) || errors.Is(err, kerr.InvalidCommitOffsetSize)
}

func (m *kafkaGroup) Pause(ps ...Partition) {
	m.pause.setCallerPaused(ps, true)
	m.cl.PauseFetchPartitions(m.byTopic(ps))
}

func (m *kafkaGroup) Resume(ps ...Partition) {
	m.pause.setCallerPaused(ps, false)
	m.cl.ResumeFetchPartitions(m.byTopic(ps))
}

func (m *kafkaGroup) Close() { m.cl.Close() }

func (m *kafkaGroup) byTopic(ps []Partition) map[string][]int32 {
	out := make(map[string][]int32)
	for _, p := range ps {
		out[m.prefix+p.Topic] = append(out[m.prefix+p.Topic], p.Index)
	}
	return out
}

func (m *kafkaGroup) partitions(byTopic map[string][]int32) []Partition {
	var out []Partition
	for t, ps := range byTopic {
		for _, p := range ps {
			out = append(out, Partition{strings.TrimPrefix(t, m.prefix), p})
		}
	}
	return out
}

// shardBalancer is kgo.RangeBalancer, with partitions in the order of their shards: partition p belongs to shard p mod
// shards. So a member has partitions of few shards.
type shardBalancer struct {
	kgo.GroupBalancer
	shards int32
}

func (shardBalancer) ProtocolName() string { return "relay-shards" }

func (b shardBalancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (
	kgo.GroupMemberBalancer, map[string]struct{}, error) {
	c, err := kgo.NewConsumerBalancer(b, members)
	if err != nil {
		return nil, nil, err
	}
	return c, c.MemberTopics(), nil
}

// Balance gives each member a part of all topics, in the same way for topics with equally many partitions. All members
// read the same topics.
func (b shardBalancer) Balance(c *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	plan := c.NewPlan()
	members := slices.Clone(c.Members())
	slices.SortFunc(members, func(x, y kmsg.JoinGroupResponseMember) int { return cmp.Compare(nameOf(x), nameOf(y)) })
	for topic, n := range topics {
		next := int32(0)
		for shard := range b.shards {
			for p := shard; p < n; p += b.shards {
				plan.AddPartition(&members[int64(next)*int64(len(members))/int64(n)], topic, p)
				next++
			}
		}
	}
	return plan
}

// nameOf is the name of a member that stays the same when it restarts, if it has one.
func nameOf(m kmsg.JoinGroupResponseMember) string {
	if m.InstanceID != nil {
		return *m.InstanceID
	}
	return m.MemberID
}
