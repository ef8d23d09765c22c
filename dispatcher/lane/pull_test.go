package lane

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/must"
)

// pulledLanes makes lanes of destinations that consumers pull while *pulled.
func pulledLanes(t *testing.T, most int) (lt *laneTest, pulled *bool) {
	lt, pulled = newLaneTest(t, most), new(bool)
	lt.eligibility.Destination.Pull = &kinds.Pull{}
	lt.pulled = func(string) bool { return *pulled }
	return lt, pulled
}

// nextOf is the first decision of a worker about a new delivery of the destination.
func (lt *laneTest) nextOf(t *testing.T, dest string, parked event.Reason) (Decision, *Lane) {
	delivery := lt.delivery(dest, "")
	delivery.Work.Parked = parked
	must.Equal(t, lt.enqueue(delivery), "")
	return lt.byDest[dest].Next(t.Context(), Result{}), lt.byDest[dest]
}

// Many destinations that nobody pulls leave half of the memory to others. A re-check of what was parked does not hold
// memory for another half minute.
func TestAbandonedDestinationsHoldLittleMemory(t *testing.T) {
	lt, _ := pulledLanes(t, 10)
	for i := range 6 {
		decision, _ := lt.nextOf(t, string(rune('a'+i)), "")
		if parks := i == 5; (decision.Action == Park && decision.Reason == event.NotPulled) != parks {
			t.Errorf("with %d deliveries in memory: %+v", i+1, decision)
		}
	}
	lt, _ = pulledLanes(t, 10)
	if decision, _ := lt.nextOf(t, "a", event.NotPulled); decision.Reason != event.NotPulled {
		t.Errorf("parked before: %+v", decision)
	}
}

// Consumers of all destinations have at most half of the memory and of the requests.
func TestLeasesAreBounded(t *testing.T) {
	lt, pulled := pulledLanes(t, 10)
	*pulled = true
	var last Decision
	var l *Lane
	for i := range 5 {
		if last, l = lt.nextOf(t, string(rune('a'+i)), ""); last.Action != Send {
			t.Fatalf("lease %d: %+v", i, last)
		}
	}
	if decision, _ := lt.nextOf(t, "x", ""); decision.Action != Park || decision.Reason != event.LaneFull {
		t.Errorf("one more than half: %+v", decision)
	}
	lt.Release(last.Delivery)
	l.Next(t.Context(), Result{Delivery: last.Delivery, Kind: Succeeded})
	lt.now = lt.now.Add(time.Second)
	if decision, _ := lt.nextOf(t, "y", ""); decision.Action != Send {
		t.Errorf("after one has ended: %+v", decision)
	}
	must.Equal(t, lt.leases, leases{5, 5000})
}

// The consumer of one destination that acknowledges nothing leaves leases to those of others, in number and in bytes.
func TestLeasesAreShared(t *testing.T) {
	for _, bounds := range []struct{ deliveries, bytes int }{{16, 1 << 30}, {1000, 16_000}} {
		lt, pulled := pulledLanes(t, bounds.deliveries)
		lt.maxBytes, *pulled = bounds.bytes, true
		for _, c := range "aaaaAbbBcCd" { // capitals get none
			dest := strings.ToLower(string(c))
			if decision, _ := lt.nextOf(t, dest, ""); (decision.Action == Send) != (dest == string(c)) {
				t.Errorf("%+v: %s after %+v: %+v", bounds, dest, lt.leases, decision)
			}
		}
	}
}
