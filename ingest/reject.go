package ingest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of what is kept of rejected requests: anybody who knows an ingest URL can send them.
const (
	maxRejectedBody      = 64 << 10 // bytes
	maxRejectedPerSecond = 10       // of one endpoint, on one node
)

// reject stores a rejected request, within its bounds, and answers 401. One that should be stored and
// cannot be is answered like any other event: the fault may be in our settings, and then the provider
// must send it again.
func (g *Ingest) reject(ep *control.Endpoint, e *event.Event) error {
	g.metrics.rejected.WithLabelValues(string(e.Reason)).Inc()
	if g.rejects.allow(ep.ID, g.deps.Now()) {
		e.Body = e.Body[:min(len(e.Body), maxRejectedBody)]
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

// perSecond lets limit things a second through for each key. It forgets everything at every new second,
// so it holds no more keys than there were in one.
type perSecond struct {
	limit int

	mu     sync.Mutex // guards the rest
	second int64
	counts map[string]int
}

func (p *perSecond) allow(key string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := now.Unix(); s != p.second || p.counts == nil {
		p.second, p.counts = s, make(map[string]int)
	}
	p.counts[key]++
	return p.counts[key] <= p.limit
}
