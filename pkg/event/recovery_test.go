package event_test

import (
	"testing"

	"github.com/eventrelay/relay/pkg/event"
)

// A job stops by these counts: a skip counts by its reason, although it restores the status from before the job.
func TestRecoveryCounts(t *testing.T) {
	for _, c := range []struct {
		status event.Status
		reason event.Reason
		want   event.RecoveryCounts
	}{
		{event.Pending, "", event.RecoveryCounts{}},
		{event.Retrying, "", event.RecoveryCounts{}},
		{event.Held, "", event.RecoveryCounts{}},
		{event.Delivered, "", event.RecoveryCounts{Delivered: 2}},
		{event.Failed, "", event.RecoveryCounts{Failed: 2}},
		{event.Failed, event.Purged, event.RecoveryCounts{Skipped: 2}},
		{event.Failed, event.DestinationDisabled, event.RecoveryCounts{Skipped: 2, Unavailable: 2}},
		{event.Skipped, event.DestinationDeleted, event.RecoveryCounts{Skipped: 2, Unavailable: 2}},
		{event.Skipped, event.EndpointDeleted, event.RecoveryCounts{Skipped: 2, Unavailable: 2}},
	} {
		var got event.RecoveryCounts
		if got.Add(c.status, c.reason, 2); got != c.want || got.Ended() != c.want.Delivered+c.want.Failed+c.want.Skipped {
			t.Errorf("%s %s: %+v, want %+v", c.status, c.reason, got, c.want)
		}
	}
}
