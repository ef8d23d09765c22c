package events

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// largeAnswerBudget is how many bytes of large responses a node builds and writes at the same time.
	largeAnswerBudget = 256 << 20
	// answerShare is how many of them one key or person has, about: whoever reads slowly leaves room for others.
	answerShare = largeAnswerBudget / 4
	// maxSmallAnswer is the size in bytes up to which a response does not count against the budget.
	maxSmallAnswer = 256 << 10
	// answerWait is how long a response waits for its share of the budget before it is refused with 503.
	answerWait = 2 * time.Second
	// escapedByte is the longest form of a byte in JSON: \u0001.
	escapedByte = 6
)

// answerLimiter bounds the memory of large responses in flight: a client may ask for many and read them slowly.
type answerLimiter struct {
	budget *semaphore.Weighted
	shares *answerShares
}

func newAnswerLimiter() answerLimiter {
	return answerLimiter{semaphore.NewWeighted(largeAnswerBudget), &answerShares{of: map[string]*share{}}}
}

// answerShares counts what the large responses of each key hold. A key gets room while it holds less than answerShare:
// the bound of one response may be larger, and its real size is known soon.
type answerShares struct {
	mu sync.Mutex // guards what follows
	of map[string]*share
}

// share is what one key holds. It is deleted with the last response that holds a part of it or waits for one.
type share struct {
	held  int64
	users int
	freed chan struct{} // closed, and replaced, when a part is given back
}

// take waits until a key has room, and counts n bytes. It reports false if ctx ends before.
func (s *answerShares) take(ctx context.Context, key string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.of[key]
	if x == nil {
		x = &share{freed: make(chan struct{})}
		s.of[key] = x
	}
	x.users++
	for x.held >= answerShare {
		freed := x.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
		if s.mu.Lock(); ctx.Err() != nil {
			s.leaveLocked(key, x)
			return false
		}
	}
	x.held += n
	return true
}

// give gives n bytes back; last: the response is written.
func (s *answerShares) give(key string, n int64, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.of[key]
	x.held -= n
	close(x.freed)
	x.freed = make(chan struct{})
	if last {
		s.leaveLocked(key, x)
	}
}

func (s *answerShares) leaveLocked(key string, x *share) {
	if x.users--; x.users == 0 {
		delete(s.of, key)
	}
}

// write sends what build returns as JSON; maxBytes is the upper bound of its encoded size. It waits until that much of
// the caller's share and of the budget is free, and holds the real size until the response is written.
func (a answerLimiter) write(ctx context.Context, w http.ResponseWriter, maxBytes int, build func() any) error {
	if maxBytes <= maxSmallAnswer {
		return web.Answer(w, http.StatusOK, build())
	}
	limited, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	held, caller := min(int64(maxBytes), largeAnswerBudget), event.Caller(ctx)
	if !a.shares.take(limited, caller, held) {
		return cmp.Or(ctx.Err(), errTooManyAnswers())
	}
	defer func() { a.shares.give(caller, held, true) }()
	if err := a.budget.Acquire(limited, held); err != nil {
		return cmp.Or(ctx.Err(), error(web.ServiceUnavailable(
			nil, "this node is already sending as many large responses as its memory limit allows; try again")))
	}
	defer func() { a.budget.Release(held) }()
	body := web.Encode(build())
	if real := min(int64(len(body)), held); real < held {
		a.budget.Release(held - real)
		a.shares.give(caller, held-real, false)
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

// errTooManyAnswers is the 429 for a key or a person that reads too many large responses at the same time.
func errTooManyAnswers() error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: "this API key or person is reading as many large responses as one may have; read them faster, or fewer " +
			"at once"}
}
