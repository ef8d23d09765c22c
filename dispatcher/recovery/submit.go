package recovery

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// largestPage is how many items are reserved at once. At a low rate a page takes pageSeconds, so that what waits for
	// its turn when a job ends is not long in waiting; it has smallestPage items at least.
	largestPage, smallestPage = 200, 10
	pageSeconds               = 10 // seconds
	// refill is the share of a page that may be unfinished when the next one is reserved: a quarter.
	refillShare = 4
	// batchBytes bounds the bodies that are submitted at once, but for a single larger one.
	batchBytes = 8 << 20
)

// pageSize is how many items a job reserves at once.
func pageSize(job *config.Recovery) int {
	return min(max(job.RatePerSecond*pageSeconds, smallestPage), largestPage)
}

// advance looks at the results of a job that sends, and goes on from them.
func (f *jobRun) advance(ctx context.Context, job *config.Recovery) (time.Duration, error) {
	if f.blockedByOtherJob(job) {
		return destinationCheck, nil
	}
	if job.Reserved == 0 {
		return 0, f.reserve(ctx, job, job.Canary.Total)
	}
	if err := f.resubmit(ctx, job); err != nil {
		return 0, err
	}
	counts, err := f.counts(ctx, job)
	if err != nil {
		return 0, err
	}
	unfinished, left := job.Reserved-counts.Ended(), job.Sendable-job.Reserved
	switch canary := job.State == config.RecoveryCanaryRunning; {
	case counts.Failed > 0:
		return 0, f.end(ctx, job, config.RecoveryStopped, config.StopDeliveryFailed)
	case counts.Unavailable > 0:
		return 0, f.end(ctx, job, config.RecoveryStopped, config.StopDestinationUnavailable)
	case unfinished <= 0 && left == 0:
		return 0, f.end(ctx, job, config.RecoveryCompleted, "")
	case unfinished <= 0 && canary:
		_, err := f.update(ctx, job, func(j *config.Recovery) {
			j.State, j.Canary.Delivered, j.Canary.Failed = config.RecoveryAwaitingApproval, counts.Delivered, counts.Failed
		})
		return 0, err
	case !canary && left > 0 && unfinished <= pageSize(job)/refillShare:
		return 0, f.reserve(ctx, job, min(left, pageSize(job)))
	}
	return f.nextCheck(counts, maxResultCheck), nil
}

// counts is what came of the job's items so far.
func (f *jobRun) counts(ctx context.Context, job *config.Recovery) (event.RecoveryCounts, error) {
	all, _, err := f.Store.RecoveryCounts(ctx, job.Account, job.ID)
	return all[job.ID], err
}

// again is when to look at the results again: soon while they change.
func (f *jobRun) nextCheck(counts event.RecoveryCounts, limit time.Duration) time.Duration {
	if counts != f.lastCounts {
		f.lastCounts, f.unchangedChecks = counts, 0
	}
	f.unchangedChecks++
	return wait.Backoff{First: minResultCheck, Longest: limit}.After(f.unchangedChecks - 1)
}

// reserve takes the next n items, and submits them once that is written.
func (f *jobRun) reserve(ctx context.Context, job *config.Recovery, n int) error {
	reserved, err := f.update(ctx, job, func(j *config.Recovery) { j.Reserved += n })
	if err != nil {
		return err
	}
	return f.submit(ctx, reserved, job.Reserved)
}

// resubmit submits what was reserved and never heard of: this node, or the one before it, was stopped in between. What
// was acknowledged counts as heard of, so the store must have all of that.
func (f *jobRun) resubmit(ctx context.Context, job *config.Recovery) error {
	if f.submitted >= job.Reserved {
		return nil
	}
	if err := f.Store.CaughtUp(ctx); err != nil {
		return err
	}
	return f.submit(ctx, job, f.submitted)
}

// submit submits the items of the job that were reserved, from the number on, but for those that were heard of.
func (f *jobRun) submit(ctx context.Context, job *config.Recovery, from int) error {
	b := batch{jobRun: f, job: job, due: f.Now(), every: time.Second / time.Duration(job.RatePerSecond)}
	if next := f.due.Add(b.every); next.After(b.due) {
		b.due = next
	}
	err := f.Store.OpenRecoveryItems(ctx, storeJob(job), from, job.Reserved,
		func(item *event.OpenRecoveryItem) error { return b.add(ctx, item) })
	if err == nil {
		err = b.flush(ctx)
	}
	f.due = b.due.Add(-b.every)
	if err == nil {
		f.submitted = job.Reserved
	}
	return err
}

