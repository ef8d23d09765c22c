package dispatcher

import (
	"math"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config/retry"
)

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
