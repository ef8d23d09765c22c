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

// batch is what one flush writes. It is not safe for concurrent use.
type batch struct {
	events     []*eventRow
	deliveries []*deliveryRow
	attempts   []*deliveryRow
	receipts   []*receiptRow
	audit      []*auditRow
	dead       []deadRecord
	marks      map[*place]mark
	bytes      int
	days       map[int64]struct{} // day partitions that the rows fall into
	since      time.Time          // when the first record came
}

// mark is how far a partition will have been written once the batch is.
type mark struct {
	stream.Commit
	at    time.Time // of the last record
	bytes int       // of the partition's records in the batch
}

// deadRecord is a record that cannot be stored, and why.
type deadRecord struct {
	source
	cause error
}

func newBatch() *batch {
	return &batch{marks: make(map[*place]mark), days: make(map[int64]struct{})}
}

func (b *batch) empty() bool { return len(b.marks) == 0 }

func (b *batch) rows() int {
	return len(b.events) + len(b.deliveries) + len(b.attempts) + len(b.receipts) + len(b.audit)
}

// add decodes the records of one partition and notes how far they reach.
func (b *batch) add(from *place, records []*stream.Record, now time.Time) {
	if b.empty() {
		b.since = now
	}
	held := b.marks[from].bytes
	for _, r := range records {
		if err := b.decode(source{r, from}); err != nil {
			b.dead = append(b.dead, deadRecord{source{r, from}, err})
		}
		b.bytes += size(r)
		held += size(r)
	}
	last := records[len(records)-1]
	b.marks[from] = mark{stream.Commit{Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}, last.Timestamp, held}
}

func (b *batch) decode(s source) error {
	switch s.place.Topic {
	case stream.Events:
		e, err := decodeEvent(s)
		if err != nil {
			return err
		}
		b.events = append(b.events, e)
		b.touch(e.ID)
	case stream.Commands:
		d, err := decodeCommand(s)
		if err != nil || d == nil {
			return err
		}
		b.deliveries = append(b.deliveries, d)
		b.touch(d.Event)
	case stream.Outcomes:
		d, err := decodeOutcome(s)
		if err != nil {
			return err
		}
		b.deliveries = append(b.deliveries, d)
		if d.Attempt != nil {
			b.attempts = append(b.attempts, d)
		}
		b.touch(d.Event)
	case stream.Receipts:
		x, err := decodeReceipt(s)
		if err != nil {
			return err
		}
		b.receipts = append(b.receipts, x)
		b.touch(x.Event)
	case stream.AuditLog:
		x, err := decodeAudit(s)
		if err != nil {
			return err
		}
		b.audit = append(b.audit, x)
	default:
		return fmt.Errorf("topic %s has no table", s.place.Topic)
	}
	return nil
}

func (b *batch) touch(event id.ID) {
	b.days[event.UnixMilli()/(24*time.Hour).Milliseconds()] = struct{}{}
}

// drop forgets what came from these partitions: another member will read it again.
func (b *batch) drop(gone map[*place]bool) {
	b.events = keep(b.events, gone)
	b.deliveries = keep(b.deliveries, gone)
	b.attempts = keep(b.attempts, gone)
	b.receipts = keep(b.receipts, gone)
	b.audit = keep(b.audit, gone)
	b.dead = keep(b.dead, gone)
	maps.DeleteFunc(b.marks, func(p *place, m mark) bool {
		if gone[p] {
			b.bytes -= m.bytes // a batch that is empty and counts as full would never be written, nor filled
		}
		return gone[p]
	})
}

// split gives each shard its part of the rows. The parts know nothing of offsets.
func (b *batch) split(shards int) []*batch {
	if shards == 1 {
		return []*batch{b}
	}
	parts := make([]*batch, shards)
	for i := range parts {
		parts[i] = &batch{
			events: part(b.events, i, shards), deliveries: part(b.deliveries, i, shards), attempts: part(b.attempts, i, shards),
			receipts: part(b.receipts, i, shards), audit: part(b.audit, i, shards),
		}
	}
	return parts
}

func part[R row](rows []R, shard, shards int) (mine []R) {
	for _, r := range rows {
		if ch.ShardOf(r.about(), shards) == shard {
			mine = append(mine, r)
		}
	}
	return mine
}

func keep[R interface{ origin() source }](rows []R, gone map[*place]bool) []R {
	return slices.DeleteFunc(rows, func(r R) bool { return gone[r.origin().place] })
}

// size is what a record takes in memory, nearly.
func size(r *stream.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
