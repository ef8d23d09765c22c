package api

import (
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// reasons explains every reason in half a sentence, so that nobody needs a manual to know what happened.
var reasons = map[event.Reason]string{
	event.SignatureMissing:    "the request carried no signature",
	event.SignatureMalformed:  "the signature is not in the provider's format",
	event.SignatureMismatch:   "none of the endpoint's secrets made the signature",
	event.TimestampTolerance:  "the signed time is too far from the time of receipt",
	event.NoDestination:       "the endpoint had no enabled destination",
	event.Filtered:            "the destination's filter does not let it through",
	event.Duplicate:           "it repeats an event that was stored before",
	event.DestinationDisabled: "the destination is disabled",
	event.DestinationDeleted:  "the destination was deleted",
	event.EndpointDeleted:     "the endpoint was deleted",
	event.Superseded:          "a replay delivered it before the retry was due",
	event.AttemptsExhausted:   "all attempts of the retry policy are used up",
	event.NotRetryable:        "the answer is one that the retry policy does not retry",
	event.Gone410:             "the destination answered 410 Gone",
	event.PayloadExpired:      "the payload's retention ended before a delivery succeeded",
	event.Undecodable:         "its record could not be read",
	event.LaneFull:            "the destination has too much in flight",
}

// why explains the state of an event or a delivery in one sentence. next is when the next attempt is
// due, zero when none is.
func why(status event.Status, reason event.Reason, next time.Time) string {
	text, known := reasons[reason]
	if !known && reason != "" && reason != event.Queued {
		text = string(reason) // a word of a newer version
	}
	at := ""
	if !next.IsZero() {
		at = next.UTC().Format(web.TimeFormat)
	}
	switch status {
	case event.Delivered:
		return "delivered"
	case event.Retrying:
		return join("the last attempt failed", "next attempt at", at)
	case event.Held:
		return join("held"+colon(text), "next attempt at", at)
	case event.Pending:
		if text == "" {
			return join("waiting for its first attempt", "due at", at)
		}
		return join("waiting"+colon(text), "next attempt at", at)
	case event.Failed, event.Skipped, event.Rejected:
		return string(status) + colon(text)
	}
	return string(status) + colon(text)
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func join(text, label, at string) string {
	if at == "" {
		return text
	}
	return fmt.Sprintf("%s; %s %s", text, label, at)
}
