package events

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// explained is the explanation of a status.
type explained struct {
	wire.Why
	status event.Status
	of     string // begins the sentence: how many deliveries of an event it is about
}

func (x explained) text() string { return x.of + x.Text(x.status) }

// explain explains the status of an event or a delivery. next is when the next attempt is due, zero if none is planned;
// cause describes the last attempt, empty if unknown.
func explain(status event.Status, reason event.Reason, next time.Time, cause string) explained {
	x := explained{wire.Why{Code: cmp.Or(string(reason), string(status)), Cause: frame.OrNull(cause)}, status, ""}
	if reason != event.LaneFull && reason != event.Manual { // their time is an internal re-check, not a promise
		x.Until = web.Time(next)
	}
	return x
}

// summaryWhy explains the status of an event of which only the row is known.
func summaryWhy(s *event.Summary) explained {
	cause := ""
	if s.Reason == event.Duplicate && s.DuplicateOf != "" {
		cause = "duplicate of " + s.DuplicateOf
	}
	return explain(s.Status, s.Reason, s.NextAttemptAt, cause)
}

// deliveryWhy explains the status of a delivery with its newest attempt, or with the operation that failed. halt is
// what keeps it from another attempt, empty if it gets one.
func deliveryWhy(x *event.Delivery, attempts []event.AttemptRow, failed *wire.TransformFailure, halt string) explained {
	if failed != nil {
		return explain(x.Status, x.Reason, x.NextAttemptAt, failedOperation(failed))
	}
	if x.Reason == event.Behind && halt == "" {
		return explain(x.Status, x.Reason, time.Time{}, behindText(x))
	}
	cause := ""
	for i := range slices.Backward(attempts) {
		if attempts[i].Destination == x.Destination {
			cause = attemptText(&attempts[i])
			break
		}
	}
	if halt != "" {
		return explain(x.Status, event.Reason(halt), time.Time{}, cause)
	}
	return explain(x.Status, x.Reason, x.NextAttemptAt, cause)
}

// halts says, by destination, what keeps open deliveries of an event from their next attempt; see [wire.Why.Halt].
func (a *events) halts(s *event.Summary) map[string]string {
	var halts map[string]string
	for i := range s.Deliveries {
		x := &s.Deliveries[i]
		if !x.Status.Terminal() {
			if halt := a.haltOf(s, x); halt != "" {
				if halts == nil {
					halts = map[string]string{}
				}
				halts[x.Destination] = halt
			}
		}
	}
	return halts
}

func (a *events) haltOf(s *event.Summary, x *event.Delivery) string {
	ep, presence := a.Config.Endpoint(s.Endpoint)
	switch presence {
	case entity.Deleted:
		return string(event.EndpointDeleted)
	case entity.Unknown: // another node may have created it a moment ago
		return ""
	}
	startedAt := s.ID.Time()
	if run, err := id.Parse(x.Run[:strings.IndexByte(x.Run, '_')+1], x.Run); err == nil {
		startedAt = run.Time()
	}
	d := ep.Destination(x.Destination)
	switch {
	case d == nil:
		return string(event.DestinationDeleted)
	case !d.Enabled:
		return string(event.DestinationDisabled)
	case startedAt.Before(d.PurgeBefore):
		return string(event.Purged)
	case x.Reason == event.Manual: // its own sentence says so
		return ""
	case d.Paused:
		return wire.HaltDestinationPaused
	case ep.Paused:
		return wire.HaltEndpointPaused
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
func eventWhy(d *event.Detail, failures map[string]*wire.TransformFailure, halts map[string]string) explained {
	first, same := decidingDelivery(&d.Summary, halts)
	if first == nil || d.Status == event.Delivered {
		return summaryWhy(&d.Summary)
	}
	x := deliveryWhy(first, d.Attempts, failures[first.Destination], halts[first.Destination])
	if all := len(d.Deliveries); all > 1 {
		x.of = fmt.Sprintf("%d of %d destinations: ", same, all)
	}
	return x
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

// rowWhy explains the status of an event in a list, of which some deliveries are halted.
func rowWhy(s *event.Summary, halts map[string]string) explained {
	first, _ := decidingDelivery(s, halts)
	switch {
	case first == nil:
		return summaryWhy(s)
	case halts[first.Destination] != "":
		return deliveryWhy(first, nil, nil, halts[first.Destination])
	}
	return explain(s.Status, first.Reason, first.NextAttemptAt, behindText(first))
}

// behindText says for which event a delivery waits in the order of its destination, empty if it does not.
func behindText(x *event.Delivery) string {
	if x.Reason != event.Behind || x.Behind == "" {
		return ""
	}
	return "behind " + x.Behind
}

// erased changes the explanation of an event or a delivery whose payload was erased. If that ended it, the sentence
// does not say that its retention may have ended. One that is open is not sent any more, but ends only when the
// dispatcher reads it again, at the latest when its next attempt is due.
func (x explained) erased(next web.Time) explained {
	switch {
	case x.Code == string(event.PayloadExpired):
		x.Code = wire.HaltPayloadErased
	case x.status == event.Pending || x.status == event.Retrying || x.status == event.Held:
		x.Code, x.Until, x.of = wire.HaltPayloadErased, next, ""
	}
	return x
}

// dueSooner reports whether the next attempt of a is due before that of b.
func dueSooner(a, b *event.Delivery) bool {
	return !a.NextAttemptAt.IsZero() && (b.NextAttemptAt.IsZero() || a.NextAttemptAt.Before(b.NextAttemptAt))
}
