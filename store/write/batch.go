package write

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/internal/ch"
)

// batch holds the rows of one flush. It is not safe for concurrent use.
type batch struct {
	events        []*eventRow
	deliveries    []*deliveryRow
	attempts      []*deliveryRow
	receipts      []*receiptRow
	audit         []*auditRow
	hits          []*hitRow
	senders       []*senderRow
	deadLetters   []deadLetter
	ends          map[*assignment]partitionEnd
	bytes         int
	days          map[int64]struct{} // days since 1970 whose partitions the rows belong to
	firstRecordAt time.Time          // when the first record was added
	oldest        time.Time          // lowest timestamp of a record
}

// partitionEnd is where the batch's records of one partition end.
type partitionEnd struct {
	stream.Commit
	lastRecordAt time.Time // timestamp of the last record
	bytes        int       // size of the partition's records in the batch
}

// deadLetter is a record that cannot be decoded or stored, with the cause.
type deadLetter struct {
	source
	cause error
}

func newBatch() *batch {
	return &batch{ends: make(map[*assignment]partitionEnd), days: make(map[int64]struct{})}
}

func (b *batch) empty() bool { return len(b.ends) == 0 }

func (b *batch) rows() int {
	return len(b.events) + len(b.deliveries) + len(b.attempts) + len(b.receipts) + len(b.audit) + len(b.hits) +
		len(b.senders)
}

// addRecords decodes the records of one partition and moves the partition's end behind the last one.
func (b *batch) addRecords(from *assignment, records []*stream.Record, now time.Time) {
	if b.empty() {
		b.firstRecordAt = now
	}
	partitionBytes := b.ends[from].bytes
	for _, r := range records {
		if err := b.decode(source{r, from}); err != nil {
			b.deadLetters = append(b.deadLetters, deadLetter{source{r, from}, err})
		}
		b.bytes += recordSize(r)
		partitionBytes += recordSize(r)
	}
	if first := records[0].Timestamp; b.oldest.IsZero() || first.Before(b.oldest) {
		b.oldest = first
	}
	last := records[len(records)-1]
	b.ends[from] = partitionEnd{
		stream.Commit{Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}, last.Timestamp, partitionBytes}
}

func (b *batch) decode(s source) error {
	switch s.assignment.Topic {
	case stream.Events:
		e, err := decodeEvent(s)
		if err != nil || e.Source.IsUse() {
			return err
		}
		b.events = append(b.events, e)
		b.addDay(e.ID)
	case stream.Commands:
		d, err := decodeCommand(s)
		if err != nil || d == nil {
			return err
		}
		b.deliveries = append(b.deliveries, d)
		b.addDay(d.Event)
	case stream.Outcomes:
		d, err := decodeOutcome(s)
		if err != nil {
			return err
		}
		b.deliveries = append(b.deliveries, d)
		if d.Attempt != nil {
			b.attempts = append(b.attempts, d)
		}
		b.addDay(d.Event)
	case stream.Receipts:
		x, err := decodeReceipt(s)
		if err != nil {
			return err
		}
		b.receipts = append(b.receipts, x)
		b.addDay(x.Event)
	case stream.AuditLog:
		x, err := decodeAudit(s)
		if err != nil {
			return err
		}
		b.audit = append(b.audit, x)
	case stream.Findings:
		return b.decodeFindings(s)
	default:
		return fmt.Errorf("topic %s has no table", s.assignment.Topic)
	}
	return nil
}

func (b *batch) addDay(event id.ID) {
	b.days[event.UnixMilli()/(24*time.Hour).Milliseconds()] = struct{}{}
}

// dropAssignments removes the rows of revoked partitions: their next owner reads them again.
func (b *batch) dropAssignments(gone map[*assignment]bool) {
	b.events = withoutAssignments(b.events, gone)
	b.deliveries = withoutAssignments(b.deliveries, gone)
	b.attempts = withoutAssignments(b.attempts, gone)
	b.receipts = withoutAssignments(b.receipts, gone)
	b.audit = withoutAssignments(b.audit, gone)
	b.hits = withoutAssignments(b.hits, gone)
	b.senders = withoutAssignments(b.senders, gone)
	b.deadLetters = withoutAssignments(b.deadLetters, gone)
	maps.DeleteFunc(b.ends, func(p *assignment, m partitionEnd) bool {
		if gone[p] {
			b.bytes -= m.bytes // otherwise an empty batch could count as full: it would be neither flushed nor filled
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
		parts[i] = &batch{
			events: rowsOfShard(b.events, i, shards), deliveries: rowsOfShard(b.deliveries, i, shards),
			attempts: rowsOfShard(b.attempts, i, shards),
			receipts: rowsOfShard(b.receipts, i, shards), audit: rowsOfShard(b.audit, i, shards),
			hits: rowsOfShard(b.hits, i, shards), senders: rowsOfShard(b.senders, i, shards),
		}
	}
	return parts
}

func rowsOfShard[R row](rows []R, shard, shards int) (mine []R) {
	for _, r := range rows {
		if ch.ShardOf(r.shardID(), shards) == shard {
			mine = append(mine, r)
		}
	}
	return mine
}

// withoutAssignments returns a new slice, because a reader may have the old one.
func withoutAssignments[R interface{ recordSource() source }](rows []R, gone map[*assignment]bool) []R {
	return slices.DeleteFunc(slices.Clone(rows), func(r R) bool { return gone[r.recordSource().assignment] })
}

// recordSize is about the memory that a record takes, in bytes.
func recordSize(r *stream.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
