package config

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
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

// When there is no room for an issue, the oldest resolved one goes.
func TestResolvedIssuesMakeRoom(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	put := func(id, status string, age time.Duration) error {
		return n.ChangeIssue(t.Context(), id, func(x *alerting.Issue) error {
			x.Status, x.LastAt = status, n.Clock().Add(-age)
			return nil
		})
	}
	for id, age := range map[string]time.Duration{"iss_new": time.Minute, "iss_old": 2 * time.Hour} {
		if err := put(id, alerting.IssueResolved, age); err != nil {
			t.Fatal(err)
		}
	}
	if err := put("iss_open", alerting.IssueOpen, 3*time.Hour); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		id   string
		gone string
		err  error
	}{{"iss_1", "iss_old", nil}, {"iss_2", "iss_new", nil}, {"iss_3", "", alerting.ErrTooManyIssues}} {
		n.inject(entity.KindIssue, "len", alerting.MaxIssues)
		if err := put(want.id, alerting.IssueOpen, 0); !errors.Is(err, want.err) || n.Issue(want.gone) != nil ||
			(n.Issue("iss_new") == nil) != (i > 0) || n.Issue("iss_open") == nil {
			t.Errorf("%s: %v", want.id, err)
		}
	}
}
