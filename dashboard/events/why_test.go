package events

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// The first sentence names the destination that decides, what it answered and what comes next; the second what became
// of the event elsewhere.
func TestEventsAreExplained(t *testing.T) {
	at := func(seconds int) time.Time { return time.Date(2026, 8, 21, 22, 20, seconds, 0, time.UTC) }
	next := at(0).Add(10 * time.Minute)
	attempt := func(code int, failed event.ErrorCode) *attemptData {
		a := &attemptData{Attempt: wire.Attempt{AttemptNumber: 1, Status: "failed", StartedAt: web.Time(at(1)),
			DurationMS: 2000}}
		if code != 0 {
			a.ResponseStatus = &code
		}
		if failed != "" {
			a.ErrorCode = &failed
		} else {
			a.Status = "succeeded"
		}
		return a
	}
	delivery := func(name string, status event.Status, why wire.Why, made ...*attemptData) *deliveryData {
		for i, a := range made {
			if i > 0 && made[i-1].Status == "failed" {
				a.AttemptNumber = made[i-1].AttemptNumber + 1
			}
		}
		return &deliveryData{Delivery: wire.Delivery{Status: status, Why: why.Text(status), WhyDetails: why,
			Attempts: len(made)}, Name: name, Made: made}
	}
	why := func(code string, cause ...string) wire.Why {
		x := wire.Why{Code: code}
		if len(cause) > 0 {
			x.Cause = &cause[0]
		}
		return x
	}
	retrying := delivery("orders", "retrying", wire.Why{Code: "retrying", Until: web.Time(next),
		Cause: new("attempt 2 failed (timeout)")}, attempt(503, "http_status"), attempt(0, "timeout"))
	retrying.NextAttemptAt = web.Time(next)
	overdue := delivery("orders", "retrying", why("retrying", "attempt 1 failed (HTTP 503)"), attempt(503, "http_status"))
	overdue.NextAttemptAt = web.Time(at(4*60 + 34))
	const deleted = "the endpoint was deleted: nothing more is sent"
	halted := delivery("orders", "retrying", why("endpoint_deleted", "attempt 1 failed (HTTP 503)"),
		attempt(503, "http_status"))
	gone := delivery("billing", "retrying", why("destination_deleted", "attempt 1 failed (HTTP 503)"))
	gone.NextAttemptAt = web.Time(at(59))
	paused := delivery("orders", "held", why("destination_paused"), attempt(503, "http_status"))
	delivered := delivery("crm", "delivered", why("delivered"), attempt(204, ""))
	skipped := delivery("audit", "skipped", why("filtered"))
	reason := event.SignatureMismatch
	for _, x := range []struct {
		name         string
		status       event.Status
		reason       *event.Reason
		why          string
		most         int
		deliveries   []*deliveryData
		lead, others string
	}{
		{"one gets no more attempts", "retrying", nil, "", 10, []*deliveryData{gone, retrying},
			"Retrying: *orders* answered 503 or timed out in 2 of 10 attempts. The next is at [22:30:00, in 5 min].",
			"*billing*: attempt 1 failed (HTTP 503); the destination was deleted: nothing more is sent. "},
		{"retrying", "retrying", nil, "", 10, []*deliveryData{delivered, retrying, skipped},
			"Retrying: *orders* answered 503 or timed out in 2 of 10 attempts. The next is at [22:30:00, in 5 min].",
			"*crm* has it since [22:20:03, 4 min ago]. *audit*: skipped: the destination's filter does not match it. "},
		{"replayed", "retrying", nil, "", 10, []*deliveryData{delivery("orders", "retrying", why("retrying"),
			attempt(204, ""), attempt(503, "http_status"), attempt(503, "http_status"))},
			"Retrying: *orders* answered 503 in 2 of 10 attempts.", ""},
		{"unknown policy", "retrying", nil, "", 0, []*deliveryData{retrying},
			"Retrying: *orders* answered 503 or timed out in 2 attempts. The next is at [22:30:00, in 5 min].", ""},
		{"delivered", "delivered", nil, "delivered", 10, []*deliveryData{delivered},
			"Delivered: *crm* answered 204 at [22:20:03, 4 min ago].", ""},
		{"observed", "delivered", &reason, "delivered, although the signature is wrong", 10, []*deliveryData{delivered},
			"Delivered, although the signature is wrong.", "*crm* has it since [22:20:03, 4 min ago]. "},
		{"rejected", "rejected", &reason, "rejected: the signature is wrong", 10, nil,
			"Rejected: the signature is wrong.", ""},
		{"failed", "failed", nil, "", 1, []*deliveryData{delivery("orders", "failed",
			why("attempts_exhausted", "attempt 1 failed (HTTP 500)"), attempt(500, "http_status"))},
			"Failed: *orders* answered 500 in 1 of 1 attempt; all attempts of the retry policy are used up.", ""},
		{"held", "pending", nil, "", 10, []*deliveryData{delivery("orders", "held",
			wire.Why{Code: "breaker_open", Until: web.Time(next.AddDate(0, 0, -1))})},
			"Held: *orders*: the circuit breaker is open after consecutive failures; next probe at " +
				"[20 Aug 22:30:00, due now].", ""},
		{"overdue", "retrying", nil, "", 10, []*deliveryData{overdue},
			"Retrying: *orders* answered 503 in 1 of 10 attempts. The next is at [22:24:34, due now].", ""},
		{"deleted", "retrying", nil, "", 10, []*deliveryData{halted},
			"Retrying: *orders* answered 503 in 1 of 10 attempts; " + deleted + ".", ""},
		{"deleted before its first attempt", "pending", nil, "", 10, []*deliveryData{
			delivery("orders", "pending", why("endpoint_deleted"))},
			"Pending: *orders*: " + deleted + ".", ""},
		{"paused", "pending", nil, "", 10, []*deliveryData{paused},
			"Held: *orders* answered 503 in 1 of 10 attempts; the destination is paused: nothing is sent until it is " +
				"unpaused.", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := &eventPage{eventDetail: &eventDetail{}, MaxAttempts: x.most}
			p.Status, p.Reason, p.Why, p.Deliveries = x.status, x.reason, x.why, x.deliveries
			explainStatus(&ui.Visit{Dashboard: &ui.Dashboard{Deps: ui.Deps{Now: func() time.Time {
				return at(4*60 +
					36)
			}}}}, p)
			if lead, others := plainPassages(p.Lead), plainPassages(p.Others); lead != x.lead || others != x.others {
				t.Errorf("%q %q\nwant %q %q", lead, others, x.lead, x.others)
			}
		})
	}
}

// plainPassages writes names as *name* and times as [clock, distance].
func plainPassages(parts []ui.Passage) string {
	var b strings.Builder
	for _, x := range parts {
		switch {
		case x.At.ISO != "":
			b.WriteString("[" + x.At.Clock + ", " + x.At.Relative + "]")
		case x.Strong:
			b.WriteString("*" + x.Text + "*")
		default:
			b.WriteString(x.Text)
		}
	}
	return strings.ReplaceAll(b.String(), "\u00a0", " ")
}
