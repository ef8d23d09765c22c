package dispatcher

import (
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// recoveryPolicy is the budget of a delivery of a recovery job, whatever its endpoint says: three attempts, soon
// after each other, for the job waits to hear whether the destination works again.
func recoveryPolicy() config.RetryPolicy {
	return config.RetryPolicy{
		Strategy: config.RetrySchedule, ScheduleSeconds: []int{2, 10}, MaxAttempts: 3, RetryOn: []string{"3xx", "4xx"},
	}
}

// ofRecovery reports whether a recovery job sends the work.
func ofRecovery(w *event.Work) bool { return strings.HasPrefix(w.Run, id.Recovery) }

// policyOf is the retry policy of the work's chain.
func policyOf(w *event.Work, ep *config.Endpoint) config.RetryPolicy {
	if ofRecovery(w) {
		return recoveryPolicy()
	}
	return ep.RetryPolicy
}

// decideRecovery is decide for a delivery of a recovery job. An address that may not be reached is not tried again: it
// takes somebody to change that. Whether there is time for another attempt is judged when it is due, so that one
// whose payload goes meanwhile is passed by and does not stop its job.
func decideRecovery(w *event.Work, v verdict, now, expiry time.Time) next {
	p := recoveryPolicy()
	switch {
	case v.fate == delivered:
		return next{status: event.Delivered}
	case v.fate == fail:
		return next{status: event.Failed, reason: v.reason}
	case v.code == event.CodeAddressBlocked:
		return next{status: event.Failed, reason: event.NotRetryable}
	case w.Attempt >= p.Attempts():
		return next{status: event.Failed, reason: event.AttemptsExhausted}
	}
	return next{status: event.Retrying, due: now.Add(baseDelay(p, w.Attempt)), deadline: expiry}
}

// jobEnd says how the work ends because of its recovery job, empty when it does not, and whether this node has heard of
// the job.
func (d *Dispatcher) jobEnd(w *event.Work) (end ending, known bool) {
	if !ofRecovery(w) {
		return ending{}, true
	}
	job, presence := d.config.Recovery(w.Run)
	switch {
	case presence == config.Unknown:
		return ending{}, false
	case presence == config.Deleted:
		return ending{event.Skipped, event.JobStopped}, true
	case job.State == config.RecoveryCompleted: // a second copy of the work
		return ending{event.Skipped, event.AlreadyDelivered}, true
	case job.State.Ended():
		return ending{event.Skipped, job.State.Unsent()}, true
	case !d.now().Before(job.Deadline):
		return ending{event.Skipped, event.Deadline}, true
	}
	return ending{}, true
}
