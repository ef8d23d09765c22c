package dispatcher

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// rules implement lane.Rules: they check deliveries against the configuration.
type rules struct {
	config        ConfigView
	now           func() time.Time
	retentionDays int
	erased        func(id.ID) bool // nil: no payload was erased
	bodiesRead    prometheus.Counter
	superseded    superseded
	filters       filters
}

// MaxInFlight returns max_in_flight of the destination, 0 if this node does not know it.
func (r *rules) MaxInFlight(work *event.Work) int {
	if endpoint, presence := r.config.Endpoint(work.Event.Endpoint); presence == entity.Present {
		if dest := endpoint.Destination(work.Dest); dest != nil {
			return dest.MaxInFlight
		}
	}
	return 0
}

// Ordered reports whether the destination is ordered, true while this node does not know it.
func (r *rules) Ordered(work *event.Work) bool {
	endpoint, presence := r.config.Endpoint(work.Event.Endpoint)
	if presence != entity.Present {
		return true
	}
	dest := endpoint.Destination(work.Dest)
	return dest == nil || dest.Ordering != nil
}

// AwaitCurrent waits until this node knows all changes that were answered.
func (r *rules) AwaitCurrent(ctx context.Context) error { return r.config.AwaitLease(ctx) }

// CheckLatest is Check, and resolves an unknown endpoint or recovery job: another node may have created it a moment
// ago, or it was deleted so long ago that its tombstone is gone.
func (r *rules) CheckLatest(ctx context.Context, work *event.Work) (lane.Eligibility, error) {
	eligibility := r.Check(work, true)
	if eligibility.Known {
		return eligibility, nil
	}
	if err := r.config.Sync(ctx); err != nil {
		return eligibility, err
	}
	if eligibility = r.Check(work, true); !eligibility.Known {
		eligibility.Status, eligibility.Reason = event.Skipped, event.EndpointDeleted
		if _, presence := r.config.Endpoint(work.Event.Endpoint); presence == entity.Present {
			eligibility.Reason = event.JobStopped
		}
	}
	return eligibility, nil
}

// Check reads the configuration and never waits. Workers of lanes let it read the body. The reader and the timer,
// which serve all lanes, do not; then a delivery whose filter result is not known counts as wanted.
func (r *rules) Check(work *event.Work, readBody bool) lane.Eligibility {
	if r.deliveredByRun(work) {
		return lane.Eligibility{Known: true, Status: event.Skipped, Reason: reasonOfCopy(work)}
	}
	endpoint, presence := r.config.Endpoint(work.Event.Endpoint)
	switch presence {
	case entity.Unknown:
		return lane.Eligibility{}
	case entity.Deleted:
		return lane.Eligibility{Known: true, Status: event.Skipped, Reason: event.EndpointDeleted}
	}
	eligibility := lane.Eligibility{Endpoint: endpoint, Destination: endpoint.Destination(work.Dest), Known: true}
	var known bool
	if eligibility.Status, eligibility.Reason, known = r.endByJob(work); !known {
		return lane.Eligibility{}
	}
	if eligibility.Status == "" {
		eligibility.Status, eligibility.Reason = r.endByState(work, eligibility.Destination)
	}
	if eligibility.Status == "" {
		eligibility.Status, eligibility.Reason = r.endByFilter(work, endpoint, eligibility.Destination, readBody)
	}
	if eligibility.Status == "" {
		eligibility.Paused = endpoint.Paused || eligibility.Destination.Paused || !eligibility.Destination.Enabled ||
			endpoint.Move != nil &&
				endpoint.HoldsDeliveries(work.Event.ID.Partition(), r.now())
	}
	return eligibility
}

// deliveredByRun reports whether the replay run or recovery job of the delivery has already delivered it: then the
// record is a copy. This comes before whatever else may end the delivery. A cancelled run, for example, gives it back
// the status that it had before the run, and that would replace the outcome of the attempt.
func (r *rules) deliveredByRun(work *event.Work) bool {
	return work.Run != "" && r.superseded.hasSince(lane.KeyOf(work), time.Time{})
}

func reasonOfCopy(work *event.Work) event.Reason {
	if isRecovery(work) {
		return event.AlreadyDelivered
	}
	return event.Superseded
}

// endByJob returns how the delivery ends because of its recovery job or replay run, empty when it does not, and whether
// this node knows the job.
func (r *rules) endByJob(work *event.Work) (status event.Status, reason event.Reason, known bool) {
	if r.isCancelled(work) {
		return event.Skipped, event.RunStopped, true
	}
	if !isRecovery(work) {
		return "", "", true
	}
	job, presence := r.config.Recovery(work.Run)
	switch {
	case presence == entity.Unknown:
		return "", "", false
	case presence == entity.Deleted:
		return event.Skipped, event.JobStopped, true
	case job.State == jobs.RecoveryCompleted: // a second copy of the delivery
		return event.Skipped, event.AlreadyDelivered, true
	case job.State.Ended():
		return event.Skipped, job.State.UnsentReason(), true
	case !r.now().Before(job.Deadline):
		return event.Skipped, event.Deadline, true
	}
	return "", "", true
}

