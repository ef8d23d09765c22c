package config

import (
	"slices"
	"strconv"
	"testing"

	"github.com/eventrelay/relay/pkg/config/alerting"
)

// The messages of an unavailable channel are bounded: the oldest is merged into the next, with its targets.
func TestAlertNoticesAreMerged(t *testing.T) {
	a := &alerting.Alert{}
	for i := range 40 {
		to := []string{"slack"}
		if i == 0 {
			to = append(to, "email:a@example.com")
		}
		a.Notices = append(a.Notices, alerting.AlertNotice{ID: strconv.Itoa(i), PendingTargets: to, Count: 1})
		a.MergeNotices()
	}
	first := a.Notices[0]
	if len(a.Notices) != alerting.MaxAlertNotices || first.ID != "24" || first.Merged != 24 ||
		!slices.Equal(first.PendingTargets,
			[]string{"slack", "email:a@example.com"}) || a.Notices[1].Merged != 0 ||
		first.Count != 25 {
		t.Errorf("%d notices, the first %+v", len(a.Notices), first)
	}
}
