package alert

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// newOutcome returns a record of an outcome at the current time, without processing it.
func (r *rig) newOutcome(e id.ID, status event.Status, reason event.Reason, attempt *event.Attempt) *stream.Record {
	rec := (&event.Outcome{Event: e, Account: testAccount, Endpoint: testEndpoint, Dest: testDest, Status: status,
		Reason: reason, At: time.Now(), Attempt: attempt}).Record()
	rec.Topic, rec.Offset, rec.Timestamp = stream.Outcomes, r.offset, time.Now()
	r.offset++
	return rec
}

// process processes records that newOutcome returned.
func (r *rig) process(records ...*stream.Record) {
	r.t.Helper()
	must.Do(r.t, r.processBatch(
		r.t.Context(), stream.Batch{Partition: testOutcomes, Records: records},
		map[stream.Partition]stream.Commit{}))
}

// Outcomes that are read late are evaluated at their own timestamp: here the delivery succeeded in a record that
// follows.
func TestLateOutcomesAreEvaluatedAtTheirTime(t *testing.T) {
	late := func(t *testing.T, unread bool) {
		inBubble(t, func(r *rig) {
			r.enableOnly(func(rules *alerting.AlertRules) {
				rules.BacklogAge = alerting.AlertAgeRule{Enabled: true, Seconds: 300}
				rules.DestinationState.Enabled = true
			})
			e := r.ids.NewUnbounded(0)
			failed := r.newOutcome(e, event.Retrying, "", r.attempt(false))
			held := r.newOutcome(e, event.Held, event.BreakerOpen, nil)
			time.Sleep(time.Second)
			done := r.newOutcome(e, event.Delivered, "", r.attempt(true))
			waits := r.ids.NewUnbounded(0)
			retried := r.newOutcome(waits, event.Retrying, "", r.attempt(false))
			time.Sleep(10 * time.Minute)
			r.partitions[0].endAtStart[stream.Outcomes] = r.offset
			if unread {
				r.advance(2 * time.Second) // nothing is known of the partition yet
				r.process(failed, held)
				r.advance(2 * time.Second)
				r.process(done)
				r.advance(2 * time.Second)
				r.wantNotices(backlogAge)
				r.process(retried)
			} else {
				r.process(failed, held, done, retried)
			}
			r.wantNotices(backlogAge)
			r.wantNotices(destinationHeld)
			r.advance(time.Second) // the log is read to its end: this delivery does wait
			r.wantNotices(backlogAge, "alert.destination.backlog")
		})
	}
	t.Run("at once", func(t *testing.T) { late(t, false) })
	t.Run("piece by piece", func(t *testing.T) { late(t, true) })
}

// backlog_age fires at a tick. A success from just before, which is read just after it, does not resolve the alert:
// another delivery still waits.
func TestLateSuccessDoesNotResolveBacklogAge(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) {
			rules.BacklogAge = alerting.AlertAgeRule{Enabled: true, Seconds: 300}
		})
		r.deliver(noEvent)
		waits := r.outcome(noEvent, event.Retrying, "", r.attempt(false))
		time.Sleep(299*time.Second + 900*time.Millisecond)
		late := r.newOutcome(r.ids.NewUnbounded(0), event.Delivered, "", r.attempt(true))
		r.advance(200 * time.Millisecond)
		r.wantNotices(backlogAge, "alert.destination.backlog")
		r.process(late)
		r.wantNotices(backlogAge, "alert.destination.backlog")
		r.deliver(waits)
		r.wantNotices(backlogAge, "alert.destination.backlog", "alert.destination.backlog.resolved")
	})
}

// An outcome that is more than a day old causes no alert, now or later.
func TestOutcomesOlderThanADayAreIgnored(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.enableOnly(func(rules *alerting.AlertRules) { rules.DeliveryFailed.Enabled = true })
		old := r.newOutcome(r.ids.NewUnbounded(0), event.Failed, event.NotRetryable, r.attempt(false))
		time.Sleep(maxOutcomeAge)
		r.process(old)
		r.advance(10 * time.Second)
		r.wantNotices(deliveryFailed)
		young := r.newOutcome(r.ids.NewUnbounded(0), event.Failed, event.NotRetryable, r.attempt(false))
		time.Sleep(maxOutcomeAge - time.Minute)
		r.process(young)
		r.wantNotices(deliveryFailed, "alert.delivery.failed")
	})
}

