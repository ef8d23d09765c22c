// Package store holds what the writer and the readers of ClickHouse share. Begin with store/write (topics to tables),
// then store/read (answers to the API), then store/schema (the tables and their migrations).
//
// The writer reads the topics events, commands, outcomes, receipts and audit as consumer group store, findings as
// store.findings, and inserts their records into ClickHouse. Accepting and delivering events does not need ClickHouse:
// while it is unavailable, records stay in Kafka, and the writer catches up afterwards.
//
// Writer. Every flush is one insert per table and shard for all partitions together; the offsets are committed after
// it. A crash in between makes the next partition owner insert the same rows again. Every table merges rows with equal
// keys (ReplacingMergeTree, or aggregates of minima and maxima), so a second insert changes nothing. Only usage_minute,
// which feeds charts and the counts of requests, may count a row twice. A record that cannot be decoded and a row that
// ClickHouse rejects go to the dead letter topic, the rest of the batch is stored. Back-pressure: while a flush runs,
// at most one more batch is filled; then the writer stops polling. The two groups do not wait for each other.
//
// Versions. The newest state of a delivery is the row with the greatest ver = milliseconds of its run << 80 | rank <<
// 64 | 1 + offset in outcomes. Within a run, delivered outranks every other status. A newer run outranks an older one,
// and a delivered outcome that is later than its run counts with its own time. All parts of ver are in the record, so
// inserting it again produces the same version.
//
// Read-your-writes fence. A read that must include everything acknowledged so far asks Kafka for the end offsets of the
// topics, asks the writers to flush once they have read that far, its own by a call and those of other nodes by a
// message, and waits at most cluster.Config.FenceWait. When that time is up, the read answers with what is stored
// and says up to which time it is complete (as_of). A read of one event whose partition the writer in the same process
// owns, and the most common lists where there is no other node, wait for no flush: they merge the rows that this writer
// has read and not stored (Unstored).
//
// Shards. With several ClickHouse servers all rows of an event are on one shard, see store/ch/shards.go. A
// read asks the shards that may hold matching rows and merges their answers.
//
// Reads are bounded by time windows and by the retention. Values reach ClickHouse as query parameters only. An event of
// the last minutes is also found in Kafka, while ClickHouse is unavailable or the writer lags behind.
package store

import (
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// Groups returns the consumer groups of the writer, without the configured prefix. Each has a loader of the writer.
func Groups() []string { return []string{stream.StoreGroup, stream.StoreFindingsGroup} }

// Topics returns the topics that the writer reads, and whose end offsets a fence waits for.
func Topics() (all []string) {
	for _, group := range Groups() {
		all = append(all, stream.ReadBy(group)...)
	}
	return all
}

// Position is how far one partition has been written to ClickHouse.
type Position struct {
	Offset     int64     // all records below it are in ClickHouse
	RecordTime time.Time // timestamp of the record before Offset; zero if unknown
	Failing    bool      // the last insert into a shard failed, of rows of this partition's consumer group
}

// Progress is the writer's state as a reader in the same process sees it.
type Progress struct {
	Owned   map[stream.Partition]Position
	Changed <-chan struct{} // closed at the next change; then call Progress again
}

// EncodeTargets makes a message of offsets that a reader waits for, to the writers of other nodes.
func EncodeTargets(targets map[stream.Partition]int64) []byte {
	byTopic := make(map[string]map[int32]int64)
	for p, end := range targets {
		if byTopic[p.Topic] == nil {
			byTopic[p.Topic] = make(map[int32]int64)
		}
		byTopic[p.Topic][p.Index] = end
	}
	message, err := json.Marshal(byTopic)
	if err != nil {
		panic("BUG: encode offsets: " + err.Error()) // maps of strings and numbers
	}
	return message
}

// DecodeTargets decodes what EncodeTargets made.
func DecodeTargets(message []byte) (map[stream.Partition]int64, error) {
	var byTopic map[string]map[int32]int64
	if err := json.Unmarshal(message, &byTopic); err != nil {
		return nil, fmt.Errorf("decode a request to flush: %w", err)
	}
	targets := make(map[stream.Partition]int64)
	for topic, ends := range byTopic {
		for index, end := range ends {
			targets[stream.Partition{Topic: topic, Index: index}] = end
		}
	}
	return targets, nil
}

// FlushRequester is the writer in the same process, as a reader uses it.
type FlushRequester interface {
	// RequestFlush asks for a flush as soon as every record below the offsets has been read. It does not wait.
	RequestFlush(map[stream.Partition]int64)
	// Progress returns how far the partitions of this writer have been written.
	Progress() Progress
	// Unstored returns the rows that the writer holds in memory, once it has read every record below the offsets. Until
	// then it returns nil, reads on at once, and then closes Progress.Changed. owned is false, and the rows are nil, when
	// the writer does not own all of the partitions. The offsets are of topics that events need.
	Unstored(offsets map[stream.Partition]int64) (rows *Unstored, owned bool)
}

// Unstored are rows that the writer has read and that may not be in ClickHouse yet. Every row of its partitions that is
// not here is in ClickHouse; some may be in both. The rows are shared: nobody may change them. Erased payloads are
// still in them.
type Unstored struct {
	Events   iter.Seq2[*event.Event, int]             // with the size of the body
	Outcomes iter.Seq2[*event.Outcome, event.Version] // with the version of the delivery's row
	Receipts iter.Seq2[*event.Receipt, int64]         // with the offset of the record
	// FlushBegan reports whether the writer has begun to store further rows since. Nil: nobody knows. Until it has, rows
	// that are not here are neither added nor changed, whichever table is read first.
	FlushBegan func() bool
}

// WithoutPayload returns a copy of e without header, body, query and mismatch: what a read shows of an event whose
// payload was erased.
func WithoutPayload(e *event.Event) *event.Event {
	bare := *e
	bare.Header, bare.Body, bare.Query, bare.Mismatch = nil, nil, "", ""
	return &bare
}
