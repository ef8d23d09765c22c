package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// expireMembership makes the group expel its member, as a broker does that was unreachable for longer than the session
// timeout.
func (w *bubbleWorld) expireMembership() {
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.UnknownMemberID})
}

// The member is expelled with hundreds of records done and not committed, more whose outcomes are not accepted yet,
// and one hanging request. When the partitions return, it repeats only that request, and the offsets reach the end of
// the log.
func TestCompletedRecordsOfLostPartitionsAreNotRepeated(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		s.answer = func(_ int, r received) int {
			switch {
			case string(r.body) == "hung":
				time.Sleep(12 * time.Second)
			case string(r.body) == "again" && r.header.Get("Relay-Attempt") == "1":
				return 500
			}
			return 200
		}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		acceptCommits := w.refuse(kmsg.OffsetCommit, stream.Events)
		d, _ := w.start(testConfig())
		const quick = 300
		for i := range quick / 2 {
			w.accept(w.newEvent(fmt.Sprint(i)))
		}
		w.accept(w.newEvent("hung"), w.newEvent("again"))
		for i := range quick / 2 {
			w.accept(w.newEvent(fmt.Sprint(quick/2 + i)))
		}
		w.outcomes(count(quick+1, event.Delivered)) // including the retry of the one that failed
		acceptOutcomes := w.refuse(kmsg.Produce, stream.Outcomes)
		for i := range quick {
			w.accept(w.newEvent(fmt.Sprint(quick + i)))
		}
		time.Sleep(time.Second)
		before := d.assignment.partition(stream.Partition{Topic: stream.Events})
		w.expireMembership()
		time.Sleep(2 * time.Second)
		acceptOutcomes()
		acceptCommits()
		time.Sleep(30 * time.Second)
		after := d.assignment.partition(stream.Partition{Topic: stream.Events})
		if after == nil || after == before {
			t.Fatal("the partition was not lost and assigned again")
		}
		times := map[string]int{}
		for _, r := range s.all() {
			times[string(r.body)]++
		}
		for body, n := range times {
			if want := map[string]int{"hung": 2, "again": 2}[body]; n != max(want, 1) {
				t.Errorf("%q: %d requests", body, n)
			}
		}
		is.Equal(t, len(times), 2*quick+2, "events arrived")
		if n := w.committed(stream.Partition{Topic: stream.Events}); n != 2*quick+2 {
			t.Errorf("committed %d of %d", n, 2*quick+2)
		}
		if after.predecessor != nil || before.predecessor != nil || len(d.assignment.lost) != 0 {
			t.Error("what is of no use any more is still remembered")
		}
	})
}

// Only a record counts as done that was read here, is done, and has the same leader epoch; after a truncation none
// does.
func TestLostPartitionsRecogniseOnlyTheSameRecords(t *testing.T) {
	group := &pauses{}
	at := stream.Partition{Topic: stream.Events}
	old := must.Get(newPartition(at, 0, group, &tierMemory{}, func() {}, stream.Commit{Offset: 100, LeaderEpoch: 3}))(t)
	slots := map[int64]*slot{}
	for o := int64(110); o < 120; o++ { // the log skips 100 … 109
		slots[o] = old.beginRecord(o, 3)
	}
	for o := int64(120); o < 130; o++ {
		slots[o] = old.beginRecord(o, 4)
	}
	for _, o := range []int64{110, 111, 115, 121, 129} {
		slots[o].deliveryDone()
	}
	old.stop()
	slots[122].deliveryDone() // completes after the partition was lost
	fresh := func() *partition {
		p, err := newPartition(at, 0, group, &tierMemory{}, func() {}, stream.Commit{Offset: 90, LeaderEpoch: 2})
		if err != nil {
			t.Fatal(err)
		}
		p.inherit(old)
		return p
	}
	f := func(name string, epochs func(int64) int32, want ...int64) {
		t.Helper()
		p := fresh()
		var skipped []int64
		for o := int64(90); o < 140; o++ {
			if p.beginRecord(o, epochs(o)) == nil {
				skipped = append(skipped, o)
			}
		}
		if fmt.Sprint(skipped) != fmt.Sprint(want) {
			t.Errorf("%s: skipped %v, want %v", name, skipped, want)
		}
		if p.predecessor != nil {
			t.Errorf("%s: remembers beyond its end", name)
		}
	}
	f("the same log", func(o int64) int32 {
		if o < 120 {
			return 3
		}
		return 4
	}, 110, 111, 115, 121, 122, 129)
	f("cut off at 115", func(o int64) int32 {
		if o < 115 {
			return 3
		}
		return 5
	}, 110, 111)
	f("no epochs", func(int64) int32 { return -1 })

	a := newAssignment()
	a.rememberLost([]*partition{old})
	if a.forgetLost(at); len(a.lost) != 0 {
		t.Error("a partition whose log was cut off is remembered")
	}
}
