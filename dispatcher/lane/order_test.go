package lane

import (
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// at makes a delivery with a position in slot 1.
func (lt *laneTest) at(position int64) *Delivery {
	delivery := lt.delivery("ordered", "")
	delivery.Work.Place = event.Place{Slot: 1, Position: position}
	return delivery
}

// A new owner sends nothing to an ordered destination before it knows what the retry topics have, and has read the
// events up to that.
func TestNothingIsSentBeforeTheSurvey(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.surveyWanted = func() {}
	third, fourth := lt.at(3), lt.at(4)
	lt.Admit(fourth)
	lt.Admit(third)
	l := lt.byDest["ordered"]
	survey := lt.Surveys()[0]
	survey.Add("ordered", event.Place{Slot: 1, Position: 2})
	survey.Add("ordered", event.Place{Slot: 1, Position: 7})
	lt.EndPlace(lt.at(2)) // before the survey ends
	survey.Finish(4, 10)
	if lt.started[l] > 0 {
		t.Fatal("an earlier owner has read up to position 7, of which this node has not read the events")
	}
	lt.EventsRead(0, 7)
	if lt.started[l] != 1 || lt.next(l, nil, NotSent) != third || lt.next(l, third, Succeeded) != nil {
		t.Fatal("the first delivery was not sent alone")
	}
	lt.EndPlace(third)
	if lt.next(l, nil, NotSent) != fourth {
		t.Fatal("the second one was not sent")
	}
	lt.EndPlace(fourth)
	wanted, _ := lt.Wanted()
	if lt.Census().Ordered != 1 || !wanted[0][PlaceKey{"ordered", 1, 7}] {
		t.Errorf("wanted is %v", wanted)
	}
}

// A copy that is read while its delivery is being recorded leaves no place behind, for which nothing would come.
func TestCopyLeavesNoPlace(t *testing.T) {
	lt := newLaneTest(t, 100)
	first, again, next := lt.at(1), lt.at(1), lt.at(2)
	first.Work.Parked = event.Behind
	again.Work = first.Work
	lt.Admit(first)
	l := lt.byDest["ordered"]
	lt.next(l, nil, NotSent)
	lt.EndPlace(first)
	lt.AddPlace(again)
	if decision := lt.Admit(again); decision.Action != End {
		t.Fatalf("%+v", decision)
	}
	lt.Admit(next)
	if lt.next(l, first, Succeeded) != next {
		t.Error("the next delivery waits for the copy")
	}
}

// At the bound of positions the partition with events pauses until there are fewer, and no other one.
func TestPositionsAreBounded(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.maxPositions = 16
	first := lt.at(1)
	lt.Admit(first)
	for i := range int64(16) {
		lt.Admit(lt.at(i + 2))
	}
	if lt.paused() {
		t.Fatal("a retry topic pauses")
	}
	lt.part.ID.Topic = stream.Events
	if lt.Admit(lt.at(18)); !lt.paused() {
		t.Fatal("the partition does not pause")
	}
	for i := range int64(4) {
		lt.EndPlace(lt.at(i + 1))
	}
	if lt.paused() {
		t.Error("it pauses with 14 positions")
	}
}

// A key that does not progress holds a bounded number of deliveries, each for some seconds. Then they are parked behind
// the first one.
func TestWaitForATurnIsBounded(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	first := lt.at(1)
	lt.Admit(first)
	for i := range int64(2 * laneQueue) {
		lt.Admit(lt.at(i + 2))
	}
	if n, _ := lt.InMemory(); n != 2*laneQueue+1 { // those of decisions are in memory until they are recorded
		t.Fatalf("%d are in memory", n)
	}
	if n := lt.byDest["ordered"].deliveries; n != maxHeld+1 {
		t.Errorf("%d are in the lane", n)
	}
	lt.now = lt.now.Add(turnPatience + 1)
	shed, _ := lt.EnforceLimits()
	if len(shed) != maxHeld || lt.byDest["ordered"].deliveries != 1 {
		t.Errorf("%d are parked", len(shed))
	}
	for i, decision := range shed {
		if decision.Delivery.Work.Place.Position != int64(i+2) || decision.Reason != event.Behind ||
			decision.Behind != first.Work.Event.ID.Text("evt_") {
			t.Fatalf("decision %d is %+v", i, decision)
		}
	}
}
