package dispatcher

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// hang makes the log answer no request of one kind until the returned function is called.
func (w *bubbleWorld) hang(key kmsg.Key) (answer func()) {
	over := make(chan struct{})
	w.cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		w.cluster.SleepControl(func() { <-over })
		return nil, nil, false
	})
	return func() { close(over) }
}

// While a request and the commits hang, releasing partitions takes a bounded time: the group expels a member after 30
// s. A loss waits for the running commit, which is bounded too.
func TestReleaseIsBounded(t *testing.T) {
	for name, f := range map[string]struct {
		limit time.Duration
		leave func(*Dispatcher)
	}{
		"revoked": {revokeTimeout + commitTimeout,
			func(d *Dispatcher) { d.ownership.release(context.Background(), d.assignment.all(), revokeTimeout) }},
		"lost": {commitTimeout, func(d *Dispatcher) { d.ownership.lose(d.assignment.all()) }},
	} {
		t.Run(name, func(t *testing.T) {
			kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{answer: func(_ int, r received) int {
					if string(r.body) == "slow" {
						time.Sleep(50 * time.Second)
					}
					return 200
				}}
				url, _ := w.serve(80, s)
				endpoint := w.endpoint(url)
				endpoint.Destinations[0].TimeoutSeconds = 60
				d, _ := w.start(testConfig())
				w.accept(w.newEvent("quick"))
				w.outcomes(count(1))
				answer := w.hang(kmsg.OffsetCommit)
				w.accept(w.newEvent("slow"), w.newEvent("quick"))
				w.outcomes(count(2))
				time.Sleep(2 * time.Second) // a commit is running, now and again when the wait for the request is over
				began := time.Now()
				f.leave(d)
				if took := time.Since(began); took > f.limit {
					t.Errorf("took %v, at most %v", took, f.limit)
				}
				is.Equal(t, len(d.assignment.all()), 0, "partitions are left")
				answer()
				time.Sleep(time.Minute) // until the handler has returned
			})
		})
	}
}

// When brokers accept less metadata than usual, the offset is committed alone, and a metric counts it.
func TestCommitWithoutGaps(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize} {
		t.Run(refusal.Message, func(t *testing.T) {
			kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{answer: func(n int, r received) int {
					if string(r.body) == "slow" {
						time.Sleep(10 * time.Second)
					}
					return 200
				}}
				url, _ := w.serve(80, s)
				w.endpoint(url)
				w.cluster.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "t." + stream.Events, Err: refusal, Count: -1,
					When: func(req kmsg.Request) bool {
						for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
							for _, p := range t.Partitions {
								if p.Metadata != nil && *p.Metadata != "" {
									return true
								}
							}
						}
						return false
					},
				})
				w.start(testConfig())
				w.accept(w.newEvent("1"), w.newEvent("slow"), w.newEvent("2"))
				w.outcomes(count(2, event.Delivered))
				time.Sleep(time.Second)
				is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 1, "committed")
				if w.metric("relay_dispatch_commits_without_gaps_total", "") == 0 ||
					w.metric("relay_dispatch_commit_errors_total", "") != 0 {
					t.Error("the metrics do not count commits without gaps, or count failures")
				}
				time.Sleep(15 * time.Second)
				if n := w.committed(stream.Partition{Topic: stream.Events}); n != 3 || len(s.all()) != 3 {
					t.Errorf("committed %d, want 3; %d requests", n, len(s.all()))
				}
				counted := w.metric("relay_dispatch_commits_without_gaps_total", "")
				for i := range 20 {
					w.accept(w.newEvent(fmt.Sprint(i)))
					time.Sleep(200 * time.Millisecond)
				}
				is.Equal(t, w.metric("relay_dispatch_commits_without_gaps_total", ""), counted,
					"commits that need no metadata are counted as well")
			})
		})
	}
}

// Thousands of records finish out of order while the first hangs and every third is unfinished. Whether the partition
// is released in order or its owner dies, the next owner repeats no finished record and skips no unfinished one. Where
// more gaps exist than fit into a commit, it repeats exactly as many as the metric has counted.
func TestNextOwnerRepeatsNothing(t *testing.T) {
	stop := func(_ *Dispatcher, stop func()) { stop() }
	crash := func(d *Dispatcher, stop func()) {
		time.Sleep(2 * time.Second)          // until a commit
		d.ownership.lose(d.assignment.all()) // and none after it
		stop()
	}
	for name, c := range map[string]struct {
		records, most int64 // and how many finished ones may not fit into a commit
		leave         func(*Dispatcher, func())
	}{
		"given up":           {20_000, 0, stop},
		"crash":              {20_000, 0, crash},
		"given up, too many": {40_000, 12_000, stop},
		"crash, too many":    {40_000, 12_000, crash},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				events := stream.Partition{Topic: stream.Events}
				start := func() (*Dispatcher, *partition, func()) {
					d, stop := w.start(testConfig())
					time.Sleep(10 * time.Second) // until the group has formed
					p := d.assignment.partition(events)
					if p == nil {
						t.Fatal("the partition was not assigned")
					}
					return d, p, stop
				}
				d, p, stop := start()
				var done []*slot
				for o := range c.records {
					if slot := p.beginRecord(o, 0); o%3 != 0 {
						done = append(done, slot)
					}
				}
				for _, i := range kit.Rand(t).Perm(len(done)) {
					done[i].deliveryDone()
				}
				c.leave(d, stop)
				omitted := int64(w.metric("relay_dispatch_commit_omitted_records", ""))
				if omitted > c.most || c.most > 0 && omitted == 0 {
					t.Errorf("the metric counts %d of %d as omitted, want at most %d", omitted, len(done), c.most)
				}

				_, p, _ = start()
				repeated := int64(0)
				for o := range c.records {
					switch again := p.beginRecord(o, 0) != nil; {
					case o%3 == 0 && !again:
						t.Fatalf("offset %d was not done and is skipped", o)
					case o%3 != 0 && again:
						repeated++
					}
				}
				is.Equal(t, repeated, omitted, "of %d are repeated, the metric counted %d", len(done), omitted)
				is.Equal(t, w.committed(events), 0, "committed … the first record hangs")
			})
		})
	}
}

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

