package lane

import (
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
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
	must.Equal(t, lt.next(l, nil, NotSent), fourth, "the second one was not sent")
	lt.EndPlace(fourth)
	wanted, _ := lt.Wanted()
	if lt.Census().Ordered != 1 || !wanted[0][PlaceKey{"ordered", 1, 7}] {
		t.Errorf("wanted is %v", wanted)
	}
}

// Before the survey ends, deliveries are parked behind the first one that has come, which is behind none.
func TestParkedBeforeTheSurvey(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.surveyWanted = func() {}
	first := lt.at(1)
	lt.Admit(first)
	for i := range int64(maxHeld) {
		lt.Admit(lt.at(i + 2))
	}
	decision := lt.Admit(lt.at(maxHeld + 2))
	is.Equal(t, decision.Behind, first.Work.Event.ID.Text("evt_"), "the one too far from its turn is parked")
	lt.now = lt.now.Add(turnPatience + 1)
	shed, _ := lt.EnforceLimits()
	must.Equal(t, len(shed), maxHeld+1, "are parked")
	is.Equal(t, shed[0].Behind, "", "the first one is behind")
	is.Equal(t, shed[maxHeld].Behind, decision.Behind, "the last one is behind")
}

// A delivery that waits for its turn and ends meanwhile, by a replay for example, is parked once more.
func TestEndsWhileItWaits(t *testing.T) {
	lt := newLaneTest(t, 100)
	lt.surveyWanted = func() {}
	only := lt.at(1)
	lt.Admit(only)
	lt.EndPlace(lt.at(1))
	lt.now = lt.now.Add(turnPatience + 1)
	shed, _ := lt.EnforceLimits()
	if len(shed) != 1 || shed[0].Delivery != only || shed[0].Behind != "" {
		t.Fatalf("%+v", shed)
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
	is.Equal(t, lt.next(l, first, Succeeded), next, "the next delivery waits for the copy")
}

// So does a copy of a delivery that is sent because its destination is not ordered any more, whether it was held or
// came afterwards.
func TestCopyLeavesNoPlaceAfterTheOrder(t *testing.T) {
	for _, held := range []bool{true, false} {
		lt := newLaneTest(t, 100)
		first, second, again := lt.at(1), lt.at(2), lt.at(2)
		second.Work.Parked = event.Behind
		work := *second.Work
		again.Work = &work
		lt.Admit(first)
		l := lt.byDest["ordered"]
		lt.next(l, nil, NotSent)
		if held {
			lt.Admit(second)
		}
		lt.unordered = true
		if lt.EnforceLimits(); !held {
			lt.Admit(second)
		}
		is.Equal(t, second.Work.Place, event.Place{})
		lt.AddPlace(again)
		if decision := lt.Admit(again); decision.Action != End {
			t.Fatalf("%+v", decision)
		}
		lt.EndPlace(first)
		lt.next(l, first, Succeeded)
		is.Equal(t, lt.Census().Ordered, 0, "places, of a delivery that was held: %v", held)
	}
}

// A destination may have a quarter of the positions that are free. Then its next events fail, replayable, and nothing
// pauses: neither its partition nor other destinations. What is in the retry topics goes on.
func TestPositionsAreBounded(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.maxPositions = 10 * minPositions
	lt.part.ID.Topic = stream.Events
	n := int64(0)
	for n < 2*minPositions-slotCost {
		if n++; lt.Admit(lt.at(n)).Status == event.Failed {
			t.Fatalf("position %d fails", n)
		}
	}
	full := lt.at(n + 1)
	if decision := lt.Admit(full); decision.Action != End || decision.Status != event.Failed ||
		decision.Reason != event.OrderFull || full.Work.Place.Position != 0 || lt.paused() {
		t.Fatalf("at the bound the decision is %+v", decision)
	}
	other := lt.at(n + 1)
	other.Work.Dest = "other"
	for _, delivery := range []*Delivery{other, lt.at(n)} {
		if decision := lt.Admit(delivery); decision.Status == event.Failed {
			t.Errorf("position %d of %s fails", delivery.Work.Place.Position, delivery.Work.Dest)
		}
	}
	lt.part.ID.Topic = "retry.10s"
	if decision := lt.Admit(lt.at(n + 1)); decision.Status == event.Failed {
		t.Error("a delivery from a retry topic fails")
	}
	lt.part.ID.Topic = stream.Events
	for position := range n / 2 {
		lt.EndPlace(lt.at(position + 1))
	}
	if decision := lt.Admit(lt.at(n + 2)); decision.Status == event.Failed {
		t.Error("there is room again, and it fails")
	}
}

// However many other destinations are at their bound, each gets minPositions. Many keys cost more than many positions.
func TestEachDestinationHasPositions(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.maxPositions = 0
	lt.part.ID.Topic = stream.Events
	n := 0
	for {
		delivery := lt.at(int64(n) + 1)
		delivery.Work.Place.Slot = uint64(n)
		if lt.Admit(delivery).Status == event.Failed {
			break
		}
		n++
	}
	if most := minPositions/slotCost + 1; n < most/2 || n > most {
		t.Errorf("%d keys have room", n)
	}
	for _, o := range lt.orders {
		for key := range o.dests["ordered"].slots {
			lt.EndPlace(&Delivery{Slot: &testSlot{lt.part}, Work: &event.Work{Dest: "ordered",
				Place: event.Place{Slot: key, Position: o.dests["ordered"].slots[key].positions[0]}}})
		}
	}
	if lt.positions != 0 || lt.slots != 0 {
		t.Errorf("%d positions in %d slots are left", lt.positions, lt.slots)
	}
}

// What exceeds the bound of wanted deliveries is wanted by the next call.
func TestWantedAreBounded(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	for slot := range uint64(maxWanted/2 + 100) { // with two each that do not wait in memory
		at := func(position int64) *Delivery {
			delivery := lt.at(position)
			delivery.Work.Place.Slot, delivery.Size = slot, 1
			return delivery
		}
		lt.AddPlace(at(1))
		lt.AddPlace(at(3))
		lt.Admit(at(2))
		lt.EndPlace(at(1))
	}
	for _, want := range []int{maxWanted, 200, 0} {
		if wanted, _ := lt.Wanted(); len(wanted[0]) != want {
			t.Fatalf("%d are wanted, not %d", len(wanted[0]), want)
		}
	}
}

// A replay lets the next delivery of its event's key go, found by the event.
func TestUnblockFindsTheKey(t *testing.T) {
	lt := newLaneTest(t, 100)
	first, next := lt.at(1), lt.at(2)
	lt.Admit(first)
	lt.Admit(next)
	l := lt.byDest["ordered"]
	lt.next(l, nil, NotSent)
	lt.Unblock(0, &event.Work{Event: next.Work.Event, Dest: "ordered"}) // not the first one
	must.Equal(t, l.live.Len(), 0, "the second one overtakes")
	lt.Unblock(0, first.Work)
	if l.live.Len() != 1 || len(lt.orders[0].dests["ordered"].firsts) != 1 {
		t.Error("the second one does not go")
	}
	lt.EndPlace(next)
	is.Equal(t, len(lt.orders[0].dests), 0, "the order of the destination is left")
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
	is.Equal(t, lt.byDest["ordered"].deliveries, maxHeld+1, "are in the lane")
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
