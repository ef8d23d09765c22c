package lane

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A second record of a delivery that is queued, sent or being recorded ends without an outcome, whether it was parked
// or not, or waited because the configuration could not be read. The event itself, of which the log has one record, is
// not looked up. Once the first record is recorded, it is forgotten.
func TestCopiesEnd(t *testing.T) {
	f := func(work event.Work, want Action) {
		t.Helper()
		lt := newLaneTest(t, 100)
		work.Event, work.Dest = &event.Event{ID: id.ID{1}}, "d"
		admit := func(work event.Work) Decision {
			return lt.Admit(&Delivery{Slot: &testSlot{lt.part}, Work: &work, Size: 1000})
		}
		must.Equal(t, admit(work).Action, Queued, "%+v: action", work)
		decision := admit(work)
		if decision.Action != want || decision.Status != "" {
			t.Errorf("%+v: action %d, status %q, want %d", work, decision.Action, decision.Status, want)
		}
		if want != End {
			return
		}
		lt.Release(decision.Delivery)
		work.Attempt++
		is.Equal(t, admit(work).Action, End, "%+v: action … of another attempt", work)
		work.Run += "2"
		is.Equal(t, admit(work).Action, Queued, "%+v: action … of another run", work)
		l := lt.byDest["d"]
		sent := l.Next(t.Context(), Result{})
		work.Run = sent.Delivery.Work.Run
		is.Equal(t, admit(work).Action, End, "%+v: action … while the request runs", work)
		lt.ForgetCopies(sent.Delivery)
		is.Equal(t, admit(work).Action, Queued, "%+v: action … of its follow-up", work)
		lt.Release(sent.Delivery)
		is.Equal(t, admit(work).Action, End,
			"%+v: action … after the first was recorded, while its follow-up waits", work)
		for next := l.Next(t.Context(), Result{Delivery: sent.Delivery}); next.Action == Send; {
			lt.Release(next.Delivery)
			next = l.Next(t.Context(), Result{Delivery: next.Delivery})
		}
		is.Equal(t, admit(work).Action, Queued, "%+v: action … after all were recorded", work)
	}
	f(event.Work{Run: "run_1", Attempt: 1}, End)
	f(event.Work{Run: "run_1", Attempt: 1, Parked: event.Paced}, End)
	f(event.Work{Run: "rec_1", Attempt: 2}, End)
	f(event.Work{Attempt: 2}, End)
	f(event.Work{Attempt: 1, Parked: event.LaneFull}, End)
	f(event.Work{Attempt: 1, ReportedNextAt: time.UnixMilli(1)}, End)
	f(event.Work{Attempt: 1}, Queued)
}

// While a request runs, its partition is lost and returns: its record is read again. It is no copy, because it would be
// the last record of the delivery.
func TestRecordReadAgainIsNoCopy(t *testing.T) {
	lt := newLaneTest(t, 100)
	work := &event.Work{Event: &event.Event{ID: id.ID{1}}, Dest: "d", Run: "run_1", Attempt: 1}
	admit := func() Decision { return lt.Admit(&Delivery{Slot: &testSlot{lt.part}, Work: work, Size: 1000}) }
	lost := lt.part
	admit()
	sent := lt.byDest["d"].Next(t.Context(), Result{})
	lost.left = true
	lt.DropPartitions([]*Partition{&lost.Partition})
	lt.part = lt.newPartition()
	is.Equal(t, admit().Action, Queued, "action")
	lt.Release(sent.Delivery)
	is.Equal(t, admit().Action, End, "action … of a second record")
	lt.DropPartitions([]*Partition{&lt.part.Partition})
	is.Equal(t, len(lt.unrecorded), 0, "deliveries are remembered")
}

// A delivery that its lane does not take, and whose partition has left the node, is not remembered.
func TestDroppedDeliveryIsForgotten(t *testing.T) {
	lt := newLaneTest(t, 100)
	delivery := &Delivery{Slot: &testSlot{lt.part}, Size: 1000,
		Work: &event.Work{Event: &event.Event{ID: id.ID{1}}, Dest: "d", Attempt: 2}}
	lt.laneOf(delivery, lt.now).breaker = breaker{openFor: time.Minute, openUntil: lt.now.Add(time.Minute)}
	lt.part.left = true
	is.Equal(t, lt.Admit(delivery).Action, Dropped, "action")
	is.Equal(t, len(lt.unrecorded), 0, "deliveries are remembered")
}

// A delivery of which two records were parked is no longer parked once one of them is queued and the other has ended.
func TestParkedCopyCountsAsReturned(t *testing.T) {
	lt := newLaneTest(t, 100)
	record := func(work event.Work) *Delivery { return &Delivery{Slot: &testSlot{lt.part}, Work: &work, Size: 1000} }
	work := event.Work{Event: &event.Event{ID: id.ID{1}}, Dest: "d", Run: "run_1", Attempt: 1}
	for range 2 {
		decision := lt.parkOne(record(work), event.LaneFull)
		work.Parked, work.ParkedBy = decision.Reason, decision.ParkedBy
	}
	for i, want := range []Action{Queued, End} {
		decision := lt.Admit(record(work))
		if parked := lt.byDest["d"].parking.total; decision.Action != want || parked != 1-i {
			t.Errorf("record %d: action %d, want %d; %d are parked, want %d", i, decision.Action, want, parked, 1-i)
		}
	}
	is.Equal(t, lt.lanesParked, 0, "lanes have parked deliveries")
}
