package recovery

import (
	"context"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// largestPage is how many items are reserved at once. At a low rate a page takes pageTime, so that what waits for its
	// turn when a job ends is not long in waiting; it has smallestPage items at least.
	largestPage, smallestPage = 200, 10
	pageTime                  = 10 // seconds
	// refill is the share of a page that may be unfinished when the next one is reserved: a quarter.
	refill = 4
	// batchBytes bounds the bodies that are submitted at once, but for a single larger one.
	batchBytes = 8 << 20
)

// pageOf is how many items a job reserves at once.
func pageOf(job *config.Recovery) int {
	return min(max(job.RatePerSecond*pageTime, smallestPage), largestPage)
}

// advance looks at the results of a job that sends, and goes on from them.
func (f *follower) advance(ctx context.Context, job *config.Recovery) (time.Duration, error) {
	if f.mustWait(job) {
		return watch, nil
	}
	if job.Reserved == 0 {
		return 0, f.reserve(ctx, job, job.Canary.Total)
	}
	if err := f.resubmit(ctx, job); err != nil {
		return 0, err
	}
	c, err := f.counts(ctx, job)
	if err != nil {
		return 0, err
	}
	unfinished, left := job.Reserved-c.Ended(), job.Sendable-job.Reserved
	switch canary := job.State == config.RecoveryCanaryRunning; {
	case c.Failed > 0:
		return 0, f.end(ctx, job, config.RecoveryStopped, config.StopDeliveryFailed)
	case c.Unavailable > 0:
		return 0, f.end(ctx, job, config.RecoveryStopped, config.StopDestinationUnavailable)
	case unfinished <= 0 && left == 0:
		return 0, f.end(ctx, job, config.RecoveryCompleted, "")
	case unfinished <= 0 && canary:
		_, err := f.move(ctx, job, func(j *config.Recovery) {
			j.State, j.Canary.Delivered, j.Canary.Failed = config.RecoveryAwaitingApproval, c.Delivered, c.Failed
		})
		return 0, err
	case !canary && left > 0 && unfinished <= pageOf(job)/refill:
		return 0, f.reserve(ctx, job, min(left, pageOf(job)))
	}
	return f.again(c, latest), nil
}

// counts is what came of the job's items so far.
func (f *follower) counts(ctx context.Context, job *config.Recovery) (event.RecoveryCounts, error) {
	all, _, err := f.Store.RecoveryCounts(ctx, job.Account, job.ID)
	return all[job.ID], err
}

// again is when to look at the results again: soon while they change.
func (f *follower) again(c event.RecoveryCounts, limit time.Duration) time.Duration {
	if c != f.seen {
		f.seen, f.looks = c, 0
	}
	f.looks++
	return wait.Backoff{First: soonest, Longest: limit}.After(f.looks - 1)
}

// reserve takes the next n items, and submits them once that is written.
func (f *follower) reserve(ctx context.Context, job *config.Recovery, n int) error {
	reserved, err := f.move(ctx, job, func(j *config.Recovery) { j.Reserved += n })
	if err != nil {
		return err
	}
	return f.submit(ctx, reserved, job.Reserved)
}

// resubmit submits what was reserved and never heard of: this node, or the one before it, was stopped in between. What
// was acknowledged counts as heard of, so the store must have all of that.
func (f *follower) resubmit(ctx context.Context, job *config.Recovery) error {
	if f.submitted >= job.Reserved {
		return nil
	}
	if err := f.Store.CaughtUp(ctx); err != nil {
		return err
	}
	return f.submit(ctx, job, f.submitted)
}

// submit submits the items of the job that were reserved, from the number on, but for those that were heard of.
func (f *follower) submit(ctx context.Context, job *config.Recovery, from int) error {
	b := batch{follower: f, job: job, due: f.Now(), every: time.Second / time.Duration(job.RatePerSecond)}
	if next := f.due.Add(b.every); next.After(b.due) {
		b.due = next
	}
	err := f.Store.OpenRecoveryItems(ctx, viewOf(job), from, job.Reserved,
		func(w *event.OpenRecoveryItem) error { return b.add(ctx, w) })
	if err == nil {
		err = b.send(ctx)
	}
	f.due = b.due.Add(-b.every)
	if err == nil {
		f.submitted = job.Reserved
	}
	return err
}

