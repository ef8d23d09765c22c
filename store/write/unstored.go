package write

import (
	"slices"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
)

// unstored returns the rows of the batch that is being inserted and of the one that is being filled, once all records
// below the offsets have been read; see Writer.Unstored. The rows of a batch never change, and its slices only grow or
// are replaced, so the reader uses them without a lock.
func (l *lane) unstored(offsets map[stream.Partition]int64) (rows *store.Unstored, owned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owned, read := l.pos.waitRead(offsets) // under l.mu: what has been read is in a batch
	if !read {
		notify(l.pollNow)
		return nil, owned
	}
	var events [2][]*eventRow
	var deliveries [2][]*deliveryRow
	var receipts [2][]*receiptRow
	for i, b := range []*batch{l.inserting, l.filling} {
		if b != nil {
			events[i], deliveries[i] = sinkOf[*eventRow](b).rows, sinkOf[*deliveryRow](b).rows
			receipts[i] = sinkOf[*receiptRow](b).rows
		}
	}
	flushes := l.flushes.Load()
	return &store.Unstored{
		FlushBegan: func() bool { return l.flushes.Load() != flushes },
		Events: func(yield func(*event.Event, int) bool) {
			eachRow(events, func(r *eventRow) bool { return yield(r.Event, int(r.size)) })
		},
		Outcomes: func(yield func(*event.Outcome, event.Version) bool) {
			eachRow(deliveries, func(r *deliveryRow) bool { return yield(r.Outcome, r.version) })
		},
		Receipts: func(yield func(*event.Receipt, int64) bool) {
			eachRow(receipts, func(r *receiptRow) bool { return yield(r.Receipt, r.record.Offset) })
		},
	}, true
}

// eachRow calls f for the rows of both batches until it returns false.
func eachRow[R any](batches [2][]R, f func(R) bool) {
	for _, rows := range batches {
		if slices.ContainsFunc(rows, func(r R) bool { return !f(r) }) {
			return
		}
	}
}
