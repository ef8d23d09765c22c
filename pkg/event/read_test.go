package event_test

import (
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

func TestSummarizeWithoutDeliveries(t *testing.T) {
	f := func(e event.Event, status event.Status, reason event.Reason) {
		t.Helper()
		if s, r, c := event.Summarize(&e, nil); s != status || r != reason || c != (event.Counts{}) {
			t.Errorf("%+v: %s %s %+v, want %s %s", e, s, r, c, status, reason)
		}
	}
	f(event.Event{Verdict: event.VerdictVerified, Reason: event.NoDestination}, event.Skipped, event.NoDestination)
	f(event.Event{Verdict: event.VerdictUnverified, Reason: event.Duplicate}, event.Skipped, event.Duplicate)
	f(event.Event{Verdict: event.VerdictRejected, Reason: event.SignatureMismatch}, event.Rejected,
		event.SignatureMismatch)
	// The reason of an observed event is that of its verification, not why nothing was delivered.
	f(event.Event{Verdict: event.VerdictObserved, Reason: event.SignatureMismatch}, event.Skipped, event.NoDestination)
	// Why an observed event names no destination takes precedence over its verification.
	f(event.Event{Verdict: event.VerdictObserved, Reason: event.Duplicate}, event.Skipped, event.Duplicate)
	f(event.Event{Verdict: event.VerdictObserved, Reason: event.DeliveryLoop}, event.Skipped, event.DeliveryLoop)
}

// An event is never held: a held delivery makes it pending.
func TestSummarizeHeldDelivery(t *testing.T) {
	held := []event.Delivery{{Destination: "dst_1", Status: event.Held, Reason: event.BreakerOpen}}
	status, reason, counts := event.Summarize(&event.Event{Dests: []string{"dst_1"}}, held)
	if status != event.Pending || reason != event.BreakerOpen || counts != (event.Counts{Total: 1, Pending: 1}) {
		t.Errorf("%s %s %+v", status, reason, counts)
	}
}

// An observed event shows the reason of its verification unless a delivery has a reason of its own.
func TestSummarizeShowsReasonOfObservedEvent(t *testing.T) {
	e := event.Event{Verdict: event.VerdictObserved, Reason: event.SignatureMismatch, Dests: []string{"dst_1"}}
	f := func(status event.Status, reason, want event.Reason) {
		t.Helper()
		_, got, _ := event.Summarize(&e, []event.Delivery{{Destination: "dst_1", Status: status, Reason: reason}})
		is.Equal(t, got, want, "%s %q", status, reason)
	}
	f(event.Delivered, "", event.SignatureMismatch)
	f(event.Retrying, "", event.SignatureMismatch)
	f(event.Failed, event.Gone410, event.Gone410)
}

// After the replay of a rejected event only the deliveries of the replay count.
func TestSummarizeReplayedRejectedEvent(t *testing.T) {
	e := &event.Event{Verdict: event.VerdictRejected, Reason: event.SignatureMismatch, Dests: []string{"dst_1", "dst_2"}}
	for _, f := range []struct {
		newest event.Delivery
		status event.Status
		reason event.Reason
		counts event.Counts
	}{
		{event.Delivery{Destination: "dst_1", Status: event.Pending, Reason: event.Queued}, event.Pending, event.Queued,
			event.Counts{Total: 1, Pending: 1}},
		{event.Delivery{Destination: "dst_1", Status: event.Delivered}, event.Delivered, "",
			event.Counts{Total: 1, Delivered: 1}},
		{event.Delivery{Destination: "dst_3", Status: event.Failed, Reason: event.Gone410}, event.Failed, event.Gone410,
			event.Counts{Total: 1, Failed: 1}},
	} {
		if s, r, c := event.Summarize(e, []event.Delivery{f.newest}); s != f.status || r != f.reason || c != f.counts {
			t.Errorf("%+v: %s %s %+v, want %s %s %+v", f.newest, s, r, c, f.status, f.reason, f.counts)
		}
	}
}