// viewOf is what the store needs to know of a job.
func viewOf(job *config.Recovery) event.RecoveryJob {
	return event.RecoveryJob{Account: job.Account, ID: job.ID, Selection: job.Selection, Reserved: job.Reserved,
		UnsentReason: job.State.UnsentReason()}
}

// batch gathers what is submitted at once.
type batch struct {
	*follower
	job   *config.Recovery
	due   time.Time // of the next delivery
	every time.Duration
	work  []*event.Work
	said  []*event.Outcome
	bytes int
}

// add takes an item. One that is delivered by now, or whose payload is gone, is passed by.
func (b *batch) add(ctx context.Context, w *event.OpenRecoveryItem) error {
	switch {
	case w.Prior.Status == event.Delivered:
		b.said = append(b.said, b.pass(w, event.AlreadyDelivered))
		return nil
	case w.StoredEvent == nil:
		b.said = append(b.said, b.pass(w, event.PayloadExpired))
		return nil
	}
	if b.bytes > 0 && b.bytes+len(w.StoredEvent.Body) > batchBytes {
		if err := b.send(ctx); err != nil {
			return err
		}
	}
	work := &event.Work{Event: w.StoredEvent, Dest: w.Destination, Trigger: event.TriggerRecovery, Attempt: 1, Due: b.due,
		Run: b.job.ID}
	if w.Seq < b.job.Canary.Total {
		work.Trigger = event.TriggerCanary
	}
	if w.Prior.Status.Terminal() {
		work.Prior, work.PriorReason = w.Prior.Status, w.Prior.Reason
	}
	b.due = b.due.Add(b.every)
	b.work = append(b.work, work)
	b.bytes += len(w.StoredEvent.Body)
	return nil
}

// pass says that an item is not sent. The delivery stays as it is.
func (b *batch) pass(w *event.OpenRecoveryItem, reason event.Reason) *event.Outcome {
	o := &event.Outcome{
		Event: w.Event, Account: b.job.Account, Endpoint: b.job.Endpoint, Dest: w.Destination, Run: b.job.ID,
		Status: w.Prior.Status, Reason: w.Prior.Reason, Code: w.Prior.Code, At: w.Prior.LastAt, SkipReason: reason,
	}
	if !o.Status.Terminal() {
		o.Status, o.Reason, o.At = event.Skipped, reason, b.Now()
	}
	if w.StoredEvent != nil {
		o.Type = w.StoredEvent.Type
	}
	return o
}

func (b *batch) send(ctx context.Context) error {
	err := b.Submitter.Submit(ctx, b.work, b.said)
	b.work, b.said, b.bytes = nil, nil, 0
	return err
}

// mustWait reports whether another job that began before this one sends to the same destination.
func (f *follower) mustWait(job *config.Recovery) bool {
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
func (f *follower) settle(ctx context.Context, job *config.Recovery) (time.Duration, error) {
	if err := f.resubmit(ctx, job); err != nil {
		return 0, err
	}
	c, err := f.counts(ctx, job)
	if err != nil {
		return 0, err
	}
	if c.Ended() < job.Reserved {
		return f.again(c, settling), nil
	}
	failures := map[string]event.RecoveryFailures{}
	if c.Failed > 0 {
		if failures, err = f.Store.RecoveryFailures(ctx, job.Account, job.ID); err != nil {
			return 0, err
		}
	}
	_, err = f.move(ctx, job, func(j *config.Recovery) {
		j.Settled, j.Delivered, j.Failed, j.Skipped = true, c.Delivered, c.Failed, c.Skipped
		if j.Reserved <= j.Canary.Total {
			j.Canary.Delivered, j.Canary.Failed = c.Delivered, c.Failed
		}
		for i := range j.Destinations {
			d := &j.Destinations[i]
			d.Failed, d.TopError = failures[d.ID].Failed, failures[d.ID].TopError
		}
	})
	return 0, err
}
