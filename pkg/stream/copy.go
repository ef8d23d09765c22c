package stream

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/segment"
)

// CopyKafka copies the log of the Kafka that version 0.1 embedded into a log in this process that is empty: all topics
// with their ids, records with their offsets, and what groups have committed. Nobody may write to either meanwhile. The
// files in dir:
//
//	topics.json                                        names, ids and numbers of partitions
//	partitions/<topic>-<partition>/<base offset>.dat   batches of records, as Kafka's protocol has them
//	                              /snapshot.json       start of the log at the last clean stop
//	groups.log                                         committed offsets, appended
func CopyKafka(ctx context.Context, dir string, to *Log) error {
	var found struct {
		Topics []struct {
			Name, ID   string
			Partitions int32
		}
	}
	if err := readJSON(filepath.Join(dir, "topics.json"), &found); err != nil {
		return err
	}
	for _, t := range found.Topics {
		topic := segment.Topic{Name: t.Name, ID: t.ID, Partitions: t.Partitions}
		if _, err := to.segments.CreateTopic(topic, false); err != nil {
			return err
		}
		for i := range t.Partitions {
			c := partitionCopy{dir: filepath.Join(dir, "partitions", fmt.Sprintf("%s-%d", url.PathEscape(t.Name), i)),
				into: to.segments.Partition(t.Name, i)}
			if err := c.run(ctx); err != nil {
				return fmt.Errorf("copy partition %d of topic %s: %w", i, t.Name, err)
			}
		}
	}
	return copyCommits(ctx, filepath.Join(dir, "groups.log"), to.segments)
}

// readJSON reads a file that may be missing.
func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

type partitionCopy struct {
	dir   string
	into  *segment.Partition
	begun bool
	start int64 // of the log, at the last clean stop
}

func (c *partitionCopy) run(ctx context.Context) error {
	files, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no records yet
		return err
	}
	var bases []int64
	for _, f := range files {
		if text, isSegment := strings.CutSuffix(f.Name(), ".dat"); isSegment {
			base, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	var snapshot struct {
		LogStart int64 `json:"log_start_offset"`
	}
	if err := readJSON(filepath.Join(c.dir, "snapshot.json"), &snapshot); err != nil {
		return err
	}
	c.start = snapshot.LogStart
	for _, base := range bases {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("%d.dat", base)))
		if err != nil {
			return err
		}
		for batch := wholeBatch(data); batch != nil; batch = wholeBatch(data) {
			if err := c.copyBatch(batch); err != nil {
				return err
			}
			data = data[len(batch):]
		}
	}
	return nil
}

// wholeBatch returns the first batch of a segment, or nil. What an interrupted write left at the end is none; it was
// not acknowledged. A batch begins with its first offset (8 bytes) and the length of what follows (4), and has its
// CRC-32C in the bytes 17 to 21.
func wholeBatch(b []byte) []byte {
	const head, crcAt = 12, 17
	if len(b) < crcAt+4 {
		return nil
	}
	n := uint64(binary.BigEndian.Uint32(b[8:])) + head
	if n < crcAt+4 || n > uint64(len(b)) ||
		crc32.Checksum(b[crcAt+4:n], castagnoli) != binary.BigEndian.Uint32(b[crcAt:]) {
		return nil
	}
	return b[:n]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// copyBatch appends a batch's records at their offsets, and waits until they are written.
func (c *partitionCopy) copyBatch(batch []byte) error {
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = batch
	opts := kgo.ProcessFetchPartitionOpts{Offset: c.start}
	read, _ := kgo.ProcessFetchPartition(opts, &p, kgo.DefaultDecompressor(), nil)
	if read.Err != nil || len(read.Records) == 0 { // none: before the start of the log
		return read.Err
	}
	if !c.begun {
		if err := c.into.Begin(read.Records[0].Offset); err != nil {
			return err
		}
		c.begun = true
	}
	done := make(chan error, len(read.Records))
	for _, r := range read.Records {
		want := r.Offset
		c.into.Append(r.Timestamp.UnixMilli(), &localRecord{Record: r, bytes: sizeOf(r), done: func(r *Record, err error) {
			if err == nil && r.Offset != want {
				err = fmt.Errorf("the record at offset %d would be at %d: others before it are missing", want, r.Offset)
			}
			done <- err
		}}, 0)
	}
	var err error
	for range read.Records {
		err = errors.Join(err, <-done)
	}
	return err
}

// copyCommits copies the last commit of each group and partition.
func copyCommits(ctx context.Context, path string, to *segment.Log) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	groups := make(map[string]map[segment.Key]segment.Commit)
	for text := range wholeEntries(raw) {
		var e struct {
			Type     string
			Group    string `json:"g"`
			Topic    string `json:"t"`
			Index    int32  `json:"p"`
			Offset   int64  `json:"o"`
			Epoch    int32  `json:"e"`
			Metadata string `json:"m"`
		}
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		key := segment.Key{Topic: e.Topic, Index: e.Index}
		switch {
		case e.Type == "delete":
			delete(groups[e.Group], key)
		case e.Type == "commit" && to.Partition(e.Topic, e.Index) != nil: // nil: a deleted topic
			if groups[e.Group] == nil {
				groups[e.Group] = make(map[segment.Key]segment.Commit)
			}
			groups[e.Group][key] = segment.Commit{Offset: e.Offset, Epoch: e.Epoch, Metadata: e.Metadata}
		}
	}
	for group, commits := range groups {
		if err := to.Commit(ctx, group, commits); err != nil {
			return err
		}
	}
	return nil
}

// wholeEntries returns the whole entries of groups.log: length of version and JSON (4 bytes), their CRC-32C (4),
// version (2), JSON; little-endian. A broker that was killed left the remainder of a write, behind which the next one
// appended.
func wholeEntries(raw []byte) func(yield func(text []byte) bool) {
	const head, version = 8, 2
	return func(yield func([]byte) bool) {
		for at := 0; at+head+version < len(raw); {
			n := uint64(binary.LittleEndian.Uint32(raw[at:]))
			if n <= version || n > uint64(len(raw)-at-head) || binary.LittleEndian.Uint32(raw[at+4:]) !=
				crc32.Checksum(raw[at+head:at+head+int(n)], castagnoli) {
				at++
				continue
			}
			if !yield(raw[at+head+version : at+head+int(n)]) {
				return
			}
			at += head + int(n)
		}
	}
}

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
	return c.source.FetchRanges(ctx, []Range{{Partition: p, From: start, To: end}}, rangePartitionFetchBytes,
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
