package ingest

import (
	"context"
	"net/http"
	"strconv"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of what is kept of rejected requests: anybody who knows an ingest URL can send them.
const (
	maxRejectedBody = 64 << 10 // bytes; of a longer one nothing is stored, for half a body cannot be verified again
	// Of one endpoint a second, on all nodes: as many are stored, and as many are answered 401. Beyond that nobody
	// corrects a mistake any more.
	maxRejectedStored, maxRejected = 10, 100
)

// reject stores a rejected request, within its bounds, and answers 401, or 429 to one of a flood. One that should be
// stored and cannot be is answered like any other event: the fault may be in our settings, and then the provider must
// send it again.
func (g *Ingest) reject(ep *config.Endpoint, e *event.Event) error {
	g.metrics.rejected.WithLabelValues(string(e.Reason)).Inc()
	if wait, _ := g.deps.Limits.TakeSharedToken(limitRejected, ep.ID, maxRejected); wait > 0 {
		g.metrics.unstored.Inc()
		g.metrics.limited.WithLabelValues("rejected").Inc()
		return rateLimitedError(wait, "has rejected "+strconv.Itoa(maxRejected)+" requests in a second")
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

// mayStoreRejected reports whether a rejected request is within the bounds of what is stored.
func (g *Ingest) mayStoreRejected(ep *config.Endpoint, e *event.Event) bool {
	if len(e.Body) > maxRejectedBody {
		return false
	}
	wait, _ := g.deps.Limits.TakeSharedToken(limitRejectedStored, ep.ID, maxRejectedStored)
	return wait == 0
}
