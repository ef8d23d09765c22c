package stream

import (
	"context"
	"errors"
	"time"
)

// Partition names one partition of a topic; the topic is without the prefix.
type Partition struct {
	Topic string
	Index int32
}

// Commit is what a group commits for a partition: the next offset to read and up to 4 KB of metadata that comes back
// with it (Kafka's offset.metadata.max.bytes).
type Commit struct {
	Offset      int64
	LeaderEpoch int32 // of the last record before Offset; -1 if unknown
	Metadata    string
}

// GroupConfig describes one member of a consumer group. Offsets are committed only through Commit.
type GroupConfig struct {
	Name   string   // of the group, without the prefix
	Topics []string // without the prefix
	// DelayTolerant are those of Topics whose records may be read up to half a second late. While the group is busy with
	// other topics, most fetches leave them out.
	DelayTolerant []string
	InstanceID    string // static membership (KIP-345); empty = dynamic
	Shards        int    // each member gets partitions of few shards, p mod Shards; 0 = in their own order
	MaxPoll       int    // most records a Poll returns; 0 = 10,000
	// MaxWait is how long a broker holds a fetch without records; 0 = 5 s. A resumed partition is part of the next fetch,
	// so MaxWait bounds how late Resume takes effect.
	MaxWait time.Duration
	// MaxPartitionBytes bounds what one fetch returns of a partition; a larger record comes alone. 0 = MaxMessageBytes.
	// The client discards fetched records of a partition that is paused: set it low if you pause often.
	MaxPartitionBytes int32
	// MaxBytes bounds what one fetch returns of all partitions of a broker; 0 = 16 MB. All records of a fetch are
	// handed over before the next fetch: set it low if records have to be read without delay.
	MaxBytes int32
	// Assigned is called with the start of each partition before the first record of a new assignment. It is called
	// again, after Lost, if the log of a partition was truncated below the offset that was read last.
	Assigned func(map[Partition]Commit)
	// Revoked must stop work on these partitions and may commit. When it returns, another member owns them.
	Revoked func(context.Context, []Partition)
	// Lost is like Revoked without the right to commit: another member may already own the partitions.
	Lost func([]Partition)
	// Truncated is called between Lost and Assigned if a log was truncated: its offsets may now hold other records.
	Truncated func(Partition)
	// MetadataDropped is called with partitions whose metadata was too large for the brokers: only the offset was
	// committed.
	MetadataDropped func([]Partition)
}

// Group is one member of a consumer group. It reads from the committed offset, or from the start of a partition that
// has none.
type Group struct{ Member }

// Member is a member of a group of one engine.
type Member interface {
	// Poll waits for records, at most MaxPoll, and calls each once for every partition that has some, in offset order. It
	// returns after one batch, when ctx ends (with its error), or without records when delay-tolerant topics are due.
	//
	// Poll logs an error of one partition or of joining and lets the client retry: it must not end a process that serves
	// other partitions. It returns only errors that this client cannot recover from: another process uses this node's
	// name, or a topic was recreated.
	//
	// No partition is assigned, revoked or lost while each runs. So each must be quick: it delays the rebalance of the
	// whole group. While Revoked runs, Poll waits.
	Poll(ctx context.Context, each func(Partition, []*Record)) error
	// Lag returns the consumer lag: how many records of a partition this member has not handed over yet. It is as old as
	// the last fetch from the partition's broker that returned records. While the partition is paused, more may have come.
	Lag(p Partition) int64
	// Commit commits offsets with their metadata. Brokers accept commits from every member of the group, even for
	// partitions of another member: leave out revoked and lost partitions, and let Revoked wait for a running commit. If
	// the brokers find a partition's metadata too large, Commit commits the offset alone and calls MetadataDropped.
	Commit(ctx context.Context, commits map[Partition]Commit) error
	// Pause stops fetching these partitions. A Poll that begins later returns none of their records: the client discards
	// those that it has fetched, and fetches them again after Resume.
	Pause(ps ...Partition)
	// Resume ends the pause of these partitions.
	Resume(ps ...Partition)
	// Close leaves the group; a static member stays in it until its session times out. Revoked runs first.
	Close()
}

// NewGroup creates the member. It joins the group with the first Poll.
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
	if e := c.engine(); e != nil {
		return &Group{e.NewMember(c, g)}, nil
	}
	m, err := newKafkaGroup(c, g)
	if err != nil {
		return nil, err
	}
	return &Group{m}, nil
}

// Batch holds consecutive records of one partition, at least one.
type Batch struct {
	Partition Partition
	Records   []*Record
}

// Done returns what a group commits that has processed the batch.
func (b Batch) Done() Commit {
	last := b.Records[len(b.Records)-1]
	return Commit{Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}
}

// PollFor is Poll for groups that have other work at least every so often: it returns what one Poll returns within
// most, and no error if nothing came.
func (m *Group) PollFor(ctx context.Context, most time.Duration) ([]Batch, error) {
	var batches []Batch
	polling, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := m.Poll(polling, func(p Partition, records []*Record) { batches = append(batches, Batch{p, records}) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	return batches, nil
}

// commitTimeout bounds CommitAll: Revoked waits for it, and brokers wait 30 s for Revoked.
const commitTimeout = 5 * time.Second

// CommitAll commits within 5 s and then clears commits. If that fails they stay, for the next call.
func (m *Group) CommitAll(ctx context.Context, commits map[Partition]Commit) error {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := m.Commit(ctx, commits); err != nil {
		return err
	}
	clear(commits)
	return nil
}
