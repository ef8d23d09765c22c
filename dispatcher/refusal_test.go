package dispatcher

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// refuse makes the log refuse requests of one kind until the returned function is called.
func (w *bubbleWorld) refuse(key kmsg.Key, topic string) (accept func()) {
	return w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{key}, Topic: "t." + topic, Err: kerr.TopicAuthorizationFailed, Count: -1,
	}).Remove
}

// While the log does not accept the outcome, nothing is committed. Then the outcome is produced again.
func TestOutcomeIsRetriedUntilProduced(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		accept := w.refuse(kmsg.Produce, stream.Outcomes)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		time.Sleep(10 * time.Second)
		if n := w.committed(stream.Partition{Topic: stream.Events}); n != -1 || len(s.all()) != 1 {
			t.Errorf("committed %d without an outcome, %d requests", n, len(s.all()))
		}
		if w.metric("relay_dispatch_produce_errors_total", "") < 10 || w.metric("relay_dispatch_in_flight", "") != 1 {
			t.Error("the metrics do not count the rejected outcome")
		}
		accept()
		is.Same(t, statuses(w.outcomes(count(1))), []string{"delivered"})
		w.shut()
		if n := w.committed(stream.Partition{Topic: stream.Events}); n != 1 || len(s.all()) != 1 {
			t.Errorf("committed %d, %d requests", n, len(s.all()))
		}
	})
}

// No outcome reports a retry that is not in the log.
func TestFollowUpComesBeforeItsOutcome(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(n int, _ received) int { return []int{500, 200}[min(n, 2)-1] }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		accept := w.refuse(kmsg.Produce, "retry.1s")
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		time.Sleep(10 * time.Second)
		is.Equal(t, w.cluster.PartitionInfo("t."+stream.Outcomes, 0).HighWatermark, 0, "outcomes before the follow-up")
		accept()
		// The retry is overdue by now, so its outcome may overtake that of the first attempt; readers order by rank.
		got := statuses(w.outcomes(count(2)))
		slices.Sort(got)
		is.Same(t, got, []string{"delivered", "retrying"})
	})
}

// Refused commits cost nothing if a later one succeeds.
func TestCommitIsTriedAgain(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		accept := w.refuse(kmsg.OffsetCommit, stream.Events)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`), w.newEvent(`{}`))
		time.Sleep(5 * time.Second)
		is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), -1, "committed")
		if w.metric("relay_dispatch_commit_errors_total", "") == 0 {
			t.Error("the metrics do not count the rejected commit")
		}
		accept()
		time.Sleep(time.Second)
		is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 2, "committed")
	})
}

// When nothing can be recorded, the node fills its memory and stops reading. Afterwards it continues.
func TestIntakeStopsWhenNothingCanBeRecorded(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		accept := w.refuse(kmsg.Produce, stream.Outcomes)
		cfg := testConfig()
		cfg.MaxInFlight = 100
		d, _ := w.start(cfg)
		const events = 1000
		for i := range events {
			w.accept(w.newEvent(fmt.Sprint(i)))
		}
		time.Sleep(20 * time.Second)
		if held, _ := d.lanes.InMemory(); held < cfg.MaxInFlight || held > cfg.MaxInFlight+maxPollRecords {
			t.Errorf("%d deliveries are held", held)
		}
		if n := len(s.all()); n > cfg.MaxInFlight+maxPollRecords {
			t.Errorf("%d requests that could not be recorded", n)
		}
		accept()
		w.outcomes(count(events, event.Delivered))
		is.Equal(t, len(s.all()), events, "requests for %d events", events)
	})
}

// A member that the group has expelled commits nothing of what it had. It joins again and continues from the committed
// offsets.
func TestLostMembership(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(int, received) int { time.Sleep(8 * time.Second); return 200 }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		var assignments, losses atomic.Int64
		w.start(testConfig(), func(d *Deps) {
			d.OnOwned = func(ps []int32) {
				if len(ps) == 0 {
					losses.Add(1)
				} else {
					assignments.Add(1)
				}
			}
		})
		w.accept(w.newEvent(`{}`), w.newEvent(`{}`))
		time.Sleep(time.Second)
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.UnknownMemberID})
		time.Sleep(10 * time.Second)
		if losses.Load() != 1 || assignments.Load() != 2 {
			t.Fatalf("%d losses, %d assignments", losses.Load(), assignments.Load())
		}
		w.outcomes(count(2, event.Delivered))
		time.Sleep(20 * time.Second)
		if n := len(s.all()); n != 4 {
			t.Errorf("%d requests, want 4: both events were in flight", n)
		}
		is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 2, "committed")
	})
}

// Two destinations of an event are two deliveries: the failure of one does not repeat the other, and the record is
// done when both are.
func TestDestinationsAreIndependent(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		good, bad := &sink{}, &sink{answer: func(n int, _ received) int { return []int{500, 500, 200}[min(n, 3)-1] }}
		goodURL, _ := w.serve(80, good)
		badURL, _ := w.serve(81, bad)
		w.endpoint(goodURL, badURL)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`, "dst_1", "dst_2"))
		all := w.outcomes(count(2, event.Delivered))
		if len(good.all()) != 1 || len(bad.all()) != 3 || len(all) != 4 {
			t.Errorf("%d and %d requests, outcomes %v", len(good.all()), len(bad.all()), statuses(all))
		}
		first, last := bad.all()[0].header, bad.all()[2].header
		if first.Get("Webhook-Id") != last.Get("Webhook-Id") ||
			first.Get("Relay-Delivery-Id") != last.Get("Relay-Delivery-Id") ||
			last.Get("Relay-Attempt") != "3" || first.Get("Relay-Trigger") != "initial" || last.Get("Relay-Trigger") != "retry" {
			t.Errorf("headers of attempts 1 and 3: %v, %v", first, last)
		}
		if good.all()[0].header.Get("Relay-Delivery-Id") == first.Get("Relay-Delivery-Id") {
			t.Error("two destinations share a delivery id")
		}
	})
}
