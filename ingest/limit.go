package ingest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits takes tokens from an endpoint's token buckets, which hold the tokens of one second and are shared by all
// nodes; see limit.Limiter. If wait is positive, no token was taken.
type Limits interface {
	TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64)
	TakeSharedTokens(class, key string, n int, perSecond float64) (wait time.Duration)
}

// Window counts within a minute, on all nodes together; see limit.Window.
type Window interface {
	AddMany(ctx context.Context, key string, n int) int
}

// Classes of token buckets. The key within a class is the endpoint's id.
const (
	limitEvents         = "ingest-events"
	limitBytes          = "ingest-bytes"
	limitTenant         = "tenant-events" // by the tenant's id
	limitRejected       = "rejected"
	limitRejectedStored = "rejected-kept"
)

// checkIngestLimit takes the tokens of an event from its endpoint's ingest_limit, or returns the 429. Rejected requests
// take none: a sender without a valid signature cannot use up the limit.
func (a *Acceptor) checkIngestLimit(e *event.Event, ep *config.Endpoint) error {
	if most := ep.IngestLimit.EventsPerSecond; most != nil {
		if wait, _ := a.deps.Limits.TakeSharedToken(limitEvents, ep.ID, float64(*most)); wait > 0 {
			a.metrics.limited.WithLabelValues("events").Inc()
			return rateLimitedError(wait, "accepts at most "+strconv.Itoa(*most)+" events per second (ingest_limit)")
		}
	}
	if most := ep.IngestLimit.BytesPerSecond; most != nil {
		if wait := a.deps.Limits.TakeSharedTokens(limitBytes, ep.ID, len(e.Body), float64(*most)); wait > 0 {
			a.metrics.limited.WithLabelValues("bytes").Inc()
			return rateLimitedError(wait, "accepts at most "+strconv.Itoa(*most)+" bytes per second (ingest_limit)")
		}
	}
	return nil
}

// checkTenantLimit takes the token of an event from its tenant's events_per_second, or returns the 429.
func (a *Acceptor) checkTenantLimit(ep *config.Endpoint) error {
	t := a.deps.Endpoints.Tenant(ep.Account, ep.Tenant)
	if t == nil || t.Limits.EventsPerSecond == nil {
		return nil
	}
	most := *t.Limits.EventsPerSecond
	if wait, _ := a.deps.Limits.TakeSharedToken(limitTenant, t.ID, float64(most)); wait > 0 {
		a.metrics.limited.WithLabelValues("tenant").Inc()
		return rateLimitedError(wait, "accepts at most "+strconv.Itoa(most)+" events per second with the others of its "+
			"tenant (limits.events_per_second)")
	}
	return nil
}

// rateLimitedError is the 429 of an endpoint. It wraps stream.ErrBufferFull because the event was not queued; store
// then releases its deduplication claim.
func rateLimitedError(wait time.Duration, what string) error {
	return &web.Error{
		Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
		Message: "the endpoint " + what + "; nothing was stored, send it again later", Err: stream.ErrBufferFull,
	}
}
