package webhook

import (
	"context"
	"net/http"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// maxBatchAnswer is how much of the answer to a batch each of its attempts records.
const maxBatchAnswer = 1 << 10

func newBatches(now func() time.Time, b *kinds.HTTPBatch) *destination.Batches {
	return &destination.Batches{Now: now, Wait: time.Duration(b.Seconds) * time.Second, Count: b.Events,
		Bytes: b.Bytes - 1} // an array has a byte more than lines
}

// sendInBatch adds the event to a batch and returns when it was answered. The answer decides for all events of a batch.
func (t *target) sendInBatch(ctx context.Context, m destination.Message) destination.Result {
	header := m.EventHeader(&destination.Opened{}) // those of the destination are the request's
	line := destination.Line(m, header)
	if size := len(line); size >= t.maxBatch {
		m.Attempt.URL, m.Attempt.Method = t.urlText, http.MethodPost
		return destination.Failed(m.Attempt, destination.Faultf(event.CodeTooLarge,
			"the event has %d bytes in a batch, more than max_bytes (%d)", size, t.maxBatch), 0)
	}
	name := m.Attempt.ID.Text(id.Attempt)
	return t.batches.Send(ctx, m, header, line, func(b *destination.Batch) destination.Result {
		m := m
		m.Attempt, m.Content = &b.Attempt, destination.Content{Body: b.Array()}
		b.Attempt.StartedAt = t.kind.Now()
		result := t.request(ctx, m, http.MethodPost, b.Header(name, m.Work, m.Content.Body,
			&t.Opened, t.kind.userAgent, b.Attempt.StartedAt))
		if b.Count > 1 && len(b.Attempt.ResponseBody) > maxBatchAnswer {
			b.Attempt.ResponseBody, b.Attempt.Truncated = b.Attempt.ResponseBody[:maxBatchAnswer], true
		}
		return result
	})
}
