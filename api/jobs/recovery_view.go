package jobs

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// addNeeds adds the jobs that wait for an approval to what needs a person.
func (a *recoveries) addNeeds(to *wire.OverviewNeeds, account string) {
	waiting, _ := a.config.Recoveries(account, 0, math.MaxInt, func(j *jobs.Recovery) bool {
		return j.State == jobs.RecoveryAwaitingApproval
	})
	for _, j := range waiting {
		x := wire.WaitingRecovery{ID: j.ID, EndpointID: j.Endpoint, DestinationID: frame.OrNull(j.Destination),
			Total: j.Total, Canary: viewOfCanary(j.Canary), DeadlineAt: web.Time(j.Deadline), CreatedBy: j.CreatedBy}
		if e := a.PresentEndpoint(j.Endpoint, account); e != nil {
			x.EndpointName = &e.Name
		}
		to.Recoveries.Add(x)
	}
}

func viewOfCanary(c jobs.CanaryResult) wire.Canary {
	return wire.Canary{Total: c.Total, Delivered: c.Delivered, Failed: c.Failed}
}

// progress holds the outcomes of submitted deliveries by job. Settled jobs are absent: their records hold the outcomes.
type progress struct {
	counts   map[string]event.RecoveryCounts
	failures map[string]map[string]event.RecoveryFailures // by job and destination
	asOf     time.Time
}

// progressOf reads the progress of jobs of one account from the store.
func (a *recoveries) progressOf(ctx context.Context, jobs ...*jobs.Recovery) (progress, error) {
	p := progress{failures: map[string]map[string]event.RecoveryFailures{}}
	var unsettled []string
	account := ""
	for _, j := range jobs {
		if j.Reserved > 0 && !j.Settled {
			unsettled, account = append(unsettled, j.ID), j.Account
		}
	}
	if len(unsettled) == 0 {
		return p, nil
	}
	var err error
	if p.counts, p.asOf, err = a.recovery.RecoveryCounts(ctx, account, unsettled...); err != nil {
		return p, err
	}
	for job, c := range p.counts {
		if c.Failed == 0 {
			continue
		}
		if p.failures[job], err = a.recovery.RecoveryFailures(ctx, account, job); err != nil {
			return p, err
		}
	}
	return p, nil
}

// view renders a job. The store may be newer or older than the job's record, so reserved is the larger of both
// counts.
func (p progress) view(j *jobs.Recovery) wire.Recovery {
	c := p.counts[j.ID]
	if j.Settled {
		c = event.RecoveryCounts{Delivered: j.Delivered, Failed: j.Failed, Skipped: j.Skipped}
	}
	reserved := max(j.Reserved, c.Ended())
	unsent := max(j.Sendable-reserved, 0)
	v := wire.Recovery{
		ID: j.ID, Object: "recovery", EndpointID: j.Endpoint, DestinationID: frame.OrNull(j.Destination),
		Since:         web.Time(j.Since),
		Until:         web.Time(j.Until),
		RatePerSecond: j.RatePerSecond, State: j.State, Total: j.Total, Queued: reserved - c.Ended(), Delivered: c.Delivered,
		Failed:  c.Failed,
		Skipped: c.Skipped + j.Total - j.Sendable, Canary: viewOfCanary(j.Canary), StopReason: frame.OrNull(j.StopReason),
		CreatedAt: web.Time(j.CreatedAt),
		StartedAt: web.Time(j.StartedAt), FinishedAt: web.Time(j.FinishedAt), DeadlineAt: web.Time(j.Deadline),
		CreatedBy:     j.CreatedBy,
		ByDestination: make([]wire.RecoveryDestination, len(j.Destinations)),
	}
	if j.State.Ended() {
		v.Skipped += unsent
	} else {
		v.Pending = unsent
	}
	if j.Reserved <= j.Canary.End() {
		v.Canary.Delivered, v.Canary.Failed = c.Delivered, c.Failed
	}
	for i, d := range j.Destinations {
		if !j.Settled {
			f := p.failures[j.ID][d.ID]
			d.Failed, d.TopError = f.Failed, f.TopError
		}
		v.ByDestination[i] = wire.RecoveryDestination{ID: d.ID, Total: d.Total, Failed: d.Failed,
			TopError: frame.OrNull(d.TopError)}
	}
	if !j.State.Ended() && j.State != jobs.RecoveryPreparing {
		eta := int(math.Ceil(float64(v.Pending+v.Queued) / float64(j.RatePerSecond)))
		v.ETASeconds = &eta
	}
	if perDay := j.RatePerSecond * int(jobs.MaxRecoveryDuration/time.Second); perDay < j.Total {
		v.Warnings = []frame.Warning{{Param: "rate_per_second", Message: fmt.Sprintf(
			"at %d a second the job can send %d deliveries before its deadline, but %d are selected; the rest will be skipped",
			j.RatePerSecond, perDay, j.Total)}}
	}
	if j.Total == 0 && j.State == jobs.RecoveryReady {
		v.Warnings = []frame.Warning{{Param: "since",
			Message: "no delivery of the events received since then has failed for " +
				"good; those " +
				"that are being retried are not selected. To send them now, replay the events with the status retrying, and " +
				"name the destination_id"}}
	}
	return v
}

// view renders a job with warnings about what is paused now: a job neither ends for that nor says so in its state. One
// paused destination holds the whole job, because the next page waits for the results of the last one.
func (a *recoveries) view(p progress, j *jobs.Recovery) wire.Recovery {
	v := p.view(j)
	ep := a.PresentEndpoint(j.Endpoint, j.Account)
	if ep == nil || j.State.Ended() || j.Sendable == 0 {
		return v
	}
	const consequence = " is paused, so the job waits until it is unpaused; deliveries that are not sent by deadline_at " +
		"are skipped"
	if ep.Paused {
		v.Warnings = append(v.Warnings, frame.Warning{Param: "endpoint_id", Message: "the endpoint" + consequence})
		return v
	}
	for _, part := range j.Destinations {
		if d := ep.Destination(part.ID); part.Sendable > 0 && d != nil && d.Paused {
			v.Warnings = append(v.Warnings, frame.Warning{Param: "destination_id", Message: d.ID + consequence})
		}
	}
	return v
}

func itemOf(j *jobs.Recovery, x *event.RecoveryItem) wire.RecoveryItem {
	v := wire.RecoveryItem{
		ID: id.ItemOf(j.ID, x.Seq), RecoveryID: j.ID, EventID: x.Event.Text(id.Event), EventType: frame.OrNull(x.Type),
		DestinationID: x.Destination, DeliveryID: id.DeliveryOf(x.Event, x.Destination), State: x.State,
		SkippedReason: frame.OrNull(x.SkipReason), Canary: j.Canary.Contains(x.Seq),
		Attempts: x.Attempts, LastErrorCode: frame.OrNull(x.Error), UpdatedAt: web.Time(x.At),
	}
	if x.Code != 0 {
		v.LastResponseStatus = &x.Code
	}
	if x.At.IsZero() { // the store has no outcome: use the job's own times
		v.UpdatedAt = web.Time(j.CreatedAt)
		if x.State == event.Skipped && !j.FinishedAt.IsZero() && x.Seq < j.Sendable {
			v.UpdatedAt = web.Time(j.FinishedAt)
		}
	}
	return v
}
