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
