package ingest

import (
	"context"
	"net/http"
	"strconv"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of storing rejected requests: anyone who knows an ingest URL can send them.
const (
	// bytes; a larger request is not stored at all, because part of a body cannot be verified again
	maxRejectedBody = 64 << 10
	// Per endpoint and second, on all nodes together: up to maxRejectedStored are stored, up to maxRejected are answered
	// 401, the others 429.
	maxRejectedStored, maxRejected = 10, 100
)

// reject stores a rejected request, within the limits, and returns 401, or 429 beyond maxRejected per second. If
// storing fails, it returns the 503 of other events, so that the provider sends the request again: the signature may be
// valid and the endpoint's secret wrong.
func (g *Ingest) reject(ep *config.Endpoint, e *event.Event) error {
	g.metrics.rejected.WithLabelValues(string(e.Reason)).Inc()
	if wait, _ := g.deps.Limits.TakeSharedToken(limitRejected, ep.ID, maxRejected); wait > 0 {
		g.metrics.unstored.Inc()
		g.metrics.limited.WithLabelValues("rejected").Inc()
		return rateLimitedError(wait, "has rejected "+strconv.Itoa(maxRejected)+
			" requests within a second; check the signature and the secret")
	}
	if g.mayStoreRejected(ep, e) {
		if err := g.acceptor.Accept(context.Background(), e, ep); err != nil {
			return acceptError(err)
		}
	} else {
		g.metrics.unstored.Inc()
	}
	return &web.Error{
		Status: http.StatusUnauthorized, Type: web.InvalidRequest, Code: string(e.Reason),
		Message: "the signature was not accepted: " + string(e.Reason),
	}
}

// mayStoreRejected reports whether the limits allow storing a rejected request.
func (g *Ingest) mayStoreRejected(ep *config.Endpoint, e *event.Event) bool {
	if len(e.Body) > maxRejectedBody {
		return false
	}
	wait, _ := g.deps.Limits.TakeSharedToken(limitRejectedStored, ep.ID, maxRejectedStored)
	return wait == 0
}
