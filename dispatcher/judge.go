package dispatcher

import (
	"context"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// ending is a state in which a delivery stays.
type ending struct {
	status event.Status
	reason event.Reason
}

// ruling is what the configuration says of one delivery at this moment.
type ruling struct {
	ep     *config.Endpoint
	dest   *config.Destination
	end    ending // empty: the delivery is still wanted
	paused bool   // it is wanted later
	known  bool   // false: this node has not heard of the endpoint or of the job, and nothing else is set
}

// judge is rule for an endpoint or a recovery job that this node has not heard of, too: it may have been created
// on another node a moment ago, or deleted so long ago that nobody remembers.
func (d *Dispatcher) judge(ctx context.Context, w *event.Work) (ruling, error) {
	r := d.rule(w, true)
	if r.known {
		return r, nil
	}
	if err := d.config.Sync(ctx); err != nil {
		return r, err
	}
	if r = d.rule(w, true); !r.known {
		r.end = ending{event.Skipped, event.EndpointDeleted}
		if _, presence := d.config.Endpoint(w.Event.Endpoint); presence == config.Present {
			r.end.reason = event.JobStopped
		}
	}
	return r, nil
}

// rule reads the configuration. It never waits. A worker of a lane lets it read the body if it must; the reader and the
// timer, which all lanes share, do not, and then work whose filter is not known is still wanted.
func (d *Dispatcher) rule(w *event.Work, readBody bool) ruling {
	ep, presence := d.config.Endpoint(w.Event.Endpoint)
	switch presence {
	case config.Unknown:
		return ruling{}
	case config.Deleted:
		return ruling{known: true, end: ending{event.Skipped, event.EndpointDeleted}}
	}
	stopped, known := d.jobEnd(w)
	if !known {
		return ruling{}
	}
	r := ruling{ep: ep, dest: ep.Destination(w.Dest), known: true}
	r.end = d.endOf(w, r.dest)
	if r.end.status == "" && stopped.status == "" && !d.passes(w, ep, r.dest, readBody) {
		r.end = ending{event.Skipped, event.Filtered}
	}
	if stopped.status != "" {
		r.end = stopped
	}
	if r.end.status == "" {
		r.paused = ep.Paused || r.dest.Paused || ep.Moving != nil && ep.Holds(w.Event.ID.Partition(), d.now())
	}
	return r
}

// endOf says how the delivery ends without another attempt; empty when it does not.
func (d *Dispatcher) endOf(w *event.Work, dest *config.Destination) ending {
	now := d.now()
	switch {
	case dest == nil:
		return ending{event.Skipped, event.DestinationDeleted}
	case !dest.Enabled:
		return ending{event.Skipped, event.DestinationDisabled}
	case began(w).Before(dest.PurgeBefore):
		return ending{event.Skipped, event.Purged}
	case ofRecovery(w) && d.gonePayload(w, now):
		return ending{event.Skipped, event.PayloadExpired}
	case d.gonePayload(w, now):
		return ending{event.Failed, event.PayloadExpired}
	case !w.Deadline.IsZero() && !now.Before(w.Deadline):
		return ending{event.Failed, event.AttemptsExhausted}
	case w.Run == "" && (w.Attempt > 1 || w.Parked != "") && d.superseded.has(delivery{event: w.Event.ID, dest: w.Dest}):
		return ending{event.Skipped, event.Superseded}
	case ofRecovery(w) && d.superseded.has(delivery{w.Event.ID, w.Dest, w.Run}):
		return ending{event.Skipped, event.AlreadyDelivered}
	}
	return ending{}
}

// gonePayload reports whether the payload is no longer kept, or was erased.
func (d *Dispatcher) gonePayload(w *event.Work, now time.Time) bool {
	return !now.Before(d.expiry(w)) || d.erased != nil && d.erased(w.Event.ID)
}

// expiry is when the payload is no longer kept.
func (d *Dispatcher) expiry(w *event.Work) time.Time {
	return w.Event.ReceivedAt().AddDate(0, 0, d.cfg.RetentionDays)
}

// began is when the chain began: the automatic one with its event, that of a run with the run. It is asked at
// every hop, of which almost all belong to automatic chains: what is no id must not cost an error there.
func began(w *event.Work) time.Time {
	if i := strings.IndexByte(w.Run, '_'); i >= 0 {
		if run, err := id.Parse(w.Run[:i+1], w.Run); err == nil {
			return run.Time()
		}
	}
	return w.Event.ReceivedAt()
}
