package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// A page is what the job sends in pageSeconds, from smallestPage to largestPage items, so that few reserved items wait
	// when a job ends.
	largestPage, smallestPage = 200, 10
	pageSeconds               = 10
	// The next page is reserved when at most 1/refillShare of the page size is unfinished.
	refillShare = 4
	// canaryLookahead is how many items are searched at once for one that can be sent.
	canaryLookahead = 2000
	// batchBytes bounds the bodies that are submitted at once. A larger body is submitted alone.
	batchBytes = 8 << 20
)

// pageSize is how many items the job reserves at once.
func pageSize(job *jobs.Recovery) int {
	return min(max(job.RatePerSecond*pageSeconds, smallestPage), largestPage)
}

// advance checks the results of a sending job and takes its next step: stop, complete, wait for approval, or reserve
// the next page.
func (run *jobRun) advance(ctx context.Context, job *jobs.Recovery) (time.Duration, error) {
	if run.blockedByOtherJob(job) {
		return destinationCheck, nil
	}
	if job.Reserved == 0 {
		// Who started the canary may have seen a delivery that is not stored yet. Later pages follow counts, which waits for
		// the same.
		if err := run.deps.Store.CaughtUp(ctx); err != nil {
			return 0, err
		}
		return 0, run.reserve(ctx, job, job.Canary.Total)
	}
	if err := run.resubmit(ctx, job); err != nil {
		return 0, err
	}
	counts, err := run.counts(ctx, job)
	if err != nil {
		return 0, err
	}
	unfinished, left := job.Reserved-counts.Ended(), job.Sendable-job.Reserved
	switch canary := job.State == jobs.RecoveryCanaryRunning; {
	case counts.Failed > 0:
		return 0, run.end(ctx, job, jobs.RecoveryStopped, jobs.StopDeliveryFailed)
	case counts.Unavailable > 0:
		return 0, run.end(ctx, job, jobs.RecoveryStopped, jobs.StopDestinationUnavailable)
	case unfinished <= 0 && left == 0:
		return 0, run.end(ctx, job, jobs.RecoveryCompleted, "")
	case unfinished <= 0 && canary && counts.Delivered == 0: // all were skipped, so it has shown nothing
		return 0, run.nextCanary(ctx, job)
	case unfinished <= 0 && canary:
		_, err := run.update(ctx, job, func(edited *jobs.Recovery) {
			edited.State, edited.Canary.Delivered, edited.Canary.Failed = jobs.RecoveryAwaitingApproval, counts.Delivered,
				counts.Failed
		})
		return 0, err
	case !canary && left > 0 && unfinished <= pageSize(job)/refillShare:
		return 0, run.reserve(ctx, job, min(left, pageSize(job)))
	}
	return run.nextCheck(counts, maxResultCheck), nil
}

// counts returns the results of the job's items so far.
func (run *jobRun) counts(ctx context.Context, job *jobs.Recovery) (event.RecoveryCounts, error) {
	byJob, _, err := run.deps.Store.RecoveryCounts(ctx, job.Account, job.ID)
	return byJob[job.ID], err
}

// nextCheck is how long to wait before the results are checked again, at most limit: less while they change.
func (run *jobRun) nextCheck(counts event.RecoveryCounts, limit time.Duration) time.Duration {
	if counts != run.lastCounts {
		run.lastCounts, run.unchangedChecks = counts, 0
	}
	run.unchangedChecks++
	return wait.Backoff{First: minResultCheck, Longest: limit}.After(run.unchangedChecks - 1)
}

// reserve reserves the next n items in the header, then submits them.
func (run *jobRun) reserve(ctx context.Context, job *jobs.Recovery, n int) error {
	reserved, err := run.update(ctx, job, func(edited *jobs.Recovery) { edited.Reserved += n })
	if err != nil {
		return err
	}
	return run.submit(ctx, reserved, job.Reserved)
}

// errSendable ends the search of nextCanary.
var errSendable = errors.New("an item can be sent")

// nextCanary makes the items from the first one on that can be sent the canary, and submits them. Those before it are
// skipped. If there is none in canaryLookahead items, the last of these are the canary, and all of them are skipped.
func (run *jobRun) nextCanary(ctx context.Context, job *jobs.Recovery) error {
	searched := storeJob(job)
	searched.Reserved = min(job.Reserved+canaryLookahead, job.Sendable)
	from := max(searched.Reserved-jobs.MaxCanaryDeliveries, job.Reserved)
	err := run.deps.Store.OpenRecoveryItems(ctx, searched, job.Reserved, searched.Reserved,
		func(item *event.OpenRecoveryItem) error {
			if skipReason(item) != "" {
				return nil
			}
			from = item.Seq
			return errSendable
		})
	if err != nil && !errors.Is(err, errSendable) {
		return err
	}
	next, err := run.update(ctx, job, func(edited *jobs.Recovery) { edited.NextCanary(from) })
	if err != nil {
		return err
	}
	return run.submit(ctx, next, job.Reserved)
}

// resubmit submits reserved items that have no outcome: this node, or the owner before it, stopped in between. Items
// with an acknowledged outcome are not sent again, so the store must have caught up with the log first.
func (run *jobRun) resubmit(ctx context.Context, job *jobs.Recovery) error {
	if run.submitted >= job.Reserved {
		return nil
	}
	if err := run.deps.Store.CaughtUp(ctx); err != nil {
		return err
	}
	return run.submit(ctx, job, run.submitted)
}

