package alert

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// says is a record of now, which the rig is not handed yet.
func (r *rig) says(e id.ID, status event.Status, reason event.Reason, attempt *event.Attempt) *stream.Record {
	rec := (&event.Outcome{Event: e, Account: testAccount, Endpoint: testEndpoint, Dest: testDest, Status: status,
		Reason: reason, At: time.Now(), Attempt: attempt}).Record()
	rec.Topic, rec.Offset, rec.Timestamp = stream.Outcomes, r.offset, time.Now()
	r.offset++
	return rec
}

// reads hands records over that were said before.
func (r *rig) reads(records ...*stream.Record) {
	r.t.Helper()
	if err := r.take(r.t.Context(), stretch{testOutcomes, records}, map[stream.Partition]stream.Commit{}); err != nil {
		r.t.Fatal(err)
	}
}

// What is read long after it was said is judged as of then: it came to a good end in records that follow.
func TestWhatIsReadLate(t *testing.T) {
	late := func(t *testing.T, unread bool) {
		bubble(t, func(r *rig) {
			r.only(func(rules *config.AlertRules) {
				rules.BacklogAge = config.AlertAgeRule{Enabled: true, Seconds: 300}
				rules.DestinationState.Enabled = true
			})
			e := r.ids.Next(0)
			failed := r.says(e, event.Retrying, "", r.attempt(false))
			held := r.says(e, event.Held, event.BreakerOpen, nil)
			time.Sleep(time.Second)
			done := r.says(e, event.Delivered, "", r.attempt(true))
			waits := r.ids.Next(0)
			retried := r.says(waits, event.Retrying, "", r.attempt(false))
			time.Sleep(10 * time.Minute)
			r.books[0].end[stream.Outcomes] = r.offset
			if unread {
				r.passes(2 * time.Second) // nothing is known of the partition
				r.reads(failed, held)
				r.passes(2 * time.Second)
				r.reads(done)
				r.passes(2 * time.Second)
				r.wants(backlogAge)
				r.reads(retried)
			} else {
				r.reads(failed, held, done, retried)
			}
			r.wants(backlogAge)
			r.wants(destinationHeld)
			r.passes(time.Second) // all is read: this one does wait
			r.wants(backlogAge, "alert.destination.backlog")
		})
	}
	t.Run("at once", func(t *testing.T) { late(t, false) })
	t.Run("piece by piece", func(t *testing.T) { late(t, true) })
}

// A beat told that a delivery waits for long; what was said just before it is read just after it and is no good news.
func TestWhatIsReadBehindABeat(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.BacklogAge = config.AlertAgeRule{Enabled: true, Seconds: 300} })
		r.delivers(noEvent)
		waits := r.outcome(noEvent, event.Retrying, "", r.attempt(false))
		time.Sleep(299*time.Second + 900*time.Millisecond)
		late := r.says(r.ids.Next(0), event.Delivered, "", r.attempt(true))
		r.passes(200 * time.Millisecond)
		r.wants(backlogAge, "alert.destination.backlog")
		r.reads(late)
		r.wants(backlogAge, "alert.destination.backlog")
		r.delivers(waits)
		r.wants(backlogAge, "alert.destination.backlog", "alert.destination.backlog.resolved")
	})
}

// An outcome that is more than a day old is told of by nobody, later either.
func TestWhatIsReadADayLate(t *testing.T) {
	bubble(t, func(r *rig) {
		r.only(func(rules *config.AlertRules) { rules.DeliveryFailed.Enabled = true })
		old := r.says(r.ids.Next(0), event.Failed, event.NotRetryable, r.attempt(false))
		time.Sleep(tooOld)
		r.reads(old)
		r.passes(10 * time.Second)
		r.wants(deliveryFailed)
		young := r.says(r.ids.Next(0), event.Failed, event.NotRetryable, r.attempt(false))
		time.Sleep(tooOld - time.Minute)
		r.reads(young)
		r.wants(deliveryFailed, "alert.delivery.failed")
	})
}

// Records that were put back for another group were judged when they first came.
func TestPictureHasNoCopies(t *testing.T) {
	r, cluster, _ := rigOnLog(t, 10)
	producer, err := stream.NewProducer(stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "relay."}, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	rec := r.says(r.ids.Next(0), event.Failed, event.NotRetryable, r.attempt(false))
	rec.Headers = append(rec.Headers, stream.Header{Key: stream.HeaderOnlyGroup, Value: []byte(stream.StoreGroup)})
	if err := producer.ProduceSync(t.Context(), stream.Outcomes, 0, rec); err != nil {
		t.Fatal(err)
	}
	if err := r.lookBack(t.Context(), map[stream.Partition]stream.Commit{testOutcomes: {Offset: 11}},
		map[stream.Partition]*stream.Range{}); err != nil {
		t.Fatal(err)
	}
	if k := r.books[0].tracks[testDest]; k.failures != 10 || k.failed != "" {
		t.Errorf("%d failures in a row, failed for good by %q", k.failures, k.failed)
	}
}

// A log that lost its end, or was made anew, ends before what was judged.
func TestPictureOfALogThatLostItsEnd(t *testing.T) {
	r, _, _ := rigOnLog(t, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.lookBack(ctx, map[stream.Partition]stream.Commit{testOutcomes: {Offset: 25}},
		map[stream.Partition]*stream.Range{}); err != nil {
		t.Fatal(err)
	}
	if n := r.books[0].tracks[testDest].failures; n != 10 {
		t.Errorf("%d failures in a row", n)
	}
}

// Nothing is committed for a partition that others have: not what is left of it here, and it is not given away while
// a commit is under way.
func TestCommitOfLostPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, conf := logInBubble(t)
		r := newRig(t)
		group, err := stream.NewGroup(
			conf, stream.GroupConfig{
				Name: stream.AlertGroup, Topics: []string{stream.Outcomes}, Assigned: r.assigned, Lost: r.lost})
		if err != nil {
			t.Fatal(err)
		}
		defer group.Close()
		r.group = group
		joining, joined := context.WithTimeout(t.Context(), 10*time.Second)
		group.Poll(joining, func(stream.Partition, []*stream.Record) {})
		joined()
		if len(r.arrived) != 1 {
			t.Fatalf("%v arrived", r.arrived)
		}
		ours := func() map[stream.Partition]stream.Commit {
			return map[stream.Partition]stream.Commit{testOutcomes: {Offset: 7}}
		}
		committed := func() int64 {
			reader, err := stream.NewReader(conf, "test")
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			done, err := reader.Committed(t.Context(), stream.AlertGroup, stream.Outcomes)
			if err != nil {
				t.Fatal(err)
			}
			return done[testOutcomes]
		}
		r.commit(t.Context(), ours()) // of an assignment before
		if n := committed(); n != 0 {
			t.Errorf("committed %d for a partition that has just come", n)
		}
		clear(r.arrived)

		asked, answer := make(chan struct{}), make(chan struct{})
		var once sync.Once
		cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			once.Do(func() { close(asked) })
			<-answer
			return nil, nil, false
		})
		go r.commit(t.Context(), ours())
		<-asked
		if r.mu.TryLock() { // lost takes it
			t.Error("the partition can be given away while a commit is under way")
			r.mu.Unlock()
		}
		close(answer)
		r.lost([]stream.Partition{testOutcomes})
		if n := committed(); n != 7 {
			t.Errorf("committed %d", n)
		}
		later := map[stream.Partition]stream.Commit{testOutcomes: {Offset: 9}}
		r.commit(t.Context(), later)
		if n := committed(); n != 7 || len(later) > 0 {
			t.Errorf("committed %d of a partition that is lost", n)
		}
	})
}
