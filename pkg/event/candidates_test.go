package event

import (
	"slices"
	"testing"
)

// everyEvent calls f for every combination of a verdict, zero to two destinations, and the statuses of their
// deliveries. A third delivery, to dst_c, stands for one that only a replay made.
func everyEvent(f func(*Event, []Delivery)) {
	states := []Status{"", Pending, Retrying, Held, Delivered, Failed, Skipped} // "": no outcome
	for _, verdict := range []Verdict{VerdictVerified, VerdictRejected, VerdictObserved} {
		for n := range 3 {
			e := &Event{Verdict: verdict, Dests: []string{"dst_a", "dst_b"}[:n]}
			for i := range len(states) * len(states) * len(states) {
				var deliveries []Delivery
				for k, dest := range []string{"dst_a", "dst_b", "dst_c"} {
					if s := states[[]int{i, i / 7, i / 49}[k]%7]; s != "" {
						deliveries = append(deliveries, Delivery{Destination: dest, Status: s})
					}
				}
				f(e, deliveries)
			}
		}
	}
}

// An event that a list by status shows passes the candidate filter of the status: lists find events by this filter
// only.
func TestCandidateFilterIncludesEveryListedEvent(t *testing.T) {
	statuses := []Status{Pending, Retrying, Held, Delivered, Failed, Skipped, Rejected}
	listed := map[Status]int{}
	everyEvent(func(e *Event, ds []Delivery) {
		status, _, _ := Summarize(e, ds)
		for _, s := range statuses {
			if !s.Matches(status, ds) {
				continue
			}
			listed[s]++
			filter := s.CandidateFilter()
			noOutcome := func(dest string) bool {
				return !slices.ContainsFunc(ds, func(d Delivery) bool { return d.Destination == dest })
			}
			if !slices.ContainsFunc(ds, func(d Delivery) bool { return slices.Contains(filter.DeliveryStatuses, d.Status) }) &&
				!(filter.NoOutcome && slices.ContainsFunc(e.Dests, noOutcome)) &&
				!(filter.NoDestination && len(e.Dests) == 0) &&
				!(filter.Rejected && e.Verdict == VerdictRejected) {
				t.Errorf("%s, to %v, %+v: listed as %s, but the candidate filter excludes it", e.Verdict, e.Dests, ds, s)
			}
		}
	})
	for _, s := range statuses {
		if listed[s] == 0 {
			t.Errorf("no event is listed as %s", s)
		}
	}
}
