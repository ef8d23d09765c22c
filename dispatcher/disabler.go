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
	// maxDisableRequests bounds the queue of destinations to disable. If it is full, the next 410 of the destination asks
	// again.
	maxDisableRequests = 64
	// disableTimeout bounds one write. It is longer than the time in which nodes must confirm a
	// write (5.5 s, the barrier time-out of package conflog).
	disableTimeout = 10 * time.Second
)

// disableRequest asks to disable a destination if it still has that URL.
type disableRequest struct {
	endpoint, dest, url string
	reason              event.Reason
}

// disabler disables destinations that have answered 410 (Gone) to several events in a row, or have asked for it. The
// deliveries of those that are gone wait for a day (config.GoneHold).
type disabler struct {
	log      *slog.Logger
	updater  EndpointUpdater
	disabled prometheus.Counter
	now      func() time.Time
	queue    chan disableRequest
}

// request queues the destination for run and never waits. When the queue is full or the write fails, the destination's
// next such answer asks again.
func (r *disabler) request(work *event.Work, url string, reason event.Reason) {
	select {
	case r.queue <- disableRequest{work.Event.Endpoint, work.Dest, url, reason}:
	default:
	}
}

// requestGone is request for a destination that has answered 410.
func (r *disabler) requestGone(work *event.Work, url string) { r.request(work, url, event.Gone410) }

// run disables destinations until ctx ends. resetGone resets the count of 410 answers of one.
func (r *disabler) run(ctx context.Context, resetGone func(dest string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case request := <-r.queue:
			r.disable(ctx, request, resetGone)
		}
	}
}

// errDestinationChanged cancels a write that is no longer wanted.
var errDestinationChanged = errors.New("the destination has changed since")

// disable disables the destination, unless a user has changed it meanwhile.
func (r *disabler) disable(ctx context.Context, request disableRequest, resetGone func(dest string)) {
	ctx, cancel := context.WithTimeout(config.WithOrigin(ctx, config.Origin{Actor: "dispatcher"}), disableTimeout)
	defer cancel()
	_, err := r.updater.UpdateEndpoint(ctx, request.endpoint, func(endpoint *config.Endpoint) error {
		dest := endpoint.Destination(request.dest)
		if dest == nil || !dest.Enabled || dest.URL != request.url {
			return errDestinationChanged
		}
		dest.Enabled, dest.StateReason, dest.GoneAt = false, string(request.reason), time.Time{}
		if request.reason == event.Gone410 {
			dest.GoneAt = r.now()
		}
		return nil
	})
	attrs := []slog.Attr{slog.String("endpoint", request.endpoint), slog.String("destination", request.dest),
		slog.String("reason", string(request.reason))}
	switch {
	case errors.Is(err, errDestinationChanged), errors.Is(err, config.ErrNotFound):
		resetGone(request.dest)
	case err != nil:
		attrs = append(attrs, slog.Any("error", err))
		r.log.LogAttrs(ctx, slog.LevelWarn, "cannot disable destination", attrs...)
	default:
		resetGone(request.dest)
		r.disabled.Inc()
		r.log.LogAttrs(ctx, slog.LevelInfo, "disabled destination", attrs...)
	}
}
