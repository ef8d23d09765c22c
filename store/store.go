// Package store keeps what happened in ClickHouse and answers reads from it.
//
// In: the topics events, commands, outcomes, receipts and audit, read by the group store. Out: rows in
// ClickHouse, and answers to lists and single reads. Delivery does not depend on it: while ClickHouse
// is away the writer waits and the log grows; afterwards it catches up.
//
// Writer. Every flush is one insert per table, all partitions together; the offsets are committed
// after it. A crash in between makes the next owner write the same rows again, and every table
// collapses equal rows by its natural key, so a redo changes nothing (usage_minute, which only feeds
// charts, counts at least once). A record that cannot be read and a row that ClickHouse refuses go to
// the topic dead; the rest of the batch goes in. Backpressure: while a flush runs or ClickHouse is
// away, at most one further batch is collected, then the writer stops polling (block).
//
// Versions. A delivery's newest state is decided by ver = milliseconds of its run << 80 | rank << 64 |
// 1 + offset in outcomes: delivered is absorbing within a run, a newer run supersedes, and what was
// delivered counts from the moment of its proof if that is later. All of it stands in the records, so a
// redo comes to the same version.
//
// Fence. A read that must see what was acknowledged takes the end offsets of its topics, asks the
// writer to flush once it has read that far, and waits at most read.ReaderConfig.FenceWait. When it has not got
// there, what is there is served and marked with the time it stands for.
//
// Shards. With several servers all rows about an event are on one of them, see shards.go; reads ask those that may have
// an answer and put the parts together.
//
// Reads are bounded by time windows and by the retention; values reach ClickHouse as query parameters
// only. The event of the last minutes is also found in the log, when ClickHouse is behind or away.
package store

import (
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// Group is the name of the writer's consumer group, without the prefix.
const Group = stream.StoreGroup

// Topics returns the topics that the writer reads: the ones a fence looks at.
func Topics() []string { return stream.ReadBy(Group) }

// Position is how far one partition has been written to ClickHouse.
type Position struct {
	Offset     int64     // everything below it is there
	RecordTime time.Time // of the record before Offset; zero when it is not known
}

// Progress is what a reader needs to know about the writer in its process.
type Progress struct {
	Owned   map[stream.Partition]Position
	Failing bool            // ClickHouse does not take rows at the moment
	Changed <-chan struct{} // closed when this is out of date
}

// Kicker is the writer in the same process, as a reader needs it.
type FlushRequester interface {
	// RequestFlush asks for a flush as soon as everything below the offsets has been read.
	RequestFlush(map[stream.Partition]int64)
	// Progress says how far the partitions that it owns are.
	Progress() Progress
}

// WithoutPayload returns the event as it is shown when its payload was erased.
func WithoutPayload(e *event.Event) *event.Event {
	bare := *e
	bare.Header, bare.Body, bare.Query = nil, nil, ""
	return &bare
}
