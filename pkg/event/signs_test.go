package event

import (
	"slices"
	"testing"
)

// everyEvent calls f for each verdict with none to two destinations and each state that their deliveries, and one to a
// destination that only a replay names, may be in.
func everyEvent(f func(*Event, []Delivery)) {
	states := []Status{"", Pending, Retrying, Held, Delivered, Failed, Skipped} // the first: nothing was said
	for _, verdict := range []Verdict{VerdictVerified, VerdictRejected, VerdictObserved} {
		for n := range 3 {
			e := &Event{Verdict: verdict, Dests: []string{"dst_a", "dst_b"}[:n]}
			for i := range len(states) * len(states) * len(states) {
				var ds []Delivery
				for k, dest := range []string{"dst_a", "dst_b", "dst_c"} {
					if s := states[[]int{i, i / 7, i / 49}[k]%7]; s != "" {
						ds = append(ds, Delivery{Destination: dest, Status: s})
					}
				}
				f(e, ds)
			}
		}
	}
}

// Whatever is listed by a status shows a sign of it: lists look for the signs alone.
func TestListedEventsShowASign(t *testing.T) {
	statuses := []Status{Pending, Retrying, Held, Delivered, Failed, Skipped, Rejected}
	listed := map[Status]int{}
	everyEvent(func(e *Event, ds []Delivery) {
		status, _, _ := Summarize(e, ds)
		for _, s := range statuses {
			if !s.Matches(status, ds) {
				continue
			}
			listed[s]++
			signs := s.CandidateFilter()
			silent := func(dest string) bool {
				return !slices.ContainsFunc(ds, func(d Delivery) bool { return d.Destination == dest })
			}
			if !slices.ContainsFunc(ds, func(d Delivery) bool { return slices.Contains(signs.DeliveryStatuses, d.Status) }) &&
				!(signs.NoOutcome && slices.ContainsFunc(e.Dests, silent)) && !(signs.NoDestination && len(e.Dests) == 0) &&
				!(signs.Rejected && e.Verdict == VerdictRejected) {
				t.Errorf("%s, to %v, %+v: listed as %s without a sign of it", e.Verdict, e.Dests, ds, s)
			}
		}
	})
	for _, s := range statuses {
		if listed[s] == 0 {
			t.Errorf("no event is listed as %s", s)
		}
	}
}
