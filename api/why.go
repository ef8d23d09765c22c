package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// reasons explains every reason in a clause for `why`. Only queued is missing: its text depends on the attempts so
// far.
var reasons = map[event.Reason]string{
	event.SignatureMissing:   "the request lacks the signature, or another header that it needs such as the timestamp",
	event.SignatureMalformed: "the signature is not in the provider's format",
	event.SignatureMismatch:  "the signature matches none of the endpoint's secrets",
	event.TimestampTolerance: "the signed time is too far from the time of receipt",
	event.NoDestination:      "the endpoint had no enabled destination",
	event.Filtered:           "the destination's filter does not match it",
	event.Duplicate:          "it repeats an event that was stored before",
	event.DeliveryLoop: "it has passed through five deliveries, or returned to an endpoint twice: a destination leads " +
		"back to this relay",
	event.DestinationDisabled: "the destination was disabled before it was sent",
	event.DestinationDeleted:  "the destination was deleted",
	event.EndpointDeleted:     "the endpoint was deleted",
	event.Superseded:          "a replay delivered it before the retry was due",
	event.Purged:              "it was still open when the destination was purged",
	event.JobStopped:          "the recovery job stopped before it was sent",
	event.JobCancelled:        "the recovery job was cancelled before it was sent",
	event.RunStopped:          "the replay was stopped before it was sent",
	event.Deadline:            "the recovery job reached its deadline before it was sent",
	event.AlreadyDelivered:    "it was already delivered before the job sent it",
	event.AttemptsExhausted:   "all attempts of the retry policy are used up",
	event.NotRetryable:        "the retry policy does not retry this response",
	event.Gone410:             "the destination answered 410 Gone",
	event.PayloadExpired:      "the payload is no longer kept: its retention ended, or it was erased",
	event.TransformFailed:     "the endpoint's transformation could not be applied",
	event.Undecodable:         "the stored event could not be decoded",
	event.LaneFull:            "the destination has reached its limit of requests in flight",
	event.Paced:               "the destination's rate limit delays it",
	event.Manual:              "paused by hand, delivered when unpaused",
	event.BreakerOpen:         "the circuit breaker is open after consecutive failures",
}

// why explains the status of an event or a delivery in one sentence. next is when the next attempt is due, zero if
// none is planned; last describes the last attempt, empty if unknown.
func why(status event.Status, reason event.Reason, next time.Time, last string) string {
	text, known := reasons[reason]
	if !known && reason != "" && reason != event.Queued {
		text = string(reason) // a reason of a newer version
	}
	at := ""
	if !next.IsZero() && reason != event.LaneFull { // its time is an internal re-check, recorded once
		at = next.UTC().Format(web.TimeFormat)
	}
	switch {
	case reason == event.Manual: // the time is an internal re-check, not a promise
		return "held" + withColon(text)
	case reason == event.BreakerOpen:
		return withTime("held"+withColon(text), "next probe at", at)
	}
	switch status {
	case event.Delivered:
		if text != "" { // the endpoint only observes signatures
			return "delivered, although " + text
		}
		return "delivered"
	case event.Retrying:
		return withTime(cmp.Or(last, "the last attempt failed"), "next attempt at", at)
	case event.Held:
		return withTime("held"+withColon(text), "next attempt at", at)
	case event.Pending:
		switch {
		case text != "":
			return withTime("waiting"+withColon(text), "next attempt at", at)
		case last != "":
			return withTime("waiting for another attempt", "due at", at)
		}
		return withTime("waiting for its first attempt", "due at", at)
	case event.Failed:
		if last != "" {
			return "failed" + withColon(text) + "; " + last
		}
	}
	return string(status) + withColon(text)
}

// summaryWhy explains the status of an event of which only the row is known.
func summaryWhy(s *event.Summary) string {
	if s.Reason == event.Duplicate && s.DuplicateOf != "" {
		return string(s.Status) + ": duplicate of " + s.DuplicateOf
	}
	return why(s.Status, s.Reason, s.NextAttemptAt, "")
}

// deliveryWhy explains the status of a delivery with its newest attempt, or with the operation that failed. halt says
// why it gets no other attempt, empty if it gets one.
func deliveryWhy(x *event.Delivery, attempts []event.AttemptRow, failed *wire.TransformFailure, halt string) string {
	if failed != nil {
		return why(x.Status, x.Reason, x.NextAttemptAt, failedOperation(failed))
	}
	last := ""
	for i := range slices.Backward(attempts) {
		if attempts[i].Destination == x.Destination {
			last = attemptText(&attempts[i])
			break
		}
	}
	if halt != "" {
		return haltedWhy(x.Status, last, halt)
	}
	return why(x.Status, x.Reason, x.NextAttemptAt, last)
}

// haltedWhy explains the status of a delivery that is open but gets no other attempt.
func haltedWhy(status event.Status, last, halt string) string {
	if status == event.Retrying {
		return cmp.Or(last, "the last attempt failed") + "; " + halt
	}
	return halt
}

