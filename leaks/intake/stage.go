package intake

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/web"
)

// Deps are what a Stage needs. All are required.
type Deps struct {
	Node       string // name of this node
	Partitions int32  // of the topic findings
	Metrics    prometheus.Registerer
	Producer   Producer
	Findings   Distinct // new findings of each sender and day
	Now        func() time.Time
	Front      *web.Front
}

// Stage is what the stages share that take requests of senders: log drains and reports of the SDK.
type Stage struct {
	Deps
	Bounds
	*Counters
	Forbidden string                 // the result of a request that was answered with 403
	Requests  *prometheus.CounterVec // by result
	Records   prometheus.Counter     // hits that the log has acknowledged
	Flooded   prometheus.Counter     // secrets in the finding of the flood
}

// Count counts a request of a sender, for the sender's page and in the metrics.
func (s *Stage) Count(account, sender string, x Counted, err error) {
	result := s.resultOf(err)
	s.Requests.WithLabelValues(result).Inc()
	x.Requests = 1
	if err != nil {
		x.Rejected, x.LastError = 1, result
	}
	s.Add(account, sender, s.Now(), x)
}

// resultOf returns the word for the outcome of a request, in the metrics and as last_error of a sender.
func (s *Stage) resultOf(err error) string {
	e, ok := errors.AsType[*web.Error](err)
	switch {
	case err == nil:
		return "accepted"
	case !ok:
		return "failed"
	}
	switch e.Status {
	case http.StatusForbidden:
		return s.Forbidden
	case http.StatusTooManyRequests:
		return "rate_limited"
	case http.StatusRequestEntityTooLarge:
		return "too_large"
	case http.StatusRequestTimeout:
		return "too_slow"
	case http.StatusUnsupportedMediaType:
		return "unsupported_encoding"
	case http.StatusServiceUnavailable:
		return "unavailable"
	default:
		return "unreadable"
	}
}

// Store produces hits, and returns when the log has acknowledged all of them, or with a 503 and a message. The error
// has no cause, which would log a line for each request while the log is unavailable.
func (s *Stage) Store(ctx context.Context, hits []*finding.Hit, message string) error {
	if Produce(ctx, s.Producer, s.Partitions, hits) != nil {
		return web.ServiceUnavailable(nil, message)
	}
	s.Records.Add(float64(len(hits)))
	return nil
}

// RateLimited returns the 429 of a sender that is to wait, for a second at least.
func RateLimited(wait time.Duration, format string, args ...any) error {
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
		Message: fmt.Sprintf(format, args...)}
}

// TooLarge returns the 413 of a body.
func TooLarge(format string, args ...any) error {
	return &web.Error{Status: http.StatusRequestEntityTooLarge, Type: web.PayloadTooLarge,
		Message: fmt.Sprintf(format, args...)}
}
