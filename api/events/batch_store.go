package events

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// store stores the valid items. It returns an error only when the log accepted none of them.
func (b *batch) store() error {
	// Storing continues when the client leaves: the events are complete.
	ctx := context.WithoutCancel(b.r.Context())
	b.storeWithoutKeys(ctx)
	repeats := b.storeWithKeys(ctx)
	b.readStatuses(ctx)
	for i, first := range repeats {
		b.copyResult(&b.items[i], &b.items[first])
	}
	var unavailable error
	for i := range b.items {
		x := &b.items[i]
		if !x.id.IsZero() {
			return nil
		}
		if e, ok := errors.AsType[*web.Error](x.err); ok && e.Status == http.StatusServiceUnavailable {
			unavailable = x.err
		}
	}
	return unavailable
}

// storeWithoutKeys stores the items without an idempotency key, all at the same time.
func (b *batch) storeWithoutKeys(ctx context.Context) {
	items, events := make([]*batchItem, 0, len(b.items)), make([]*event.Event, 0, len(b.items))
	for i := range b.items {
		x := &b.items[i]
		if x.err != nil || x.key != "" {
			continue
		}
		d, err := b.sender.IDs.New(b.ep.Partition)
		if err != nil {
			x.err = acceptError(err)
			continue
		}
		items, events = append(items, x), append(events, b.template.newEvent(d, &x.parsedEvent))
	}
	if len(events) == 0 {
		return
	}
	for i, err := range b.sender.accept.AcceptAll(ctx, events, b.ep) {
		items[i].setResult(events[i], err)
	}
}

func (x *batchItem) setResult(e *event.Event, err error) {
	if err != nil {
		x.err = acceptError(err)
		return
	}
	x.id, x.status = e.ID, event.Pending
	if len(e.Dests) == 0 {
		x.status = event.Skipped
	}
}

// storeWithKeys claims and stores the items with an idempotency key. It returns the items whose key an earlier item
// of the batch uses, as index → index of that item.
func (b *batch) storeWithKeys(ctx context.Context) map[int]int {
	repeats, firsts := map[int]int{}, map[string]int{}
	limited, cancel := context.WithTimeout(ctx, frame.IdempotencyWait)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(maxBatchClaims)
	unavailable := make(chan struct{}, 1)
	for i := range b.items {
		x := &b.items[i]
		if x.err != nil || x.key == "" {
			continue
		}
		if first, ok := firsts[x.key]; ok {
			repeats[i] = first
			continue
		}
		firsts[x.key] = i
		g.Go(func() error {
			if !b.storeOnce(ctx, limited, x) {
				select {
				case unavailable <- struct{}{}:
				default:
				}
			}
			return nil
		})
	}
	_ = g.Wait() // each item holds its own error
	b.idempotencyUnavailable = b.idempotencyUnavailable || len(unavailable) > 0
	return repeats
}

// storeOnce stores an item unless its key was used before. It returns false when the limiter store failed, so a repeat
// may be stored again. limited bounds the time that all items of a batch together wait for claims of other calls.
func (b *batch) storeOnce(ctx, limited context.Context, x *batchItem) (remembered bool) {
	d, err := b.sender.IDs.New(b.ep.Partition)
	if err != nil {
		x.err = acceptError(err)
		return true
	}
	o := b.sender.newIdempotentSend(b.r, b.ep, x.key, x.raw, d)
	held, err := o.claim(limited)
	switch {
	case err != nil:
		x.err = err
		return true
	case held.State == claim.Stored:
		x.id, x.status, x.repeated = held.Event, event.Pending, true
		return true
	}
	e := b.template.newEvent(d, &x.parsedEvent)
	e.IdempotencyKey = x.key
	err = b.sender.accept.Accept(ctx, e, b.ep)
	x.setResult(e, err)
	return held.State == claim.New && b.sender.claims.Finish(ctx, o.request, err) == nil
}

// readStatuses reads the current status of events that an earlier call stored. An event that cannot be read now is
// reported as pending.
func (b *batch) readStatuses(ctx context.Context) {
	var ids []id.ID
	for i := range b.items {
		if b.items[i].repeated {
			ids = append(ids, b.items[i].id)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := b.sender.events.Summaries(ctx, b.ep.Account, ids)
	if err != nil {
		return
	}
	for i := range b.items {
		if row, ok := rows[b.items[i].id]; ok && b.items[i].repeated {
			b.items[i].status = row.Status
		}
	}
}

// copyResult gives an item the result of the earlier item in the batch that has the same key.
func (b *batch) copyResult(x, first *batchItem) {
	if sha256.Sum256(x.raw) != sha256.Sum256(first.raw) {
		x.err = &web.Error{Status: http.StatusBadRequest, Type: web.IdempotencyMismatch, Param: "idempotency_key",
			Message: "is used by another event of this batch with different content; give each event its own key"}
		return
	}
	x.id, x.status, x.err = first.id, first.status, first.err
}
