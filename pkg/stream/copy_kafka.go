package stream

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// CopyToKafka copies a log of this process that nobody writes to into Kafka: the records of all topics that groups read
// and of dead letters, and what the groups have committed, with its gaps. Records keep their offsets, because rows in
// the store have them: of two outcomes the one with the higher offset counts. Where the log was trimmed, Kafka gets
// empty records that are deleted at once. The configuration log is left out: nodes accept snapshots of it in the log
// only for which they were written.
//
// The topics must exist and have never had a record, and no node may run. After an error, delete the topics.
func CopyToKafka(ctx context.Context, from, to Config) error {
	cl, err := to.newClient("copy", kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(MaxMessageBytes), kgo.MaxBufferedRecords(copyAtOnce), kgo.ProducerLinger(outcomeLinger))
	if err != nil {
		return err
	}
	defer cl.Close()
	source, err := NewReader(from, "copy")
	if err != nil {
		return err
	}
	defer source.Close()
	c := &kafkaCopy{client: cl, admin: kadm.NewClient(cl), source: source, prefix: to.Prefix}
	target, err := NewReader(to, "copy")
	if err != nil {
		return err
	}
	defer target.Close()
	topics := append(ReadTopics(), Dead)
	if c.starts, err = source.Starts(ctx, topics...); err != nil {
		return err
	}
	if c.ends, err = source.Ends(ctx, topics...); err != nil {
		return err
	}
	found, err := target.Ends(ctx, topics...)
	if err != nil {
		return err
	}
	for p := range c.ends {
		if end, ok := found[p]; !ok || end > 0 {
			return fmt.Errorf("partition %d of topic %s%s must exist and have never had a record: delete the topics, and run "+
				"relay migrate with RELAY_PARTITIONS=%d or more", p.Index, to.Prefix, p.Topic, c.partitions())
		}
	}
	for p := range c.ends {
		if err := c.copyRecords(ctx, p); err != nil {
			return fmt.Errorf("copy partition %d of topic %s: %w", p.Index, p.Topic, err)
		}
	}
	for _, group := range Groups() {
		if err := c.copyCommits(ctx, group); err != nil {
			return fmt.Errorf("copy the commits of group %s: %w", group, err)
		}
	}
	return nil
}

// copyAtOnce bounds the records that wait for their acknowledgement.
const copyAtOnce = 100_000

type kafkaCopy struct {
	client       *kgo.Client
	admin        *kadm.Client
	source       *Reader
	prefix       string
	starts, ends map[Partition]int64
}

// partitions returns how many partitions the topics by endpoint need.
func (c *kafkaCopy) partitions() (n int32) {
	for p := range c.ends {
		n = max(n, p.Index+1)
	}
	return n
}

func (c *kafkaCopy) copyRecords(ctx context.Context, p Partition) error {
	start, end := c.starts[p], c.ends[p]
	for at := int64(0); at < start; {
		batch := make([]*Record, min(start-at, copyAtOnce))
		for i := range batch {
			batch[i] = &Record{}
		}
		if err := c.produce(ctx, p, at, batch); err != nil {
			return err
		}
		at += int64(len(batch))
	}
	if start > 0 {
		var before kadm.Offsets
		before.AddOffset(c.prefix+p.Topic, p.Index, start, -1)
		deleted, err := c.admin.DeleteRecords(ctx, before)
		if err == nil {
			err = deleted.Error()
		}
		if err != nil {
			return err
		}
	}
	return c.source.readRanges(ctx, []Range{{Partition: p, From: start, To: end}}, rangePartitionFetchBytes,
		func(_ Partition, records []*Record) error { return c.produce(ctx, p, records[0].Offset, records) })
}

// produce appends records and checks that the first gets the offset at.
func (c *kafkaCopy) produce(ctx context.Context, p Partition, at int64, records []*Record) error {
	copies := make([]*Record, len(records))
	for i, r := range records {
		copies[i] = &Record{Topic: c.prefix + p.Topic, Partition: p.Index, Key: r.Key, Value: r.Value, Headers: r.Headers,
			Timestamp: r.Timestamp}
	}
	results := c.client.ProduceSync(ctx, copies...)
	if err := results.FirstErr(); err != nil {
		return err
	}
	for i, r := range copies {
		if r.Offset != at+int64(i) {
			return fmt.Errorf("a record of offset %d got %d: something else writes to the topic", at+int64(i), r.Offset)
		}
	}
	return nil
}

func (c *kafkaCopy) copyCommits(ctx context.Context, group string) error {
	commits, err := c.source.Commits(ctx, group, ReadBy(group)...)
	if err != nil {
		return err
	}
	var offsets kadm.Offsets
	for p, commit := range commits {
		offsets.Add(kadm.Offset{Topic: c.prefix + p.Topic, Partition: p.Index, At: commit.Offset, LeaderEpoch: -1,
			Metadata: commit.Metadata})
	}
	committed, err := c.admin.CommitOffsets(ctx, c.prefix+group, offsets)
	if err == nil {
		err = committed.Error()
	}
	return err
}
