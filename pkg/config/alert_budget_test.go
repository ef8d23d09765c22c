package config

import (
	"testing"
	"time"
)

// Notices and tests with mails count for an hour. Tests without mails leave after a minute, so that many of them do not
// make the record of the budget large.
func TestBudgetDropsWhatNoLongerCounts(t *testing.T) {
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var b AlertBudget
	b.RecordSent(AlertSent{ID: "notice", At: start})
	b.RecordSent(AlertSent{Mails: 2, At: start})
	for i := range 100 {
		b.RecordSent(AlertSent{At: start.Add(time.Duration(i) * time.Second)})
	}
	if got := len(b.Sent); got != 2+60 || len(b.SentWithin(start.Add(time.Minute), time.Hour)) != got {
		t.Errorf("%d are counted", got)
	}
	b.RecordSent(AlertSent{At: start.Add(time.Hour)})
	if len(b.Sent) != 1 {
		t.Errorf("%d are counted an hour later", len(b.Sent))
	}
}
