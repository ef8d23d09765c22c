package events

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Steps are as long as it takes for all events to fit into them.
func TestCountsOf(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC)
	rows := func(ago ...time.Duration) (all []event.Summary) {
		for i, x := range ago {
			all = append(all, event.Summary{ID: id.Lowest(now.Add(-x)), Status: []event.Status{event.Failed, event.Delivered,
				event.Held}[i%3]})
		}
		return all
	}
	for want, x := range map[string][]event.Summary{
		"0 in 0 steps of 1":  nil,
		"2 in 2 steps of 1":  rows(time.Second, 40*time.Second),
		"3 in 2 steps of 60": rows(time.Second, 2*time.Second, 50*time.Minute),
		"2 in 1 steps of 1":  rows(20*24*time.Hour*365, 20*24*time.Hour*365),
	} {
		c := countsOf(x, false)
		sum := c.Statuses.Failed + c.Statuses.Delivered + c.Statuses.Pending
		if got := fmt.Sprintf("%d in %d steps of %d", sum, len(c.Steps), c.StepSeconds); got != want || c.Counted != sum {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
