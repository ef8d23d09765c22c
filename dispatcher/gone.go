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
	// maxDisableRequests bounds the destinations that wait to be disabled; one more is tried with its next 410.
	maxDisableRequests = 64
	// disableTimeout bounds one write. It is longer than the time that the nodes have to confirm it.
	disableTimeout = 10 * time.Second
)

// retirement asks for a destination to be disabled if it still has that URL.
type disableRequest struct {
	endpoint, dest, url string
}

// retirer disables destinations that say again and again that they are gone.
type goneDisabler struct {
	log       *slog.Logger
	updater   EndpointUpdater
	disabled  prometheus.Counter
	queue     chan disableRequest
	resetGone func(dest string) // the answers that were counted
}

// retire hands over to run. Nobody waits: what has no room, or fails, is asked for again by the
// destination's next 410.
func (r *goneDisabler) requestDisable(work *event.Work, url string) {
	select {
	case r.queue <- disableRequest{work.Event.Endpoint, work.Dest, url}:
	default:
	}
}

// run disables destinations until ctx ends.
func (r *goneDisabler) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case request := <-r.queue:
			r.disable(ctx, request)
		}
	}
}

// errDestinationChanged ends a change that is no longer called for.
var errDestinationChanged = errors.New("the destination has changed since")

// disable writes that the destination is gone, unless somebody has changed it meanwhile.
func (r *goneDisabler) disable(ctx context.Context, request disableRequest) {
	ctx, cancel := context.WithTimeout(config.WithOrigin(ctx, config.Origin{Actor: "dispatcher"}), disableTimeout)
	defer cancel()
	_, err := r.updater.UpdateEndpoint(ctx, request.endpoint, func(ep *config.Endpoint) error {
		dest := ep.Destination(request.dest)
		if dest == nil || !dest.Enabled || dest.URL != request.url {
			return errDestinationChanged
		}
		dest.Enabled, dest.StateReason = false, string(event.Gone410)
		return nil
	})
	attrs := []slog.Attr{slog.String("endpoint", request.endpoint), slog.String("destination", request.dest)}
	switch {
	case errors.Is(err, errDestinationChanged), errors.Is(err, config.ErrNotFound):
		r.resetGone(request.dest)
	case err != nil:
		attrs = append(attrs, slog.Any("error", err))
		r.log.LogAttrs(ctx, slog.LevelWarn, "cannot disable destination that is gone", attrs...)
	default:
		r.resetGone(request.dest)
		r.disabled.Inc()
		r.log.LogAttrs(ctx, slog.LevelInfo, "destination is gone and disabled", attrs...)
	}
}
