package relay

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
)

// The API takes no larger batches.
const (
	maxBatchEvents = 1000
	maxBatchBytes  = 5 << 20
)

// SendAll sends any number of events in batches and yields the result of each, in order: an id or an error. The index
// counts all events. It reads the events of the next batch when the results of the last one are taken. An error ends it:
// the events from its index on were not confirmed. With WithIdempotencyKey it may be repeated as a whole, with the same
// events: what was stored is not stored again.
func (c *Client) SendAll(ctx context.Context, endpointID string, events iter.Seq[BatchEvent],
	options ...Option) iter.Seq2[BatchItem, error] {
	return func(yield func(BatchItem, error) bool) {
		b := batch{c: c, endpointID: endpointID, options: options, key: keyOf(options), yield: yield}
		for event := range events {
			if !b.add(ctx, event) {
				return
			}
		}
		b.flush(ctx)
	}
}

// batch gathers events.
type batch struct {
	c               *Client
	endpointID, key string
	options         []Option
	yield           func(BatchItem, error) bool

	events       []json.RawMessage
	bytes        int
	first, count int // index of the first event, and batches sent
}

// keyOf returns the key that the options set, or a random one.
func keyOf(options []Option) string {
	r := request{header: http.Header{}}
	for _, option := range append([]Option{WithIdempotencyKey(rand.Text())}, options...) {
		option(&r)
	}
	return r.header.Get("Idempotency-Key")
}

func (b *batch) add(ctx context.Context, event BatchEvent) bool {
	text, err := json.Marshal(event)
	if err != nil {
		b.yield(BatchItem{Index: b.first + len(b.events)}, fmt.Errorf("write an event: %w", err))
		return false
	}
	const around = len(`{"events":[]}`)
	if len(b.events) == maxBatchEvents || around+b.bytes+len(text)+1 > maxBatchBytes {
		if !b.flush(ctx) {
			return false
		}
	}
	b.events, b.bytes = append(b.events, text), b.bytes+len(text)+1
	return true
}

// flush sends the events that were added, and reports whether to go on.
func (b *batch) flush(ctx context.Context) bool {
	if len(b.events) == 0 {
		return true
	}
	results, err := b.send(ctx)
	if err != nil {
		b.yield(BatchItem{Index: b.first}, err)
		return false
	}
	for _, result := range results {
		result.Index += b.first
		if !b.yield(result, nil) {
			return false
		}
	}
	b.first, b.count = b.first+len(b.events), b.count+1
	b.events, b.bytes = b.events[:0], 0
	return true
}

// send sends a batch, and repeats it with the same key while events of it failed for the moment: those that were stored
// are not stored again.
func (b *batch) send(ctx context.Context) ([]BatchItem, error) {
	options := append(b.options[:len(b.options):len(b.options)], WithIdempotencyKey(fmt.Sprint(b.key, "-", b.count)))
	for try := 1; ; try++ {
		var answer EventBatchResult
		err := b.c.Call(ctx, http.MethodPost, pathOf("/v1/endpoints/%s/events/batch", b.endpointID), nil,
			map[string]any{"events": b.events}, &answer, options...)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(answer.Data, failedForNow) || try >= b.c.MaxTries || !b.c.wait(ctx, try, nil) {
			return answer.Data, nil
		}
	}
}

func failedForNow(result BatchItem) bool {
	return result.Error != nil &&
		slices.Contains([]ErrorType{"rate_limited", "unavailable", "internal", "timeout"}, result.Error.Type)
}
