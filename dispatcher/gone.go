package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

const (
	// goneAfter different events in a row must be answered 410 until their destination is disabled.
	goneAfter = 3
	// maxRetirements bounds the destinations that wait to be disabled; one more is tried with its next 410.
	maxRetirements = 64
	// retireTimeout bounds one write. It is longer than the time that the nodes have to confirm it.
	retireTimeout = 10 * time.Second
)

// goneRun counts the 410s in a row of one destination.
type goneRun struct {
	some atomic.Bool // events is not empty; spares the lock while all is well

	mu     sync.Mutex // guards the rest
	events []id.ID    // different ones, goneAfter at most
	url    string     // where they were sent
}

// note notes an answer and reports whether the destination has said often enough that it is gone. It goes
// on to say so with each 410. A request without an answer, code 0, neither adds nor ends.
func (g *goneRun) note(code int, e id.ID, url string) bool {
	if code == 0 || code != http.StatusGone && !g.some.Load() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if code != http.StatusGone || g.url != url {
		g.events, g.url = nil, url
	}
	if code == http.StatusGone && len(g.events) < goneAfter && !slices.Contains(g.events, e) {
		g.events = append(g.events, e)
	}
	g.some.Store(len(g.events) > 0)
	return len(g.events) == goneAfter
}

// reset forgets what was counted, when the destination is disabled: enabled again it begins anew.
func (g *goneRun) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = nil
	g.some.Store(false)
}

// retirement asks for a destination to be disabled if it still has that URL.
type retirement struct {
	endpoint, dest, url string
	run                 *goneRun
}

// retire hands over to retirer. Nobody waits: what has no room, or fails, is asked for again by the
// destination's next 410.
func (d *Dispatcher) retire(r retirement) {
	select {
	case d.gone <- r:
	default:
	}
}

// retirer disables destinations until ctx ends.
func (d *Dispatcher) retirer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-d.gone:
			d.disable(ctx, r)
		}
	}
}

// errChanged ends a change that is no longer called for.
var errChanged = errors.New("the destination has changed since")

// disable writes that the destination is gone, unless somebody has changed it meanwhile.
func (d *Dispatcher) disable(ctx context.Context, r retirement) {
	ctx, cancel := context.WithTimeout(control.WithOrigin(ctx, control.Origin{Actor: "dispatcher"}), retireTimeout)
	defer cancel()
	_, err := d.changes.UpdateEndpoint(ctx, r.endpoint, func(ep *control.Endpoint) error {
		dest := ep.Destination(r.dest)
		if dest == nil || !dest.Enabled || dest.URL != r.url {
			return errChanged
		}
		dest.Enabled, dest.StateReason = false, string(event.Gone410)
		return nil
	})
	attrs := []slog.Attr{slog.String("endpoint", r.endpoint), slog.String("destination", r.dest)}
	switch {
	case errors.Is(err, errChanged), errors.Is(err, control.ErrNotFound):
		r.run.reset()
	case err != nil:
		d.log.LogAttrs(ctx, slog.LevelWarn, "disable destination that is gone", append(attrs, slog.Any("error", err))...)
	default:
		r.run.reset()
		d.metrics.retired.Inc()
		d.log.LogAttrs(ctx, slog.LevelInfo, "destination is gone and disabled", attrs...)
	}
}
