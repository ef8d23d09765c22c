package write

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/ch"
)

// batch holds the rows of one flush. It is not safe for concurrent use.
type batch struct {
	sinks         []anySink // they hold the rows
	deadLetters   []deadLetter
	ends          map[*assignment]partitionEnd
	rows, bytes   int                // see row.tableRows; size of the records
	days          map[int64]struct{} // days since 1970 whose partitions the rows belong to
	firstRecordAt time.Time          // when the first record was added
	oldest        time.Time          // lowest timestamp of a record
}

// partitionEnd is where the batch's records of one partition end.
type partitionEnd struct {
	stream.Commit
	lastRecordAt time.Time // timestamp of the last record
	rows, bytes  int       // see batch: what the partition's records add to them
}

// deadLetter is a record that cannot be decoded or stored, with the cause.
type deadLetter struct {
	source
	cause error
}

func newBatch(sinks []anySink) *batch {
	return &batch{sinks: withRows(sinks, func(row) bool { return false }), ends: make(map[*assignment]partitionEnd),
		days: make(map[int64]struct{})}
}

// withRows returns sinks of the same kinds with the rows for which keep returns true.
func withRows(sinks []anySink, keep func(row) bool) []anySink {
	out := make([]anySink, len(sinks))
	for i, k := range sinks {
		out[i] = k.with(keep)
	}
	return out
}

func (b *batch) empty() bool { return len(b.ends) == 0 }

// addRecords decodes the records of one partition and moves the partition's end behind the last one.
func (b *batch) addRecords(from *assignment, records []*stream.Record, now time.Time) {
	if b.empty() {
		b.firstRecordAt = now
	}
	rows, bytes := b.rows, b.bytes
	for _, r := range records {
		if err := b.decode(source{r, from}); err != nil {
			b.deadLetters = append(b.deadLetters, deadLetter{source{r, from}, err})
		}
		b.bytes += recordSize(r)
	}
	if first := records[0].Timestamp; b.oldest.IsZero() || first.Before(b.oldest) {
		b.oldest = first
	}
	last := records[len(records)-1]
	b.ends[from] = partitionEnd{
		stream.Commit{Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}, last.Timestamp,
		b.ends[from].rows + b.rows - rows, b.ends[from].bytes + b.bytes - bytes}
}

func (b *batch) decode(s source) error {
	for _, k := range b.sinks {
		if mine, err := k.decode(b, s); mine {
			return err
		}
	}
	return fmt.Errorf("topic %s has no table", s.assignment.Topic)
}

func (b *batch) addDay(event id.ID) {
	b.days[event.UnixMilli()/(24*time.Hour).Milliseconds()] = struct{}{}
}

// dropAssignments removes the rows of revoked partitions: their next owner reads them again.
func (b *batch) dropAssignments(gone map[*assignment]bool) {
	b.sinks = withRows(b.sinks, func(r row) bool { return !gone[r.recordSource().assignment] })
	b.deadLetters = slices.DeleteFunc(b.deadLetters, func(d deadLetter) bool { return gone[d.assignment] })
	maps.DeleteFunc(b.ends, func(p *assignment, m partitionEnd) bool {
		if gone[p] {
			// Otherwise an empty batch could count as full: it would be neither flushed nor filled.
			b.rows, b.bytes = b.rows-m.rows, b.bytes-m.bytes
		}
		return gone[p]
	})
}

// split returns the rows of each shard. The parts have no partition ends: offsets are committed for the whole batch.
func (b *batch) split(shards int) []*batch {
	if shards == 1 {
		return []*batch{b}
	}
	parts := make([]*batch, shards)
	for i := range parts {
		parts[i] = &batch{sinks: withRows(b.sinks, func(r row) bool { return ch.ShardOf(r.shardID(), shards) == i })}
	}
	return parts
}

// recordSize is about the memory that a record takes, in bytes.
func recordSize(r *stream.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
