package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

const (
	// maxRetirements bounds the destinations that wait to be disabled; one more is tried with its next 410.
	maxRetirements = 64
	// retireTimeout bounds one write. It is longer than the time that the nodes have to confirm it.
	retireTimeout = 10 * time.Second
)

// retirement asks for a destination to be disabled if it still has that URL.
type retirement struct {
	endpoint, dest, url string
}

// retirer disables destinations that say again and again that they are gone.
type retirer struct {
	log     *slog.Logger
	changes EndpointUpdater
	retired prometheus.Counter
	queue   chan retirement
	forget  func(dest string) // the answers that were counted
}

// retire hands over to run. Nobody waits: what has no room, or fails, is asked for again by the
// destination's next 410.
func (r *retirer) retire(w *event.Work, url string) {
	select {
	case r.queue <- retirement{w.Event.Endpoint, w.Dest, url}:
	default:
	}
}

// run disables destinations until ctx ends.
func (r *retirer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-r.queue:
			r.disable(ctx, x)
		}
	}
}

// errChanged ends a change that is no longer called for.
var errChanged = errors.New("the destination has changed since")

// disable writes that the destination is gone, unless somebody has changed it meanwhile.
func (r *retirer) disable(ctx context.Context, x retirement) {
	ctx, cancel := context.WithTimeout(config.WithOrigin(ctx, config.Origin{Actor: "dispatcher"}), retireTimeout)
	defer cancel()
	_, err := r.changes.UpdateEndpoint(ctx, x.endpoint, func(ep *config.Endpoint) error {
		dest := ep.Destination(x.dest)
		if dest == nil || !dest.Enabled || dest.URL != x.url {
			return errChanged
		}
		dest.Enabled, dest.StateReason = false, string(event.Gone410)
		return nil
	})
	attrs := []slog.Attr{slog.String("endpoint", x.endpoint), slog.String("destination", x.dest)}
	switch {
	case errors.Is(err, errChanged), errors.Is(err, config.ErrNotFound):
		r.forget(x.dest)
	case err != nil:
		attrs = append(attrs, slog.Any("error", err))
		r.log.LogAttrs(ctx, slog.LevelWarn, "cannot disable destination that is gone", attrs...)
	default:
		r.forget(x.dest)
		r.retired.Inc()
		r.log.LogAttrs(ctx, slog.LevelInfo, "destination is gone and disabled", attrs...)
	}
}
