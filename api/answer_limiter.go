package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// largeAnswerBudget is how many bytes of large responses a node builds and writes at the same time.
	largeAnswerBudget = 256 << 20
	// maxSmallAnswer is the size in bytes up to which a response does not count against the budget.
	maxSmallAnswer = 256 << 10
	// answerWait is how long a response waits for its share of the budget before it is refused with 503.
	answerWait = 2 * time.Second
	// escapedByte is the longest form of a byte in JSON: \u0001.
	escapedByte = 6
)

// answerLimiter bounds the memory of large responses in flight: a client may ask for many and read them slowly.
type answerLimiter struct{ budget *semaphore.Weighted }

func newAnswerLimiter() answerLimiter { return answerLimiter{semaphore.NewWeighted(largeAnswerBudget)} }

// write sends what build returns as JSON; maxBytes is the upper bound of its encoded size. It waits until that much
// of the budget is free, and holds the real size until the response is written.
func (a answerLimiter) write(ctx context.Context, w http.ResponseWriter, maxBytes int, build func() any) error {
	if maxBytes <= maxSmallAnswer {
		web.WriteJSON(w, http.StatusOK, build())
		return nil
	}
	held := min(int64(maxBytes), largeAnswerBudget)
	limited, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if err := a.budget.Acquire(limited, held); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return web.ServiceUnavailable(
			nil, "this node is already sending as many large responses as its memory limit allows; try again")
	}
	defer func() { a.budget.Release(held) }()
	body := web.Encode(build())
	if real := min(int64(len(body)), held); real < held {
		a.budget.Release(held - real)
		held = real
	}
	web.WriteEncoded(w, http.StatusOK, body)
	return nil
}

// detailBytes is an upper bound of an event's detail as JSON. Its body may appear twice (body and data), its headers
// always do (headers and headers_raw), and their values perhaps once more in base64.
func detailBytes(d *event.Detail) int {
	e := d.Event
	n, encoded := 2*len(e.Body)+len(e.Query)+len(d.Deliveries)*deliveryBytes, 0
	for _, f := range e.Header {
		n += 2 * (len(f.Name) + len(f.Value))
		encoded += base64.StdEncoding.EncodedLen(len(f.Value)) + len("null,")
	}
	return escapedByte*n + encoded + attemptBytes(d.Attempts) + detailFrame
}

// detailFrame, deliveryBytes and attemptFrame bound the JSON of an event, a delivery and an attempt, without the texts
// that senders and receivers chose. They include the quotes and commas around 200 header lines.
const detailFrame, deliveryBytes, attemptFrame = 32 << 10, 1 << 10, 2 << 10

// rowFrame and stateBytes bound the JSON of a list row without its type, and of a delivery in it.
const rowFrame, stateBytes = 1 << 10, 160

// rowBytes is an upper bound of a page of list rows as JSON. An event has a delivery for every destination that it was
// ever replayed to.
func rowBytes(rows []event.Summary) int {
	n := len(rows) * rowFrame
	for i := range rows {
		n += escapedByte*len(rows[i].Type) + stateBytes*len(rows[i].Deliveries)
	}
	return n
}

// attemptBytes is an upper bound of attempts as JSON.
func attemptBytes(rows []event.AttemptRow) (n int) {
	for i := range rows {
		r := &rows[i]
		n += len(r.ErrorMessage) + len(r.URL) + len(r.RequestHeader) + len(r.ResponseHeader) + len(r.ResponseBody) +
			attemptFrame
	}
	return escapedByte * n
}

// errTooManySearches is the 429 of a node that already searches as many endpoints as it may at a time.
func errTooManySearches() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: fmt.Sprintf("this node already runs %d searches of endpoints; try again in a second", maxSearches)}
}

// errTooManyReads is the 429 for a key or a person that already has its maximum of concurrent event reads.
func errTooManyReads() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: "as many event reads are running as one API key or person may have; wait for one to finish"}
}
