package dispatcher

import (
	"math"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
)

// nextStep is what follows an attempt.
type nextStep struct {
	status   event.Status
	reason   event.Reason
	due      time.Time // of the next attempt, for retrying
	deadline time.Time // until when a circuit breaker may hold it, for retrying
}

// decide chooses the next step after an attempt. It is pure: tests run years of retries in microseconds. random is
// uniform in [0, 1).
//
// In a recovery job, a blocked address fails at once, since only a person can change that, and the delay has no jitter
// and no Retry-After. The expiry of the payload is checked only when the next attempt is due: then the delivery is
// skipped, which does not stop its job, while a failure would.
func decide(
	work *event.Work, classified destination.Classification, policy retry.Policy, retryAfter time.Duration, now,
	expiry time.Time,
	random float64,
) nextStep {
	switch {
	case classified.Class == destination.Delivered:
		return nextStep{status: event.Delivered}
	case classified.Class == destination.Final:
		return nextStep{status: event.Failed, reason: classified.Reason}
	case isRecovery(work) && classified.Code == event.CodeAddressBlocked:
		return nextStep{status: event.Failed, reason: event.NotRetryable}
	case work.Attempt >= policy.Attempts():
		return nextStep{status: event.Failed, reason: event.AttemptsExhausted}
	case isRecovery(work):
		return nextStep{status: event.Retrying, due: now.Add(baseDelay(policy, work.Attempt)), deadline: expiry}
	}
	due := now.Add(retryDelay(policy, work.Attempt, retryAfter, random))
	if end := work.Event.ExpiresAt; work.Run == "" && !end.IsZero() && !due.Before(end) {
		return nextStep{status: event.Skipped, reason: event.Expired}
	}
	if !due.Before(expiry) {
		return nextStep{status: event.Failed, reason: event.PayloadExpired}
	}
	deadline := lane.Earlier(due.Add(scheduleLength(policy)), expiry)
	return nextStep{status: event.Retrying, due: due, deadline: deadline}
}

// recoveryPolicy is the retry policy of deliveries of recovery jobs, whatever their endpoint says: three attempts
// within 12 s, since the job waits for the result.
func recoveryPolicy() retry.Policy {
	return retry.Policy{
		Strategy: retry.Schedule, ScheduleSeconds: []int{2, 10}, MaxAttempts: 3, RetryOn: []string{"3xx", "4xx"},
	}
}

// policyOf is the retry policy of the delivery.
func policyOf(work *event.Work, endpoint *config.Endpoint) retry.Policy {
	if isRecovery(work) {
		return recoveryPolicy()
	}
	return endpoint.RetriesOf(work.Dest)
}

// maxDelay bounds every computed wait.
const maxDelay = destination.MaxRetryAfter

// deadlineGrace is added to the sum of a schedule: a circuit breaker holds deliveries of short schedules for a day.
const deadlineGrace = 24 * time.Hour

// baseDelay is the wait after the given number of failed attempts (from 1), without jitter.
func baseDelay(policy retry.Policy, failed int) time.Duration {
	return seconds(policy.DelaySeconds(failed))
}

// seconds converts seconds, which may be infinite or NaN, into a bounded Duration.
func seconds(s float64) time.Duration {
	if math.IsNaN(s) || s <= 0 {
		return 0
	}
	if s >= maxDelay.Seconds() {
		return maxDelay
	}
	return time.Duration(s * float64(time.Second))
}

// retryDelay is the wait before the next attempt: the scheduled delay ± jitter, or the receiver's Retry-After up to
// its cap, whichever is longer. random is uniform in [0, 1).
func retryDelay(policy retry.Policy, failed int, retryAfter time.Duration, random float64) time.Duration {
	base := baseDelay(policy, failed)
	delay := seconds(base.Seconds() * (1 + policy.Jitter*(2*random-1)))
	if policy.RespectRetryAfter {
		delay = max(delay, min(retryAfter, seconds(float64(policy.MaxRetryAfterSeconds))))
	}
	return delay
}

// scheduleLength is how long a circuit breaker may hold a delivery that has failed: as long as all attempts would take,
// the schedule with full jitter, and deadlineGrace.
func scheduleLength(policy retry.Policy) time.Duration {
	var sum time.Duration
	for failed := 1; failed < policy.Attempts(); failed++ {
		sum += seconds(baseDelay(policy, failed).Seconds() * (1 + policy.Jitter))
		if sum >= maxDelay {
			return maxDelay
		}
	}
	return sum + deadlineGrace
}