// Records that were put back for another consumer group are copies: the original was processed before.
func TestRebuildSkipsCopies(t *testing.T) {
	r, cluster, _ := rigOnLog(t, 10)
	producer := must.Get(stream.NewProducer(stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "relay."}, "test"))(t)
	defer producer.Close()
	rec := r.newOutcome(r.ids.NewUnbounded(0), event.Failed, event.NotRetryable, r.attempt(false))
	rec.Headers = append(rec.Headers, stream.Header{Key: stream.HeaderOnlyGroup, Value: []byte(stream.StoreGroup)})
	must.Do(t, producer.ProduceSync(t.Context(), stream.Outcomes, 0, rec))
	must.Do(t, r.rebuild(t.Context(), map[stream.Partition]stream.Commit{testOutcomes: {Offset: 11}},
		map[stream.Partition]*stream.Range{}))
	if k := r.partitions[0].destinations[testDest]; k.failures != 10 || k.failedReason != "" {
		t.Errorf("%d failures in a row, failed for good by %q", k.failures, k.failedReason)
	}
}

// A log that lost its end, or was recreated, ends before the committed offset.
func TestRebuildFromATruncatedLog(t *testing.T) {
	r, _, _ := rigOnLog(t, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must.Do(t, r.rebuild(ctx, map[stream.Partition]stream.Commit{testOutcomes: {Offset: 25}},
		map[stream.Partition]*stream.Range{}))
	is.Equal(t, r.partitions[0].destinations[testDest].failures, 10, "failures in a row")
}

// No offset is committed for a partition that another node owns, and no partition is revoked during a commit.
func TestLostPartitionsAreNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, conf := logInBubble(t)
		r := newRig(t)
		group := must.Get(stream.NewGroup(
			conf, stream.GroupConfig{
				Name: stream.AlertGroup, Topics: []string{stream.Outcomes}, Assigned: r.onAssigned, Lost: r.onLost}))(t)
		defer group.Close()
		r.group = group
		joining, joined := context.WithTimeout(t.Context(), 10*time.Second)
		group.Poll(joining, func(stream.Partition, []*stream.Record) {})
		joined()
		must.Equal(t, len(r.newlyAssigned), 1, "%v arrived", r.newlyAssigned)
		ours := func() map[stream.Partition]stream.Commit {
			return map[stream.Partition]stream.Commit{testOutcomes: {Offset: 7}}
		}
		committed := func() int64 {
			reader := must.Get(stream.NewReader(conf, "test"))(t)
			defer reader.Close()
			done := must.Get(reader.Committed(t.Context(), stream.AlertGroup, stream.Outcomes))(t)
			return done[testOutcomes]
		}
		r.commit(t.Context(), ours()) // commits of an earlier assignment
		is.Equal(t, committed(), 0, "committed … for a partition that was just assigned")
		clear(r.newlyAssigned)

		asked, answer := make(chan struct{}), make(chan struct{})
		var once sync.Once
		cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			once.Do(func() { close(asked) })
			<-answer
			return nil, nil, false
		})
		go r.commit(t.Context(), ours())
		<-asked
		if r.mu.TryLock() { // onLost would lock it
			t.Error("the partition can be revoked during a commit")
			r.mu.Unlock()
		}
		close(answer)
		r.onLost([]stream.Partition{testOutcomes})
		is.Equal(t, committed(), 7, "committed")
		later := map[stream.Partition]stream.Commit{testOutcomes: {Offset: 9}}
		r.commit(t.Context(), later)
		if n := committed(); n != 7 || len(later) > 0 {
			t.Errorf("committed %d of a partition that is lost", n)
		}
	})
}