// isCancelled reports whether the delivery belongs to a replay run that was cancelled. Every living node has applied a
// cancellation before it is answered, and cancelled runs are kept for jobs.RunRetention. So an unknown run counts as
// not cancelled: this node may not have read it, or it was removed, or there is none, for a replay during an upgrade.
func (r *rules) isCancelled(work *event.Work) bool {
	if !strings.HasPrefix(work.Run, id.Run) {
		return false
	}
	run, presence := r.config.ReplayRun(work.Run)
	return presence == entity.Present && run.Cancelled()
}

// endByState returns how the delivery ends without another attempt, empty when it does not.
func (r *rules) endByState(work *event.Work, dest *config.Destination) (event.Status, event.Reason) {
	now := r.now()
	switch {
	case dest == nil:
		return event.Skipped, event.DestinationDeleted
	case !dest.Enabled && (work.Run != "" || !dest.HeldAsGone(now)):
		return event.Skipped, event.DestinationDisabled
	case startedAt(work).Before(dest.PurgeBefore):
		return event.Skipped, event.Purged
	case isRecovery(work) && r.payloadGone(work, now):
		return event.Skipped, event.PayloadExpired
	case r.payloadGone(work, now):
		return event.Failed, event.PayloadExpired
	case work.Run == "" && !work.Event.ExpiresAt.IsZero() && !now.Before(work.Event.ExpiresAt):
		return event.Skipped, event.Expired
	case !isRecovery(work) && r.isSuperseded(work):
		return event.Skipped, event.Superseded
	}
	return "", ""
}

// clockMargin is how far the time in the id of a replay may be behind the times of attempts: the clock of the node that
// made it may be id.MaxAhead off the broker's, and config.Control.Now, which attempts have, a few seconds.
const clockMargin = id.MaxAhead + 5*time.Second

// isSuperseded reports whether another attempt has already delivered a delivery that waits. For a replay only attempts
// that began after the replay count: a replay sends again what was delivered before, and a request in flight may have
// gone to a URL that was corrected since. The first attempt of a replay is made whatever others have delivered, however
// long its rate lets it wait; deliveredByRun ends its copies.
func (r *rules) isSuperseded(work *event.Work) bool {
	if work.Attempt <= 1 && !work.WasParked() {
		return false
	}
	var since time.Time
	if work.Run != "" {
		since = startedAt(work).Add(clockMargin)
	}
	return r.superseded.hasSince(lane.DeliveryKey{Event: work.Event.ID, Dest: work.Dest}, since)
}

// endByFilter returns how the delivery ends because of the destination's filter, empty when it does not. Without
// readBody, conditions that were not evaluated at the current revision of the endpoint count as met.
func (r *rules) endByFilter(work *event.Work, endpoint *config.Endpoint, dest *config.Destination, readBody bool) (
	event.Status, event.Reason) {
	switch {
	case !dest.Filter.MatchesType(work.Event.Type):
		return event.Skipped, event.Filtered
	case !dest.Filter.HasConditions():
		return "", ""
	case work.FilterRev != endpoint.Rev && readBody:
		r.bodiesRead.Inc()
		i := slices.IndexFunc(endpoint.Destinations, func(d config.Destination) bool { return d.ID == dest.ID })
		holds, err := r.filters.compiled(endpoint).HoldFor(i, work.Event, endpoint.Tenant)
		if err != nil {
			return event.Failed, event.TransformFailed
		}
		work.FilterRev, work.Filtered = endpoint.Rev, !holds
	}
	if work.FilterRev == endpoint.Rev && work.Filtered {
		return event.Skipped, event.Filtered
	}
	return "", ""
}

// payloadGone reports whether the payload has expired or was erased.
func (r *rules) payloadGone(work *event.Work, now time.Time) bool {
	return !now.Before(r.expiry(work)) || r.erased != nil && r.erased(work.Event.ID)
}

// expiry is when the payload expires.
func (r *rules) expiry(work *event.Work) time.Time {
	return work.Event.ReceivedAt().AddDate(0, 0, r.retentionDays)
}

// isRecovery reports whether a recovery job sends the delivery.
func isRecovery(work *event.Work) bool { return strings.HasPrefix(work.Run, id.Recovery) }

// startedAt is when the attempts started: automatic ones with the event, those of a replay or recovery job with the
// job. It is called at every re-check, nearly always for automatic attempts, so a Run that is no id must not cost an
// error value.
func startedAt(work *event.Work) time.Time {
	if i := strings.IndexByte(work.Run, '_'); i >= 0 {
		if run, err := id.Parse(work.Run[:i+1], work.Run); err == nil {
			return run.Time()
		}
	}
	return work.Event.ReceivedAt()
}
