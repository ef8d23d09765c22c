package sim

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// policy is what a destination was promised about its attempts.
type policy struct {
	most    int             // attempts
	delays  []time.Duration // after each failure; the last one repeats
	jitter  float64
	perSec  float64 // its rate; 0: none
	burst   int
	mayFail bool // events may end without a delivery after most attempts
}

// exponential is the policy of the endpoints that newEndpoint makes.
var exponential = policy{most: 50, jitter: 0.1, delays: seconds(5, 10, 20, 40, 80, 160, 300)}

func seconds(all ...int) (delays []time.Duration) {
	for _, s := range all {
		delays = append(delays, time.Duration(s)*time.Second)
	}
	return delays
}

// least is the shortest wait after a number of failures.
func (p *policy) least(failed int) time.Duration {
	d := p.delays[min(failed, len(p.delays))-1]
	return time.Duration(float64(d) * (1 - p.jitter))
}

// try is an attempt of the automatic delivery of an event.
type try struct {
	began time.Time
	times int           // it was made so often
	wait  time.Duration // what the destination has asked for
}

// parse reads what a request says of its attempt: headers, or their copies in a line of a batch.
func (e *sentEvent) parse(attempt, trigger string) {
	if e.Headers != nil {
		trigger = e.Headers["relay-trigger"]
	} else {
		e.Attempt, _ = strconv.Atoi(attempt)
	}
	e.isJob = trigger == "recovery" || trigger == "canary"
	e.isReplay = trigger == "replay" || e.isJob
}

// attempted checks that an attempt follows the policy. Only automatic ones are counted: those of two replays have the
// same numbers.
func (o *oracle) attempted(t *target, e sentEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.checkRate(t, now)
	if e.isJob {
		o.replays[e.ID] = true
		t.byJob[e.ID]++
	}
	if e.isReplay {
		return
	}
	r := receipt{e.ID, t.host}
	if o.tries[r] == nil {
		o.tries[r] = make(map[int]*try)
	}
	again := o.tries[r][e.Attempt]
	if again == nil {
		o.tries[r][e.Attempt] = &try{began: now, times: 1}
	} else {
		again.times++
		if e.Headers == nil && !o.explains(again.began, now) { // a batch may be sent again in halves
			o.breach("attempt %d of %s at %s was made %d times without a fault that explains it", e.Attempt, e.ID, t.host,
				again.times)
		}
	}
	if e.Attempt > t.policy.most {
		o.breach("%s is sent to %s for the %d. time, which has %d attempts", e.ID, t.host, e.Attempt, t.policy.most)
	}
	before := o.tries[r][e.Attempt-1]
	if before == nil && e.Attempt > 1 && !o.explains(now.Add(-5*time.Minute), now) { // else it may not have arrived
		o.breach("attempt %d of %s at %s was not the next one", e.Attempt, e.ID, t.host)
	}
	if o.w.skewedSince(now.Add(-time.Minute)) {
		return // a node with a wrong clock begins too early or too late
	}
	o.checkTimes(t, e, now)
	if before == nil || again != nil || o.w.skewedSince(before.began.Add(-time.Minute)) {
		return
	}
	least := t.policy.least(e.Attempt - 1)
	if before.times == 1 {
		least = max(least, before.wait)
	}
	if passed := now.Sub(before.began); passed < least-time.Second {
		o.breach("attempt %d of %s at %s came %v after the one before, not after %v", e.Attempt, e.ID, t.host, passed, least)
	}
}

// asked records that a destination has asked for a pause before the next attempt.
func (o *oracle) asked(t *target, e sentEvent, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.tries[receipt{e.ID, t.host}][e.Attempt]; x != nil && !e.isReplay {
		x.wait = wait
	}
}

// checkTimes checks deliver_at and expires_at, which the data of an event repeats.
func (o *oracle) checkTimes(t *target, e sentEvent, now time.Time) {
	var sent struct {
		Data struct {
			From  time.Time `json:"from"`
			Until time.Time `json:"until"`
		} `json:"data"`
	}
	if json.Unmarshal(e.Body, &sent) != nil {
		return
	}
	if from := sent.Data.From; now.Before(from.Add(-3 * time.Second)) {
		o.breach("%s is sent to %s %v before its time", e.ID, t.host, from.Sub(now))
	}
	if until := sent.Data.Until; !until.IsZero() && now.After(until.Add(5*time.Second)) {
		o.breach("%s is sent to %s %v after it has expired", e.ID, t.host, now.Sub(until))
	}
}

// checkRate checks that a destination gets no more than its rate, when no fault has moved its partition.
func (o *oracle) checkRate(t *target, now time.Time) {
	if t.policy.perSec == 0 {
		return
	}
	t.sent = append(t.sent, now)
	n := len(t.sent)
	for i := max(0, n-40); i < n-1; i++ {
		span := now.Sub(t.sent[i])
		if most := float64(t.policy.burst) + t.policy.perSec*(span.Seconds()+1) + 1; float64(n-i) > most &&
			!o.explains(t.sent[i], now) {
			o.breach("%s got %d requests in %v, more than %.1f a second", t.host, n-i, span, t.policy.perSec)
		}
	}
}

// gaveUp reports whether all attempts that a policy has were made.
func (o *oracle) gaveUp(eventID string, t *target) bool {
	return t.policy.mayFail && o.tries[receipt{eventID, t.host}][t.policy.most] != nil
}

// triedAll checks that events were accepted, or all attempts were made.
func (o *oracle) triedAll(t *target, events []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range events {
		if o.accepts(e, t.host) == 0 && !o.gaveUp(e, t) {
			o.breach("%s was sent to %s %d times only", e, t.host, len(o.tries[receipt{e, t.host}]))
		}
	}
}

// inTime says that an event must arrive within a time, as no fault is in its way.
func (o *oracle) inTime(eventID string, within time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.due[eventID] = time.Now().Add(within)
}

// checkDue checks what inTime says.
func (o *oracle) checkDue(eventID string, t *target, accepted []time.Time) {
	due, ok := o.due[eventID]
	if ok && (len(accepted) == 0 || accepted[0].After(due)) {
		o.breach("%s, due at %s at %v, came at %v although no fault was in its way", eventID, t.host, due.Sub(o.w.began),
			since(o.w.began, accepted))
	}
}

func since(began time.Time, all []time.Time) (text []string) {
	for _, at := range all {
		text = append(text, at.Sub(began).String())
	}
	return text
}

// refuses reports whether a destination that refuses some events refuses this one.
func (e *sentEvent) refused() bool { return strings.ContainsAny(e.ID[len(e.ID)-1:], "0123456") }

// skewedSince reports whether a clock was wrong at or after a time.
func (w *World) skewedSince(t time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skewing > 0 || w.skewEnded.After(t)
}
