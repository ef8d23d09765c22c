package alert

import (
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// maxOpen is how many open deliveries are remembered for one destination. Of more, the oldest are kept.
const maxOpen = 1000

// destinationState is what is known of one destination. It lives in the memory of the partition's owner; the next
// owner rebuilds it from the log.
type destinationState struct {
	endpoint string

	failures int // consecutive failed attempts
	// a delivery succeeded or failed for good since the state was created: only then can an alert resolve
	hasResult    bool
	failedReason event.Reason // why the last finished delivery failed; empty: it succeeded
	rate         window

	// an open delivery of this state has ended, in any way: only then can the age of the backlog be good
	hasEnded bool
	open     map[id.ID]id.ID // open deliveries that have an outcome, without replays and those that a user paused, each
	// with the event for which it waits in the order of the destination; zero: none
	oldest id.ID // the oldest of open; zero if not known

	heldSince     time.Time // since when its circuit breaker is known to be open; zero: it is not
	goneAt        time.Time // when it last gave an answer that disables it
	lastOutcomeAt time.Time // time of its last outcome
	succeededAt   time.Time // time of its last request that succeeded
}

// observe adds one outcome. Tests that a user sent by hand do not count. span is the window of the failure rate.
func (d *destinationState) observe(outcome *event.OutcomeHead, span time.Duration) {
	d.lastOutcomeAt = outcome.At
	if !outcome.Attempt.IsZero() && outcome.Trigger != event.TriggerTest {
		d.rate.resize(span)
		d.rate.add(outcome.At, outcome.OK)
		if d.failures++; outcome.OK {
			d.failures, d.heldSince, d.succeededAt = 0, time.Time{}, outcome.At
		}
	}
	switch {
	case outcome.Trigger == event.TriggerTest:
	case outcome.Status == event.Delivered && outcome.OK:
		d.hasResult, d.failedReason, d.goneAt = true, "", time.Time{}
	case outcome.Status == event.Failed && !outcome.Attempt.IsZero():
		d.hasResult, d.failedReason = true, event.Reason(outcome.Reason)
		if disables(d.failedReason) {
			d.goneAt = outcome.At
		}
	case outcome.Status == event.Held && string(outcome.Reason) == string(event.BreakerOpen) && d.heldSince.IsZero():
		d.heldSince = outcome.At
	}
	d.updateOpen(outcome)
}

// updateOpen adds an outcome to the set of open deliveries. Replays, deliveries that a user paused, and those of events
// that were sent for later are not backlog and do not count.
func (d *destinationState) updateOpen(outcome *event.OutcomeHead) {
	if reason := event.Reason(outcome.Reason); outcome.Status.Terminal() || reason == event.Manual ||
		reason == event.Scheduled {
		_, wasOpen := d.open[outcome.Event]
		d.hasEnded = d.hasEnded || wasOpen
		if delete(d.open, outcome.Event); outcome.Event == d.oldest {
			d.oldest = id.ID{}
		}
		return
	}
	if len(outcome.Run) > 0 {
		return
	}
	if d.open == nil {
		d.open = make(map[id.ID]id.ID)
	}
	head, _ := id.Parse(id.Event, string(outcome.Behind)) // zero without one
	if d.open[outcome.Event] = head; len(d.open) > maxOpen {
		newest := outcome.Event
		for e := range d.open {
			if e.Compare(newest) > 0 {
				newest = e
			}
		}
		delete(d.open, newest)
	}
	if !d.oldest.IsZero() && outcome.Event.Compare(d.oldest) < 0 {
		d.oldest = outcome.Event
	}
}

// oldestAge returns the age of the oldest open delivery; 0 if there is none.
func (d *destinationState) oldestAge(now time.Time) time.Duration {
	if len(d.open) == 0 {
		return 0
	}
	if d.oldest.IsZero() {
		for e := range d.open {
			if d.oldest.IsZero() || e.Compare(d.oldest) < 0 {
				d.oldest = e
			}
		}
	}
	return max(now.Sub(d.oldest.Time()), 0)
}

// needsEvaluation reports whether the passing of time, or the next success, may change the result of a rule.
func (d *destinationState) needsEvaluation(now time.Time) bool {
	_, failed := d.attempts(now)
	return d.failures > 0 || d.failedReason != "" || len(d.open) > 0 || !d.heldSince.IsZero() || failed > 0
}

// attempts returns the successful and failed attempts of the window that ends at now.
func (d *destinationState) attempts(now time.Time) (ok, failed int) {
	if d.rate.span == 0 {
		return 0, 0
	}
	return d.rate.sum(now)
}

// minHeld is how long a circuit breaker must be open before it is reported. The outcome of a delivery that was parked
// just before a success may be written just after it.
const minHeld = 3 * time.Second

// evaluate evaluates the rules for a destination as of asOf; now is the time of the clock, later than asOf while the
// consumer lags. completeSince is since when all outcomes are known: the failure rate needs a whole window. It changes
// only the window, which moves on to asOf, and the cached oldest delivery.
func (d *destinationState) evaluate(
	asOf, now, completeSince time.Time, r alerting.AlertRules, overrides alerting.EndpointAlerts) []evaluation {
	threshold := r.ConsecutiveFailures.Threshold
	if overrides.ConsecutiveFailures != nil {
		threshold = *overrides.ConsecutiveFailures
	}
	f := make([]evaluation, 0, 5)
	switch {
	case d.failedReason != "":
		f = append(f, evaluation{rule: deliveryFailed, result: bad, value: string(d.failedReason)})
	case d.hasResult:
		f = append(f, evaluation{rule: deliveryFailed, result: good, value: "delivered"})
	}
	switch {
	case d.failures >= threshold:
		f = append(f, evaluation{rule: consecutiveFailures, result: bad, value: d.failures, threshold: threshold})
	case d.failures == 0 && d.hasResult:
		f = append(f, evaluation{rule: consecutiveFailures, result: good, value: 0, threshold: threshold})
	}
	f = append(f, d.evaluateRate(asOf, completeSince, r.FailureRate, overrides), d.evaluateAge(asOf, now, r.BacklogAge))
	switch {
	case !d.heldSince.IsZero() && asOf.Sub(d.heldSince) >= minHeld:
		f = append(f, evaluation{rule: destinationHeld, result: bad, value: string(event.BreakerOpen)})
	case d.heldSince.IsZero() && d.failures == 0 && d.hasResult:
		f = append(f, evaluation{rule: destinationHeld, result: good, value: "active"})
	}
	return f
}

func (d *destinationState) evaluateRate(
	asOf, completeSince time.Time, r alerting.AlertRateRule, overrides alerting.EndpointAlerts) evaluation {
	percent := r.Percent
	if overrides.FailureRatePercent != nil {
		percent = *overrides.FailureRatePercent
	}
	f := evaluation{rule: failureRate, threshold: percent}
	ok, failed := d.attempts(asOf)
	all := ok + failed
	if all == 0 || asOf.Sub(completeSince) < time.Duration(r.WindowSeconds)*time.Second {
		return f
	}
	share := 100 * failed / all
	f.value = share
	switch {
	case share >= percent && all >= r.MinAttempts:
		f.result = bad
	case share < percent:
		f.result = good // a few successes are enough to resolve, a few failures are not enough to fire
	}
	return f
}

func (d *destinationState) evaluateAge(asOf, now time.Time, r alerting.AlertAgeRule) evaluation {
	age := int(d.oldestAge(asOf).Seconds())
	f := evaluation{rule: backlogAge, value: age, threshold: r.Seconds}
	switch {
	case age >= r.Seconds:
		f.result = bad
		head := d.open[d.oldest]
		if head.IsZero() {
			head = d.oldest
		}
		f.event = head.Text(id.Event)
	case (d.hasResult || d.hasEnded) && int(d.oldestAge(now).Seconds()) < r.Seconds:
		f.result = good
	}
	return f
}

// window counts successes and failures over a sliding span of time.
type window struct {
	span   time.Duration
	from   int64 // number of the oldest bucket
	bucket [windowBuckets]struct{ ok, failed uint32 }
}

// windowBuckets is the number of buckets of a window: its length is exact to 5 %.
const windowBuckets = 20

func (w *window) bucketOf(t time.Time) int64 { return t.UnixNano() / int64(w.span/windowBuckets) }

// add counts one result at t. A result that is older than the window, because clocks differ, is ignored.
func (w *window) add(t time.Time, ok bool) {
	at := w.bucketOf(t)
	w.advance(at)
	if at < w.from {
		return
	}
	c := &w.bucket[at%windowBuckets]
	if ok {
		c.ok++
	} else {
		c.failed++
	}
}

// advance clears the buckets that are too old when the current one has the number at.
func (w *window) advance(at int64) {
	from := at - windowBuckets + 1
	if from <= w.from {
		return
	}
	for i := max(w.from, from-windowBuckets); i < from; i++ {
		w.bucket[i%windowBuckets] = struct{ ok, failed uint32 }{}
	}
	w.from = from
}

// sum returns the counts of the window that ends at t.
func (w *window) sum(t time.Time) (ok, failed int) {
	w.advance(w.bucketOf(t))
	for _, c := range w.bucket {
		ok += int(c.ok)
		failed += int(c.failed)
	}
	return ok, failed
}

// resize clears the window if its span changes.
func (w *window) resize(span time.Duration) {
	if w.span != span {
		*w = window{span: span}
	}
}