// submit submits the reserved items from number from on that have no outcome.
func (run *jobRun) submit(ctx context.Context, job *jobs.Recovery, from int) error {
	b := batch{deps: run.deps, job: job, nextDue: run.deps.Now(), every: time.Second / time.Duration(job.RatePerSecond)}
	if due := run.lastDue.Add(b.every); due.After(b.nextDue) {
		b.nextDue = due
	}
	err := run.deps.Store.OpenRecoveryItems(ctx, storeJob(job), from, job.Reserved,
		func(item *event.OpenRecoveryItem) error { return b.add(ctx, item) })
	if err == nil {
		err = b.flush(ctx)
	}
	run.lastDue = b.nextDue.Add(-b.every)
	if err == nil {
		run.submitted = job.Reserved
	}
	return err
}

// storeJob is what the store needs of a job.
func storeJob(job *jobs.Recovery) event.RecoveryJob {
	return event.RecoveryJob{Account: job.Account, ID: job.ID, Selection: job.Selection, Reserved: job.Reserved,
		UnsentReason: job.State.UnsentReason()}
}

// batch collects the deliveries and outcomes that are submitted at once.
type batch struct {
	deps       Deps
	job        *jobs.Recovery
	nextDue    time.Time     // of the next delivery
	every      time.Duration // between two deliveries
	deliveries []*event.Work
	outcomes   []*event.Outcome
	bytes      int
}

// add adds an item. An item that was delivered meanwhile, or whose payload is gone, is skipped.
func (b *batch) add(ctx context.Context, item *event.OpenRecoveryItem) error {
	if reason := skipReason(item); reason != "" {
		b.outcomes = append(b.outcomes, b.skippedOutcome(item, reason))
		return nil
	}
	if b.bytes > 0 && b.bytes+len(item.StoredEvent.Body) > batchBytes {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	work := &event.Work{Event: item.StoredEvent, Dest: item.Destination, Trigger: event.TriggerRecovery, Attempt: 1,
		Due: b.nextDue, Run: b.job.ID}
	if b.job.Canary.Contains(item.Seq) {
		work.Trigger = event.TriggerCanary
	}
	if item.Prior.Status.Terminal() {
		work.Prior, work.PriorReason = item.Prior.Status, item.Prior.Reason
	}
	b.nextDue = b.nextDue.Add(b.every)
	b.deliveries = append(b.deliveries, work)
	b.bytes += len(item.StoredEvent.Body)
	return nil
}

// skipReason is why an item is not sent; empty if it is.
func skipReason(item *event.OpenRecoveryItem) event.Reason {
	switch {
	case item.Prior.Status == event.Delivered:
		return event.AlreadyDelivered
	case item.StoredEvent == nil:
		return event.PayloadExpired
	}
	return ""
}

// skippedOutcome is the outcome of an item that is not sent. A final status of the delivery stays; any other becomes
// skipped.
func (b *batch) skippedOutcome(item *event.OpenRecoveryItem, reason event.Reason) *event.Outcome {
	outcome := &event.Outcome{
		Event: item.Event, Account: b.job.Account, Endpoint: b.job.Endpoint, Dest: item.Destination, Run: b.job.ID,
		Status: item.Prior.Status, Reason: item.Prior.Reason, Code: item.Prior.Code, At: item.Prior.LastAt,
		SkipReason: reason,
	}
	if !outcome.Status.Terminal() {
		outcome.Status, outcome.Reason, outcome.At = event.Skipped, reason, b.deps.Now()
	}
	if item.StoredEvent != nil {
		outcome.Type = item.StoredEvent.Type
	}
	return outcome
}

func (b *batch) flush(ctx context.Context) error {
	err := b.deps.Submitter.Submit(ctx, b.deliveries, b.outcomes)
	b.deliveries, b.outcomes, b.bytes = nil, nil, 0
	return err
}

// blockedByOtherJob reports whether a job that started earlier sends to the same destination.
func (run *jobRun) blockedByOtherJob(job *jobs.Recovery) bool {
	all, _ := run.deps.Jobs.UnsettledRecoveries(time.Time{})
	for _, other := range all {
		if other.ID != job.ID && other.State.Sending() && other.Overlaps(job) &&
			(other.StartedAt.Before(job.StartedAt) || other.StartedAt.Equal(job.StartedAt) && other.ID < job.ID) {
			return true
		}
	}
	return false
}

// settle waits for the results of a job that has ended, and stores them in the header once all are in.
func (run *jobRun) settle(ctx context.Context, job *jobs.Recovery) (time.Duration, error) {
	if err := run.resubmit(ctx, job); err != nil {
		return 0, err
	}
	counts, err := run.counts(ctx, job)
	if err != nil {
		return 0, err
	}
	if counts.Ended() < job.Reserved {
		return run.nextCheck(counts, maxSettleCheck), nil
	}
	failures := map[string]event.RecoveryFailures{}
	if counts.Failed > 0 {
		if failures, err = run.deps.Store.RecoveryFailures(ctx, job.Account, job.ID); err != nil {
			return 0, err
		}
	}
	_, err = run.update(ctx, job, func(edited *jobs.Recovery) {
		edited.Settled, edited.Delivered, edited.Failed, edited.Skipped = true, counts.Delivered, counts.Failed,
			counts.Skipped
		if edited.Reserved <= edited.Canary.End() {
			edited.Canary.Delivered, edited.Canary.Failed = counts.Delivered, counts.Failed
		}
		for i := range edited.Destinations {
			d := &edited.Destinations[i]
			d.Failed, d.TopError = failures[d.ID].Failed, failures[d.ID].TopError
		}
	})
	return 0, err
}
