package config

import (
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
)

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
