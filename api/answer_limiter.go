package api

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// largeAnswerBudget bounds the large answers of a node that are made or written at the same time, in bytes.
	largeAnswerBudget = 256 << 20
	// maxSmallAnswer is what is not counted.
	maxSmallAnswer = 256 << 10
	// answerWait is how long an answer waits for room.
	answerWait = 2 * time.Second
	// escapedByte is the longest form of a byte in JSON: \u0001.
	escapedByte = 6
)

// answers bounds the bytes of the large answers in flight: clients may ask for many of them and read them slowly.
type answerLimiter struct{ budget *semaphore.Weighted }

func newAnswerLimiter() answerLimiter { return answerLimiter{semaphore.NewWeighted(largeAnswerBudget)} }

// write answers with what make returns, which has at most so many bytes as JSON. It waits until there is room for that,
// and holds what the answer really takes until it is written.
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
		return web.Away(nil, "this node is writing as many large answers as it may; ask again")
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

// detailBytes is the most that the single read of an event takes as JSON: its body may stand there twice, its headers
// do.
func detailBytes(d *event.Detail) int {
	e := d.Event
	n := 2*len(e.Body) + len(e.Query) + len(d.Deliveries)*deliveryBytes
	for _, f := range e.Header {
		n += 2 * (len(f.Name) + len(f.Value))
	}
	return escapedByte*n + attemptBytes(d.Attempts) + detailFrame
}

// detailFrame, deliveryBytes and attemptFrame are what an event, a delivery and an attempt take beside what customers
// and destinations have said, 200 lines of headers included.
const detailFrame, deliveryBytes, attemptFrame = 32 << 10, 1 << 10, 2 << 10

// attemptBytes is the most that attempts take as JSON.
func attemptBytes(rows []event.AttemptRow) (n int) {
	for i := range rows {
		r := &rows[i]
		n += len(r.ErrorMessage) + len(r.URL) + len(r.RequestHeader) + len(r.ResponseHeader) + len(r.ResponseBody) +
			attemptFrame
	}
	return escapedByte * n
}

// errTooManyReads is the answer to a key that has as many reads running as it may.
func errTooManyReads() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: "the key has as many reads of events running as it may have at once; wait for one of them"}
}