// halts says, by destination, why open deliveries of an event get no attempt at the time that is stored: since then
// their endpoint or destination was deleted, disabled, purged or paused. The dispatcher sees that when the attempt is
// due, which may be a day later. The dashboard knows these sentences by their ends.
func (a *events) halts(s *event.Summary) map[string]string {
	var halts map[string]string
	for i := range s.Deliveries {
		x := &s.Deliveries[i]
		if !x.Status.Terminal() {
			if text := a.haltOf(s, x); text != "" {
				if halts == nil {
					halts = map[string]string{}
				}
				halts[x.Destination] = text
			}
		}
	}
	return halts
}

func (a *events) haltOf(s *event.Summary, x *event.Delivery) string {
	const ends, waits = ": nothing more is sent", " is paused: nothing is sent until it is unpaused"
	ep, presence := a.configReader.Endpoint(s.Endpoint)
	switch presence {
	case config.Deleted:
		return "the endpoint was deleted" + ends
	case config.Unknown: // another node may have created it a moment ago
		return ""
	}
	startedAt := s.ID.Time()
	if run, err := id.Parse(x.Run[:strings.IndexByte(x.Run, '_')+1], x.Run); err == nil {
		startedAt = run.Time()
	}
	d := ep.Destination(x.Destination)
	switch {
	case d == nil:
		return "the destination was deleted" + ends
	case !d.Enabled:
		return "the destination is disabled" + ends
	case startedAt.Before(d.PurgeBefore):
		return "the destination was purged" + ends
	case x.Reason == event.Manual: // its own sentence says so
		return ""
	case d.Paused:
		return "the destination" + waits
	case ep.Paused:
		return "the endpoint" + waits
	}
	return ""
}

// attemptText describes the result of an attempt: "attempt 2 failed (HTTP 503)".
func attemptText(a *event.AttemptRow) string {
	if a.OK {
		return fmt.Sprintf("attempt %d succeeded (HTTP %d)", a.Number, a.Code)
	}
	cause := string(a.ErrorCode)
	switch {
	case a.ErrorCode == event.CodeHTTPStatus:
		cause = fmt.Sprintf("HTTP %d", a.Code)
	case a.Code != 0:
		cause = fmt.Sprintf("%s, HTTP %d", a.ErrorCode, a.Code)
	}
	return fmt.Sprintf("attempt %d failed (%s)", a.Number, cause)
}

// eventWhy explains the status of an event by the delivery that decides it, and says how many deliveries have that
// status.
func eventWhy(d *event.Detail, failures map[string]*wire.TransformFailure, halts map[string]string) string {
	first, same := decidingDelivery(&d.Summary, halts)
	if first == nil || d.Status == event.Delivered {
		return summaryWhy(&d.Summary)
	}
	text := deliveryWhy(first, d.Attempts, failures[first.Destination], halts[first.Destination])
	if all := len(d.Deliveries); all > 1 {
		return fmt.Sprintf("%d of %d destinations: %s", same, all, text)
	}
	return text
}

// decidingDelivery returns the delivery that decides the status of an event, and how many have that status: the one
// whose attempt is due first, and one without an attempt only if none has one. It is nil if none has that status.
func decidingDelivery(s *event.Summary, halts map[string]string) (first *event.Delivery, same int) {
	for i := range s.Deliveries {
		x := &s.Deliveries[i]
		if x.Status != s.Status && (s.Status != event.Pending || x.Status != event.Held) {
			continue
		}
		if same++; first == nil {
			first = x
			continue
		}
		switch halted, firstHalted := halts[x.Destination] != "", halts[first.Destination] != ""; {
		case halted != firstHalted:
			if firstHalted {
				first = x
			}
		case dueSooner(x, first):
			first = x
		}
	}
	return first, same
}

// setHalted corrects the sentence of a list row if deliveries get no attempt at the time that is stored.
func setHalted(v *wire.EventRow, s *event.Summary, halts map[string]string) {
	first, _ := decidingDelivery(s, halts)
	switch {
	case len(halts) == 0 || first == nil:
	case halts[first.Destination] != "":
		v.Why = haltedWhy(first.Status, "", halts[first.Destination])
	default:
		v.Why = why(s.Status, first.Reason, first.NextAttemptAt, "")
	}
}

// whyErased returns the sentence for an event or a delivery whose payload was erased. If that ended it, the sentence
// does not say that its retention may have ended. One that is open is not sent any more, but ends only when the
// dispatcher reads it again, at the latest when its next attempt is due.
func whyErased(text string, status event.Status, next web.Time) string {
	if status != event.Pending && status != event.Retrying && status != event.Held {
		return strings.Replace(text, reasons[event.PayloadExpired], "the payload was erased", 1)
	}
	at := ""
	if t := time.Time(next); !t.IsZero() {
		at = t.UTC().Format(web.TimeFormat)
	}
	return withTime("the payload was erased: nothing more is sent", "it ends as failed at", at)
}

// dueSooner reports whether the next attempt of a is due before that of b.
func dueSooner(a, b *event.Delivery) bool {
	return !a.NextAttemptAt.IsZero() && (b.NextAttemptAt.IsZero() || a.NextAttemptAt.Before(b.NextAttemptAt))
}

func withColon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func withTime(text, label, at string) string {
	if at == "" {
		return text
	}
	return fmt.Sprintf("%s; %s %s", text, label, at)
}
