package ingest

import (
	"context"
	"net/http"
	"strconv"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of storing rejected requests: anyone who knows an ingest URL can send them.
const (
	// bytes; a larger request is not stored at all, because part of a body cannot be verified again
	maxRejectedBody = 64 << 10
	// Per endpoint and second, on all nodes together: up to maxRejectedStored are stored, up to maxRejected are answered
	// 401, the others 429.
	maxRejectedStored, maxRejected = 10, 100
	// maxRejectedBytes bounds what is stored of an endpoint in a minute, on all nodes together: 1.5 GB a day. One client
	// gets half of it, so that somebody who sends rubbish leaves room for whoever sets up a signature.
	maxRejectedBytes = 1 << 20
	// rejectedOverhead is what a stored request costs beside its body, query and headers.
	rejectedOverhead = 512
)

// reject stores a rejected request, within the limits, and returns 401, or 429 beyond maxRejected per second. A 401
// names the event if it is stored. If storing fails, reject returns the 503 of other events, so that the provider sends
// the request again: the signature may be valid and the endpoint's secret wrong.
func (g *Ingest) reject(
	w http.ResponseWriter, r *http.Request, ep *config.Endpoint, p *prepared, e *event.Event,
) error {
	g.metrics.rejected.WithLabelValues(string(e.Reason)).Inc()
	if wait, _ := g.deps.Limits.TakeSharedToken(limitRejected, ep.ID, maxRejected); wait > 0 {
		g.metrics.unstored.Inc()
		g.metrics.limited.WithLabelValues("rejected").Inc()
		return rateLimitedError(wait, "has rejected "+strconv.Itoa(maxRejected)+
			" requests within a second; check the signature and the secret")
	}
	advice := ""
	if g.mayStoreRejected(ep, e) {
		e.Type = p.types.Of(r.Header, e.Body) // a replay after the secret was corrected goes by it
		if err := g.acceptor.Accept(context.Background(), e, ep); err != nil {
			return acceptError(err)
		}
		name := e.ID.Text(id.Event)
		w.Header().Set(eventIDHeader, name)
		advice = "; GET /v1/events?status=rejected lists the event, and GET /v1/events/" + name +
			"/signature, or its page in the dashboard, says what to change"
	} else {
		g.metrics.unstored.Inc()
	}
	return &web.Error{
		Status: http.StatusUnauthorized, Type: web.InvalidRequest, Code: string(e.Reason),
		Message: "the signature was not accepted: " + string(e.Reason) + advice,
	}
}

// mayStoreRejected reports whether the limits allow storing a rejected request, and counts it.
func (g *Ingest) mayStoreRejected(ep *config.Endpoint, e *event.Event) bool {
	if len(e.Body) > maxRejectedBody {
		return false
	}
	size := rejectedOverhead + len(e.Body) + len(e.Query)
	for _, f := range e.Header {
		size += len(f.Name) + len(f.Value)
	}
	ctx := context.Background() // a client that hangs up is counted all the same
	client := ep.ID + " " + web.NetworkOf(e.RemoteIP).String()
	if g.deps.Rejected.AddMany(ctx, client, size) > maxRejectedBytes/2 {
		return false
	}
	if wait, _ := g.deps.Limits.TakeSharedToken(limitRejectedStored, ep.ID, maxRejectedStored); wait > 0 {
		return false
	}
	return g.deps.Rejected.AddMany(ctx, ep.ID, size) <= maxRejectedBytes
}
