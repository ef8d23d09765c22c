package wire

import (
	"cmp"
	"fmt"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Why explains a status. Its sentence is [Why.Text].
type Why struct {
	// The reason, or what halts an open delivery: `endpoint_deleted`, `destination_deleted`, `destination_disabled`,
	// `purged`, `endpoint_paused`, `destination_paused` or `payload_erased`. The status, if there is neither.
	Code string `json:"code" example:"retrying"`
	// When something happens next: an attempt, a probe of the circuit breaker, or, for `payload_erased`, the end of the
	// delivery. `null` if nothing is planned.
	Until web.Time `json:"until" nullable:"true"`
	// What happened last, such as `attempt 2 failed (HTTP 503)`, or for which event it waits, such as
	// `behind evt_06e9…`; `null` if it is not known.
	Cause *string `json:"cause" example:"attempt 2 failed (HTTP 503)"`
}

// What halts an open delivery and is no reason.
const (
	HaltEndpointPaused    = "endpoint_paused"
	HaltDestinationPaused = "destination_paused"
	HaltPayloadErased     = "payload_erased"
)

// halts explains what halts an open delivery: since it was planned, its endpoint or destination was deleted, disabled,
// purged or paused, or its payload erased. The dispatcher sees that when the attempt is due, which may be a day later.
var halts = map[string]string{
	string(event.EndpointDeleted):     "the endpoint was deleted: nothing more is sent",
	string(event.DestinationDeleted):  "the destination was deleted: nothing more is sent",
	string(event.DestinationDisabled): "the destination is disabled: nothing more is sent",
	string(event.Purged):              "the destination was purged: nothing more is sent",
	HaltEndpointPaused:                "the endpoint is paused: nothing is sent until it is unpaused",
	HaltDestinationPaused:             "the destination is paused: nothing is sent until it is unpaused",
	HaltPayloadErased:                 "the payload was erased: nothing more is sent",
}

// Reasons explains every reason in a clause. Only queued is missing: its text depends on the attempts so far.
var Reasons = map[event.Reason]string{
	event.SignatureMissing:   "the request lacks the signature, or another header that it needs such as the timestamp",
	event.SignatureMalformed: "the signature is not in the provider's format",
	event.SignatureMismatch:  "the signature matches none of the endpoint's secrets",
	event.TimestampTolerance: "the signed time is too far from the time of receipt",
	event.CertificateExpired: "the certificate of the signature was not valid at the time of receipt",
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
	event.Expired:             "it was not delivered before its expires_at",
	event.CancelledByRule:     "an operation of the transformation cancels it",
	event.AlreadyDelivered:    "it was already delivered before the job sent it",
	event.AttemptsExhausted:   "all attempts of the retry policy are used up",
	event.NotRetryable:        "the retry policy does not retry this response",
	event.Gone410:             "the destination answered 410 Gone",
	event.ReceiverAborted:     "the destination asked to end this delivery (webhook-delivery: abort-message)",
	event.ReceiverDisabled:    "the destination asked to be disabled (webhook-delivery: disable)",
	event.PayloadExpired:      "the payload is no longer kept: its retention ended, or it was erased",
	event.TooLarge:            "the destination does not take events of this size",
	event.TransformFailed:     "the transformation or the filter could not be applied",
	event.Undecodable:         "the stored event could not be decoded",
	event.OrderFull: "its destination is ordered and has too many unfinished deliveries; " +
		"replay it when it has fewer",
	event.Scheduled:   "it was sent with deliver_at",
	event.LaneFull:    "the destination has reached its limit of requests in flight",
	event.Paced:       "the destination's rate limit delays it",
	event.Manual:      "paused by hand, delivered when unpaused",
	event.BreakerOpen: "the circuit breaker is open after consecutive failures",
	event.NotPulled:   "no consumer pulls its destination",
	event.Behind:      "its destination is ordered, and an earlier event of its key is not delivered yet",
}

// Halt says why a delivery with that status gets no other attempt; empty if it gets one, or has ended.
func (w Why) Halt(status event.Status) string {
	switch status {
	case event.Pending, event.Retrying, event.Held:
		return halts[w.Code]
	}
	return ""
}

// Text explains a status in one sentence.
func (w Why) Text(status event.Status) string {
	lead, rest := w.Parts(status)
	if lead != "" && rest != "" {
		return lead + ": " + rest
	}
	return lead + rest
}

// Parts are the sentence before and after its colon, if it begins with a word for the status; either may be empty.
func (w Why) Parts(status event.Status) (lead, rest string) {
	cause, reason := "", w.reason(status)
	if w.Cause != nil {
		cause = *w.Cause
	}
	if halt := w.Halt(status); halt != "" {
		if status == event.Retrying && w.Code != HaltPayloadErased {
			halt = cmp.Or(cause, "the last attempt failed") + "; " + halt
		}
		return "", w.until(halt, "it ends as failed at")
	}
	switch {
	case w.Code == string(event.Manual), w.Code == string(event.NotPulled):
		return "held", reason
	case w.Code == string(event.Behind) && cause != "":
		return "held", cause + " in the order of its destination"
	case w.Code == string(event.BreakerOpen):
		return "held", w.until(reason, "next probe at")
	case status == event.Delivered && reason != "": // the endpoint only observes signatures
		return "", "delivered, although " + reason
	case status == event.Retrying:
		return "", w.until(cmp.Or(cause, "the last attempt failed"), "next attempt at")
	case status == event.Pending && reason != "":
		return "waiting", w.until(reason, "next attempt at")
	case status == event.Pending && cause != "":
		return "", w.until("waiting for another attempt", "due at")
	case status == event.Pending:
		return "", w.until("waiting for its first attempt", "due at")
	case w.Code == string(event.Duplicate) && cause != "":
		return string(status), cause
	case status == event.Failed && cause != "" && reason != "":
		return string(status), reason + "; " + cause
	case status == event.Failed && cause != "":
		return "", string(status) + "; " + cause
	case status == event.Held:
		return string(status), w.until(reason, "next attempt at")
	}
	return string(status), reason
}

// reason is the clause for the code; empty if the code says no more than the status.
func (w Why) reason(status event.Status) string {
	switch text := Reasons[event.Reason(w.Code)]; {
	case w.Code == HaltPayloadErased:
		return "the payload was erased"
	case text != "" || w.Code == string(event.Queued) || w.Code == string(status):
		return text
	}
	return w.Code // a reason of a newer version
}

// until adds the time of what is planned.
func (w Why) until(text, label string) string {
	if w.Until.IsZero() {
		return text
	}
	return fmt.Sprintf("%s; %s %s", text, label, w.Until)
}
