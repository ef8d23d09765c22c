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
// counts all events. It reads the events of the next batch when the results of the last one are taken. An error ends
// it: the events from its index on were not confirmed. With WithIdempotencyKey it may be repeated as a whole, with the
// same events: what was stored is not stored again.
func (c *Client) SendAll(ctx context.Context, endpointID string, events iter.Seq[BatchEvent],
	options ...Option) iter.Seq2[BatchItem, error] {
	return func(yield func(BatchItem, error) bool) {
		keyed := request{header: http.Header{}}
		for _, option := range slices.Insert(slices.Clone(options), 0, WithIdempotencyKey(rand.Text())) {
			option(&keyed)
		}
		first, n := 0, 0
		for batch := range batches(events) {
			key := fmt.Sprint(keyed.header.Get("Idempotency-Key"), "-", n)
			results, err := c.sendBatch(ctx, endpointID, batch, append(slices.Clone(options), WithIdempotencyKey(key)))
			if err != nil {
				yield(BatchItem{Index: first}, err)
				return
			}
			for _, result := range results {
				result.Index += first
				if !yield(result, nil) {
					return
				}
			}
			first, n = first+len(batch), n+1
		}
	}
}

// sendBatch sends a batch, and repeats it with the same key while events of it failed for the moment: those that were
// stored are not stored again.
func (c *Client) sendBatch(ctx context.Context, endpointID string, events []BatchEvent,
	options []Option) ([]BatchItem, error) {
	for try := 1; ; try++ {
		answer, err := c.SendEvents(ctx, endpointID, EventBatch{Events: events}, options...)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(answer.Data, failedForNow) || try >= c.MaxTries || !c.wait(ctx, try, nil) {
			return answer.Data, nil
		}
	}
}

func failedForNow(result BatchItem) bool {
	return result.Error != nil &&
		slices.Contains([]ErrorType{"rate_limited", "unavailable", "internal", "timeout"}, result.Error.Type)
}

func batches(events iter.Seq[BatchEvent]) iter.Seq[[]BatchEvent] {
	return func(yield func([]BatchEvent) bool) {
		var batch []BatchEvent
		size := len(`{"events":[]}`)
		for event := range events {
			text, _ := json.Marshal(event) // an event that cannot be written fails when it is sent
			if len(batch) == maxBatchEvents || len(batch) > 0 && size+len(text)+1 > maxBatchBytes {
				if !yield(batch) {
					return
				}
				batch, size = nil, len(`{"events":[]}`)
			}
			batch, size = append(batch, event), size+len(text)+1
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}