// Only a record counts as done that was read and recorded here, and has the same leader epoch; after a truncation none
// does.
func TestLostPartitionsRecogniseOnlyTheSameRecords(t *testing.T) {
	h := &host{group: pauses{}, memory: &tierMemory{}, wake: make(chan struct{}, 1)}
	at := stream.Partition{Topic: stream.Events}
	old := must.Get(newPartition(h, at, 0, stream.Commit{Offset: 100, LeaderEpoch: 3}))(t)
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
		p, err := newPartition(h, at, 0, stream.Commit{Offset: 90, LeaderEpoch: 2})
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

	gaps, _ := stream.EncodeGaps(100, []stream.Gap{{From: 112, To: 114}})
	old = must.Get(newPartition(h, at, 0, stream.Commit{Offset: 100, LeaderEpoch: 3, Metadata: gaps}))(t)
	for o := int64(110); o < 116; o++ {
		if slot := old.beginRecord(o, 3); slot != nil {
			slot.deliveryDone()
		}
	}
	// The owner before may have completed 112 and 113 as copies of records that it had not recorded.
	f("completed by the owner before", func(int64) int32 { return 3 }, 114, 115)

	a := newAssignment()
	a.rememberLost([]*partition{old})
	if a.forgetLost(at); len(a.lost) != 0 {
		t.Error("a partition whose log was cut off is remembered")
	}
}

// 40,000 retries of one partition wait in the log, a million with RELAY_TORTURE: the memory of the node does not grow
// with their number. It is measured while all wait and while they are sent, 500 a second. None is early, none is left.
func TestAMillionPendingInLittleMemory(t *testing.T) {
	pending, most := 40_000, 25<<20
	if testing.Short() {
		pending = 20_000
	}
	if full() {
		pending, most = 1_000_000, 50<<20
	}
	const (
		gap   = 2 * time.Millisecond
		until = 30 * time.Minute // when the first is due
		tier  = "retry.1h"
	)
	endpoint := simEndpoint("ep_1", "dst_1")
	endpoint.Destinations[0].MaxInFlight = 200
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		start := time.Now().Add(until)
		due := func(i int) time.Time { return start.Add(time.Duration(i) * gap) }
		var delivered, early atomic.Int64
		s.answer = func(_ string, now time.Time) (time.Duration, int) {
			if n := int(delivered.Add(1)); now.Before(due(n - 1)) {
				early.Add(1)
			}
			return 50 * time.Millisecond, 200
		}
		base := heapInUse()
		s.deepen(tier, pending, func(i int) *stream.Record {
			eventID, err := s.ids.New(0)
			is.OK(t, err)
			work := &event.Work{
				Event: &event.Event{
					ID: eventID, Account: endpoint.Account, Endpoint: endpoint.ID, Source: event.SourceProvider,
					Verdict: event.VerdictVerified,
					Type:    "order.created", Method: http.MethodPost, Body: make([]byte, 1000),
				},
				Dest: "dst_1", Trigger: event.TriggerRetry, Attempt: 2, Due: due(i),
			}
			record, err := work.Record()
			if err != nil {
				t.Error(err)
				return nil
			}
			record.Timestamp = work.Due.Add(-time.Hour)
			return record
		})
		time.Sleep(until / 2)
		held := heapInUse() - base
		is.Equal(t, delivered.Load(), 0, "were delivered long before they are due")
		for i := range 10 {
			time.Sleep(time.Until(due(pending * (i + 1) / 10)))
			held = max(held, heapInUse()-base)
			s.memory("while they fire")
		}
		time.Sleep(time.Minute)
		if n := delivered.Load(); n != int64(pending) || early.Load() > 0 || s.open() != 0 {
			t.Errorf("%d of %d were delivered, %d early; %d records are not committed", n, pending, early.Load(), s.open())
		}
		t.Logf("%d pending: at most %.1f MB held", pending, float64(held)/(1<<20))
		if held > most {
			t.Errorf("%d bytes are held of %d pending, at most %d may be", held, pending, most)
		}
	})
}

// heapInUse is how many bytes of the heap are in use.
func heapInUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
