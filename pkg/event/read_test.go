package event_test

import (
	"testing"

	"github.com/eventrelay/relay/pkg/event"
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
	f(event.Event{Verdict: event.VerdictRejected, Reason: event.SignatureMismatch}, event.Rejected, event.SignatureMismatch)
	// The reason of an observed one says what the verification saw, not why nothing was delivered.
	f(event.Event{Verdict: event.VerdictObserved, Reason: event.SignatureMismatch}, event.Skipped, event.NoDestination)
}