// storeJob is what the store needs to know of a job.
func storeJob(job *config.Recovery) event.RecoveryJob {
	return event.RecoveryJob{Account: job.Account, ID: job.ID, Selection: job.Selection, Reserved: job.Reserved,
		UnsentReason: job.State.UnsentReason()}
}

// batch gathers what is submitted at once.
type batch struct {
	*jobRun
	job        *config.Recovery
	due        time.Time // of the next delivery
	every      time.Duration
	deliveries []*event.Work
	outcomes   []*event.Outcome
	bytes      int
}

// add takes an item. One that is delivered by now, or whose payload is gone, is passed by.
func (b *batch) add(ctx context.Context, item *event.OpenRecoveryItem) error {
	switch {
	case item.Prior.Status == event.Delivered:
		b.outcomes = append(b.outcomes, b.skippedOutcome(item, event.AlreadyDelivered))
		return nil
	case item.StoredEvent == nil:
		b.outcomes = append(b.outcomes, b.skippedOutcome(item, event.PayloadExpired))
		return nil
	}
	if b.bytes > 0 && b.bytes+len(item.StoredEvent.Body) > batchBytes {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	work := &event.Work{Event: item.StoredEvent, Dest: item.Destination, Trigger: event.TriggerRecovery, Attempt: 1,
		Due: b.due,
		Run: b.job.ID}
	if item.Seq < b.job.Canary.Total {
		work.Trigger = event.TriggerCanary
	}
	if item.Prior.Status.Terminal() {
		work.Prior, work.PriorReason = item.Prior.Status, item.Prior.Reason
	}
	b.due = b.due.Add(b.every)
	b.deliveries = append(b.deliveries, work)
	b.bytes += len(item.StoredEvent.Body)
	return nil
}

// pass says that an item is not sent. The delivery stays as it is.
func (b *batch) skippedOutcome(item *event.OpenRecoveryItem, reason event.Reason) *event.Outcome {
	outcome := &event.Outcome{
		Event: item.Event, Account: b.job.Account, Endpoint: b.job.Endpoint, Dest: item.Destination, Run: b.job.ID,
		Status: item.Prior.Status, Reason: item.Prior.Reason, Code: item.Prior.Code, At: item.Prior.LastAt,
		SkipReason: reason,
	}
	if !outcome.Status.Terminal() {
		outcome.Status, outcome.Reason, outcome.At = event.Skipped, reason, b.Now()
	}
	if item.StoredEvent != nil {
		outcome.Type = item.StoredEvent.Type
	}
	return outcome
}

func (b *batch) flush(ctx context.Context) error {
	err := b.Submitter.Submit(ctx, b.deliveries, b.outcomes)
	b.deliveries, b.outcomes, b.bytes = nil, nil, 0
	return err
}

// blockedByOtherJob reports whether another job that began before this one sends to the same destination.
func (f *jobRun) blockedByOtherJob(job *config.Recovery) bool {
	all, _ := f.Jobs.UnsettledRecoveries(time.Time{})
	for _, other := range all {
		if other.ID != job.ID && other.State.Sending() && other.Overlaps(job) &&
			(other.StartedAt.Before(job.StartedAt) || other.StartedAt.Equal(job.StartedAt) && other.ID < job.ID) {
			return true
		}
	}
	return false
}

// settle waits for the results of a job that has ended, and writes them down once all are in.
func (f *jobRun) settle(ctx context.Context, job *config.Recovery) (time.Duration, error) {
	if err := f.resubmit(ctx, job); err != nil {
		return 0, err
	}
	counts, err := f.counts(ctx, job)
	if err != nil {
		return 0, err
	}
	if counts.Ended() < job.Reserved {
		return f.nextCheck(counts, maxSettleCheck), nil
	}
	failures := map[string]event.RecoveryFailures{}
	if counts.Failed > 0 {
		if failures, err = f.Store.RecoveryFailures(ctx, job.Account, job.ID); err != nil {
			return 0, err
		}
	}
	_, err = f.update(ctx, job, func(j *config.Recovery) {
		j.Settled, j.Delivered, j.Failed, j.Skipped = true, counts.Delivered, counts.Failed, counts.Skipped
		if j.Reserved <= j.Canary.Total {
			j.Canary.Delivered, j.Canary.Failed = counts.Delivered, counts.Failed
		}
		for i := range j.Destinations {
			d := &j.Destinations[i]
			d.Failed, d.TopError = failures[d.ID].Failed, failures[d.ID].TopError
		}
	})
	return 0, err
}
