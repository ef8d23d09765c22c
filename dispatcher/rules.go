package dispatcher

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// rules tell the lanes what the configuration says of a delivery. They are lane.Rules.
type rules struct {
	config        ConfigView
	now           func() time.Time
	retentionDays int
	erased        func(id.ID) bool // nil: nothing was
	bodiesRead    prometheus.Counter
	superseded    superseded
}

// MaxInFlight is that of the destination, 0 if this node does not know it.
func (r *rules) MaxInFlight(w *event.Work) int {
	if ep, presence := r.config.Endpoint(w.Event.Endpoint); presence == config.Present {
		if dest := ep.Destination(w.Dest); dest != nil {
			return dest.MaxInFlight
		}
	}
	return 0
}

// CheckLatest is Check for an endpoint or a recovery job that this node has not heard of, too: it may have been created
// on another node a moment ago, or deleted so long ago that nobody remembers.
func (r *rules) CheckLatest(ctx context.Context, w *event.Work) (lane.Eligibility, error) {
	v := r.Check(w, true)
	if v.Known {
		return v, nil
	}
	if err := r.config.Sync(ctx); err != nil {
		return v, err
	}
	if v = r.Check(w, true); !v.Known {
		v.Status, v.Reason = event.Skipped, event.EndpointDeleted
		if _, presence := r.config.Endpoint(w.Event.Endpoint); presence == config.Present {
			v.Reason = event.JobStopped
		}
	}
	return v, nil
}

// Check reads the configuration. It never waits. A worker of a lane lets it read the body if it must; the reader and
// the timer, which all lanes share, do not, and then a delivery whose filter is not known is still wanted.
func (r *rules) Check(w *event.Work, readBody bool) lane.Eligibility {
	ep, presence := r.config.Endpoint(w.Event.Endpoint)
	switch presence {
	case config.Unknown:
		return lane.Eligibility{}
	case config.Deleted:
		return lane.Eligibility{Known: true, Status: event.Skipped, Reason: event.EndpointDeleted}
	}
	v := lane.Eligibility{Endpoint: ep, Destination: ep.Destination(w.Dest), Known: true}
	var known bool
	if v.Status, v.Reason, known = r.jobEnd(w); !known {
		return lane.Eligibility{}
	}
	if v.Status == "" {
		v.Status, v.Reason = r.end(w, v.Destination)
	}
	if v.Status == "" && !r.passes(w, ep, v.Destination, readBody) {
		v.Status, v.Reason = event.Skipped, event.Filtered
	}
	if v.Status == "" {
		v.Paused = ep.Paused || v.Destination.Paused || ep.Move != nil && ep.HoldsDeliveries(w.Event.ID.Partition(), r.now())
	}
	return v
}

// jobEnd says how the delivery ends because of its recovery job, empty when it does not, and whether this node has
// heard of the job.
func (r *rules) jobEnd(w *event.Work) (status event.Status, reason event.Reason, known bool) {
	if !ofRecovery(w) {
		return "", "", true
	}
	job, presence := r.config.Recovery(w.Run)
	switch {
	case presence == config.Unknown:
		return "", "", false
	case presence == config.Deleted:
		return event.Skipped, event.JobStopped, true
	case job.State == config.RecoveryCompleted: // a second copy of the delivery
		return event.Skipped, event.AlreadyDelivered, true
	case job.State.Ended():
		return event.Skipped, job.State.UnsentReason(), true
	case !r.now().Before(job.Deadline):
		return event.Skipped, event.Deadline, true
	}
	return "", "", true
}

// end says how the delivery ends without another attempt; empty when it does not.
func (r *rules) end(w *event.Work, dest *config.Destination) (event.Status, event.Reason) {
	now := r.now()
	switch {
	case dest == nil:
		return event.Skipped, event.DestinationDeleted
	case !dest.Enabled:
		return event.Skipped, event.DestinationDisabled
	case began(w).Before(dest.PurgeBefore):
		return event.Skipped, event.Purged
	case ofRecovery(w) && r.payloadGone(w, now):
		return event.Skipped, event.PayloadExpired
	case r.payloadGone(w, now):
		return event.Failed, event.PayloadExpired
	case !w.Deadline.IsZero() && !now.Before(w.Deadline):
		return event.Failed, event.AttemptsExhausted
	case w.Run == "" && (w.Attempt > 1 || w.Parked != "") &&
		r.superseded.has(deliveryKey{event: w.Event.ID, dest: w.Dest}):
		return event.Skipped, event.Superseded
	case ofRecovery(w) && r.superseded.has(deliveryKey{w.Event.ID, w.Dest, w.Run}):
		return event.Skipped, event.AlreadyDelivered
	}
	return "", ""
}

// passes reports whether the destination's filter lets the delivery through. Without leave to read the body it lets
// through what was not evaluated at the endpoint's present revision.
func (r *rules) passes(w *event.Work, ep *config.Endpoint, dest *config.Destination, readBody bool) bool {
	switch {
	case !dest.Filter.MatchesType(w.Event.Type):
		return false
	case !dest.Filter.NeedsBody():
		return true
	case w.FilterRev == ep.Rev:
		return !w.Filtered
	case !readBody:
		return true
	}
	r.bodiesRead.Inc()
	w.FilterRev, w.Filtered = ep.Rev, !dest.Filter.MatchesBody(w.Event.Body)
	return !w.Filtered
}

// payloadGone reports whether the payload is no longer kept, or was erased.
func (r *rules) payloadGone(w *event.Work, now time.Time) bool {
	return !now.Before(r.expiry(w)) || r.erased != nil && r.erased(w.Event.ID)
}

// expiry is when the payload is no longer kept.
func (r *rules) expiry(w *event.Work) time.Time {
	return w.Event.ReceivedAt().AddDate(0, 0, r.retentionDays)
}

// ofRecovery reports whether a recovery job sends the delivery.
func ofRecovery(w *event.Work) bool { return strings.HasPrefix(w.Run, id.Recovery) }

// began is when the attempts began: the automatic ones with the event, those of a run with the run. It is asked at
// every hop, almost all of which are automatic: what is no id must not cost an error there.
func began(w *event.Work) time.Time {
	if i := strings.IndexByte(w.Run, '_'); i >= 0 {
		if run, err := id.Parse(w.Run[:i+1], w.Run); err == nil {
			return run.Time()
		}
	}
	return w.Event.ReceivedAt()
}
