package alert

import (
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// window counts what went well and what failed over a span of time that moves along.
type window struct {
	span time.Duration
	from int64 // the number of the oldest bucket
	cell [windowCells]struct{ ok, bad uint32 }
}

// windowCells is into how many pieces a window is cut: its length is right to a twentieth.
const windowCells = 20

func (w *window) cellOf(t time.Time) int64 { return t.UnixNano() / int64(w.span/windowCells) }

// add counts at t. What is older than the window, by clocks that are apart, is left out.
func (w *window) add(t time.Time, ok bool) {
	at := w.cellOf(t)
	w.advance(at)
	if at < w.from {
		return
	}
	c := &w.cell[at%windowCells]
	if ok {
		c.ok++
	} else {
		c.bad++
	}
}

// advance lets go of what is too old when now is in the bucket of that number.
func (w *window) advance(at int64) {
	from := at - windowCells + 1
	if from <= w.from {
		return
	}
	for i := max(w.from, from-windowCells); i < from; i++ {
		w.cell[i%windowCells] = struct{ ok, bad uint32 }{}
	}
	w.from = from
}

// sum is what the window holds at t.
func (w *window) sum(t time.Time) (ok, bad int) {
	w.advance(w.cellOf(t))
	for _, c := range w.cell {
		ok += int(c.ok)
		bad += int(c.bad)
	}
	return ok, bad
}

// resize begins anew when the span is another one.
func (w *window) resize(span time.Duration) {
	if w.span != span {
		*w = window{span: span}
	}
}

// maxOpen bounds the deliveries of one destination that are known to be open: its oldest ones.
const maxOpen = 1000

// track is what is known of one destination. It is the memory of the node that owns the partition, and is built again
// from the log by the next one.
type track struct {
	endpoint string

	failures int  // attempts in a row that failed
	ended    bool // an attempt, or a delivery, was seen since the track began: it may speak of good news
	failed   event.Reason
	rate     window

	open   map[id.ID]struct{} // deliveries of the automatic chain that were told of and have not ended
	oldest id.ID              // of them; zero when it is not known

	held   time.Time // since when its breaker was seen open; zero = it is not
	goneAt time.Time // when it last answered 410
	saidAt time.Time // of the last outcome
}

// observe takes one outcome in.
func (k *track) observe(w *event.OutcomeHead, span time.Duration) {
	k.saidAt = w.At
	if !w.Attempt.IsZero() && w.Trigger != event.TriggerTest {
		k.rate.resize(span)
		k.rate.add(w.At, w.OK)
		if k.failures++; w.OK {
			k.failures, k.held = 0, time.Time{}
		}
	}
	switch {
	case w.Trigger == event.TriggerTest:
	case w.Status == event.Delivered && w.OK:
		k.ended, k.failed, k.goneAt = true, "", time.Time{}
	case w.Status == event.Failed && !w.Attempt.IsZero():
		k.ended, k.failed = true, event.Reason(w.Reason)
		if k.failed == event.Gone410 {
			k.goneAt = w.At
		}
	case w.Status == event.Held && string(w.Reason) == string(event.BreakerOpen) && k.held.IsZero():
		k.held = w.At
	}
	k.note(w)
}

// note keeps the set of open deliveries. What somebody holds by hand is nobody's backlog, and neither is a replay of
// something old.
func (k *track) note(w *event.OutcomeHead) {
	if w.Status.Terminal() || string(w.Reason) == string(event.Manual) {
		if delete(k.open, w.Event); w.Event == k.oldest {
			k.oldest = id.ID{}
		}
		return
	}
	if len(w.Run) > 0 {
		return
	}
	if k.open == nil {
		k.open = make(map[id.ID]struct{})
	}
	if k.open[w.Event] = struct{}{}; len(k.open) > maxOpen {
		newest := w.Event
		for e := range k.open {
			if compare(e, newest) > 0 {
				newest = e
			}
		}
		delete(k.open, newest)
	}
	if !k.oldest.IsZero() && compare(w.Event, k.oldest) < 0 {
		k.oldest = w.Event
	}
}

func compare(a, b id.ID) int { return slices.Compare(a[:], b[:]) }

// age is how old the oldest open delivery is; 0 when none is known.
func (k *track) age(now time.Time) time.Duration {
	if len(k.open) == 0 {
		return 0
	}
	if k.oldest.IsZero() {
		for e := range k.open {
			if k.oldest.IsZero() || compare(e, k.oldest) < 0 {
				k.oldest = e
			}
		}
	}
	return max(now.Sub(k.oldest.Time()), 0)
}

// troubled reports whether time alone, or the next success, may change what the rules say.
func (k *track) troubled(now time.Time) bool {
	_, bad := k.sum(now)
	return k.failures > 0 || k.failed != "" || len(k.open) > 0 || !k.held.IsZero() || bad > 0
}

func (k *track) sum(now time.Time) (ok, bad int) {
	if k.rate.span == 0 {
		return 0, 0
	}
	return k.rate.sum(now)
}

// ruleResult is what a rule says at a moment.
type ruleResult uint8

const (
	silent ruleResult = iota // nothing either way: an alert stays as it is
	bad
	good
)

// finding is the result of one rule with what it saw and what it was held against.
type finding struct {
	rule             rule
	result           ruleResult
	value, threshold any
}

// heldFor is how long a breaker must be seen open before that is told: what was parked in the moment of a success may
// be told of after it.
const heldFor = 3 * time.Second

// judge says what the rules come to. whole is since when everything was seen: a rate of a part of the window tells
// nothing. It is pure but for the windows, which move along. present is the time of the clock: what is judged as of
// before, because it is read late, may be worse by now.
func (k *track) judge(now, present, whole time.Time, r config.AlertRules, own config.EndpointAlerts) []finding {
	threshold := r.ConsecutiveFailures.Threshold
	if own.ConsecutiveFailures != nil {
		threshold = *own.ConsecutiveFailures
	}
	f := make([]finding, 0, 5)
	switch {
	case k.failed != "":
		f = append(f, finding{deliveryFailed, bad, string(k.failed), nil})
	case k.ended:
		f = append(f, finding{deliveryFailed, good, "delivered", nil})
	}
	switch {
	case k.failures >= threshold:
		f = append(f, finding{consecutiveFailures, bad, k.failures, threshold})
	case k.failures == 0 && k.ended:
		f = append(f, finding{consecutiveFailures, good, 0, threshold})
	}
	f = append(f, k.judgeRate(now, whole, r.FailureRate, own), k.judgeAge(now, present, r.BacklogAge))
	switch {
	case !k.held.IsZero() && now.Sub(k.held) >= heldFor:
		f = append(f, finding{destinationHeld, bad, string(event.BreakerOpen), nil})
	case k.held.IsZero() && k.failures == 0 && k.ended:
		f = append(f, finding{destinationHeld, good, "active", nil})
	}
	return f
}

func (k *track) judgeRate(now, whole time.Time, r config.AlertRateRule, own config.EndpointAlerts) finding {
	percent := r.Percent
	if own.FailureRatePercent != nil {
		percent = *own.FailureRatePercent
	}
	f := finding{rule: failureRate, threshold: percent}
	ok, failed := k.sum(now)
	all := ok + failed
	if all == 0 || now.Sub(whole) < time.Duration(r.WindowSeconds)*time.Second {
		return f
	}
	share := 100 * failed / all
	f.value = share
	switch {
	case share >= percent && all >= r.MinAttempts:
		f.result = bad
	case share < percent:
		f.result = good // a few attempts that go well are good news, a few that fail are none
	}
	return f
}

func (k *track) judgeAge(now, present time.Time, r config.AlertAgeRule) finding {
	age := int(k.age(now).Seconds())
	f := finding{rule: backlogAge, value: age, threshold: r.Seconds}
	switch {
	case age >= r.Seconds:
		f.result = bad
	case k.ended && int(k.age(present).Seconds()) < r.Seconds:
		f.result = good
	}
	return f
}
