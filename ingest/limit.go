package ingest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits gives each endpoint token buckets that hold a second's worth and that all nodes share; see limit.Limiter. A
// wait says that nothing was taken.
type Limits interface {
	TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64)
	TakeSharedTokens(class, key string, n int, perSecond float64) (wait time.Duration)
}

// Classes of buckets, each by endpoint.
const (
	limitEvents         = "ingest-events"
	limitBytes          = "ingest-bytes"
	limitRejected       = "rejected"
	limitRejectedStored = "rejected-kept"
)

// checkIngestLimit takes what an event costs from its endpoint's ingest_limit, or returns the 429. Only what is about
// to be stored counts: whoever posts without a good signature uses up nothing of an endpoint that asks for one.
func (a *Acceptor) checkIngestLimit(e *event.Event, ep *config.Endpoint) error {
	if most := ep.IngestLimit.EventsPerSecond; most != nil {
		if wait, _ := a.limits.TakeSharedToken(limitEvents, ep.ID, float64(*most)); wait > 0 {
			a.metrics.limited.WithLabelValues("events").Inc()
			return rateLimitedError(wait, "takes "+strconv.Itoa(*most)+" events a second at most (ingest_limit)")
		}
	}
	if most := ep.IngestLimit.BytesPerSecond; most != nil {
		if wait := a.limits.TakeSharedTokens(limitBytes, ep.ID, len(e.Body), float64(*most)); wait > 0 {
			a.metrics.limited.WithLabelValues("bytes").Inc()
			return rateLimitedError(wait, "takes "+strconv.Itoa(*most)+" bytes a second at most (ingest_limit)")
		}
	}
	return nil
}

// rateLimitedError is the 429 of an endpoint. It is stream.ErrBufferFull too: nothing was queued, and claims are given
// free.
func rateLimitedError(wait time.Duration, what string) error {
	return &web.Error{
		Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
		Message: "the endpoint " + what + "; nothing was stored, send it again later", Err: stream.ErrBufferFull,
	}
}
