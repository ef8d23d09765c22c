package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
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
	run                 *lane.Gone
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
	ctx, cancel := context.WithTimeout(config.WithOrigin(ctx, config.Origin{Actor: "dispatcher"}), retireTimeout)
	defer cancel()
	_, err := d.changes.UpdateEndpoint(ctx, r.endpoint, func(ep *config.Endpoint) error {
		dest := ep.Destination(r.dest)
		if dest == nil || !dest.Enabled || dest.URL != r.url {
			return errChanged
		}
		dest.Enabled, dest.StateReason = false, string(event.Gone410)
		return nil
	})
	attrs := []slog.Attr{slog.String("endpoint", r.endpoint), slog.String("destination", r.dest)}
	switch {
	case errors.Is(err, errChanged), errors.Is(err, config.ErrNotFound):
		r.run.Reset()
	case err != nil:
		d.log.LogAttrs(ctx, slog.LevelWarn, "disable destination that is gone", append(attrs, slog.Any("error", err))...)
	default:
		r.run.Reset()
		d.metrics.retired.Inc()
		d.log.LogAttrs(ctx, slog.LevelInfo, "destination is gone and disabled", attrs...)
	}
}
