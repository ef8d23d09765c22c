package alert

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// After a restart the state is rebuilt without announcing anything again, and outcomes from in between are evaluated.
// Rejected events are counted across the restart too.
func TestRunContinuesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen)))(t)
		t.Cleanup(func() {
			cluster.Close()
			synctest.Wait()
		})
		conf := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "relay.", DialFunc: network.DialContext}
		must.Get(stream.Migrate(t.Context(), conf, 2, 1))(t)
		producer := must.Get(stream.NewProducer(conf, "test"))(t)
		t.Cleanup(producer.Close)
		k := testKeyring(t)
		m, o := newFakeConfig(k), &fakeSender{}
		m.endpoint.Partition = 1
		writer := rigOn(t, "writer", k, m, o)
		writer.enableOnly(func(rules *alerting.AlertRules) {
			rules.Recovery.Enabled = true
			rules.ConsecutiveFailures, rules.VerificationFailed = alerting.AlertThresholdRule{Enabled: true, Threshold: 6},
				alerting.AlertThresholdRule{Enabled: true, Threshold: 4}
		})
		m.jobs = []*jobs.Recovery{
			{Meta: entity.Meta{ID: "rec_1"}, Endpoint: testEndpoint, State: jobs.RecoveryCompleted, FinishedAt: time.Now()}}
		produceOutcome := func(ok bool) {
			t.Helper()
			e := must.Get(writer.ids.New(1))(t)
			out := event.Outcome{Event: e, Endpoint: testEndpoint, Dest: testDest, Status: event.Retrying, At: time.Now(),
				Attempt: writer.attempt(ok)}
			if ok {
				out.Status = event.Delivered
			}
			must.Do(t, producer.ProduceSync(t.Context(), stream.Outcomes, 1, out.Record()))
		}
		reject := func() {
			t.Helper()
			e := must.Get(writer.ids.New(1))(t)
			rejected := event.Event{ID: e, Endpoint: testEndpoint, Verdict: event.VerdictRejected}
			must.Do(t, producer.ProduceSync(t.Context(), stream.Events, 1, rejected.Record()))
		}
		run := func() (stop func()) {
			r := rigOn(t, "a", k, m, o)
			r.partitions = map[int32]*partitionState{}
			r.deps.Stream = conf
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				is.OK(t, r.Run(ctx))
			})
			return func() {
				cancel()
				all.Wait()
			}
		}
		reader := must.Get(stream.NewReader(conf, "test"))(t)
		t.Cleanup(reader.Close)
		committed := func(n int64) {
			t.Helper()
			until(t, func() bool {
				done, err := reader.Committed(t.Context(), stream.AlertGroup, stream.Outcomes)
				return err == nil && done[stream.Partition{Topic: stream.Outcomes, Index: 1}] == n
			})
		}
		const jobEnded = "alert.recovery.ended" // is sent whenever the account rules run
		wantSent := func(types ...string) {
			t.Helper()
			have := func() []string {
				return slices.DeleteFunc(o.types(notify.Webhook), func(kind string) bool { return kind == jobEnded })
			}
			until(t, func() bool { return len(have()) >= len(types) })
			must.List(t, have(), types, "sent")
		}
		for range 4 {
			produceOutcome(false)
		}
		for range 3 {
			reject()
		}
		stop := run()
		committed(4)
		stop()
		produceOutcome(false) // while no node evaluates
		stop = run()
		committed(5)
		wantSent()
		produceOutcome(false)
		wantSent("alert.destination.failing")
		reject()
		wantSent("alert.destination.failing", "alert.endpoint.verification_failed")
		committed(6)
		stop()
		stop = run()
		produceOutcome(false)
		committed(7)
		produceOutcome(true)
		wantSent("alert.destination.failing", "alert.endpoint.verification_failed", "alert.destination.failing.resolved")
		until(t, func() bool { return slices.Contains(o.types(notify.Webhook), jobEnded) })
		stop()
	})
}

func until(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not become true within two minutes")
		}
	}
}

var testOutcomes = stream.Partition{Topic: stream.Outcomes}

// rigOnLog returns a rig with a log that has failed attempts of ten events with response bodies of answer bytes, and
// when each was written.
func rigOnLog(t *testing.T, answer int) (*rig, *kfake.Cluster, []time.Time) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	must.Do(t, err)
	t.Cleanup(cluster.Close)
	conf := stream.Config{Brokers: cluster.ListenAddrs(), Prefix: "relay."}
	if _, err := stream.Migrate(t.Context(), conf, 1, 1); err != nil {
		t.Fatal(err)
	}
	producer, err := stream.NewProducer(conf, "test")
	must.Do(t, err)
	t.Cleanup(producer.Close)
	r := newRig(t)
	if r.reader, err = stream.NewReader(conf, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.reader.Close)
	var written []time.Time
	for range 10 {
		e := must.Get(r.ids.New(0))(t)
		attempt := r.attempt(false)
		attempt.ResponseBody = make([]byte, answer)
		rec := (&event.Outcome{Event: e, Endpoint: testEndpoint, Dest: testDest, Status: event.Retrying, At: time.Now(),
			Attempt: attempt}).Record()
		must.Do(t, producer.ProduceSync(t.Context(), stream.Outcomes, 0, rec))
		written = append(written, rec.Timestamp)
	}
	return r, cluster, written
}

// refused returns the answer to a fetch that no retry can repair.
func refused(req kmsg.Request) kmsg.Response {
	asked := req.(*kmsg.FetchRequest)
	answer := asked.ResponseKind().(*kmsg.FetchResponse)
	part := kmsg.NewFetchResponseTopicPartition()
	part.ErrorCode = kerr.TopicAuthorizationFailed.Code
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.TopicID, topic.Partitions = asked.Topics[0].Topic, asked.Topics[0].TopicID,
		[]kmsg.FetchResponseTopicPartition{part}
	answer.Topics = append(answer.Topics, topic)
	return answer
}

// State that was rebuilt from a trimmed log knows since when it is complete.
func TestRebuildFromATrimmedLog(t *testing.T) {
	r, _, written := rigOnLog(t, 10)
	unread := map[stream.Partition]*stream.Range{}
	completeSince := func() time.Time {
		t.Helper()
		r.partitions[0] = newPartitionState(0)
		must.Do(t, r.rebuild(t.Context(), map[stream.Partition]stream.Commit{testOutcomes: {Offset: 10}}, unread))
		return r.partitions[0].completeSince
	}
	if at := completeSince(); !at.IsZero() {
		t.Errorf("complete since %v, though nothing was deleted", at)
	}
	must.Do(t, r.reader.Trim(t.Context(), testOutcomes, 6))
	clear(unread)
	if at := completeSince(); at.UnixMilli() != written[6].UnixMilli() {
		t.Errorf("complete since %v, want %v", at, written[6])
	}
}

// A rebuild that failed continues where it stopped: no record counts twice. Records that were trimmed meanwhile are
// unknown.
func TestRebuildContinuesAfterAnError(t *testing.T) {
	f := func(trim int64) {
		t.Helper()
		r, cluster, written := rigOnLog(t, 300<<10)
		fetches := 0
		cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if fetches++; fetches != 2 {
				return nil, nil, false
			}
			return refused(req), nil, true
		})
		arrived, unread := map[stream.Partition]stream.Commit{testOutcomes: {Offset: 10}},
			map[stream.Partition]*stream.Range{}
		if err := r.rebuild(t.Context(), arrived, unread); err == nil {
			t.Fatal("the log was not broken")
		}
		read := unread[testOutcomes].From
		if read == 0 || read >= 7 {
			t.Fatalf("%d records were read of a broken log", read)
		}
		failures := 10
		if trim > 0 {
			must.Do(t, r.reader.Trim(t.Context(), testOutcomes, trim))
			failures = int(read + 10 - trim)
		}
		must.Do(t, r.rebuild(t.Context(), arrived, unread))
		is.Equal(t, r.partitions[0].destinations[testDest].failures, failures,
			"trimmed to %d … failures in a row", trim)
		if at := r.partitions[0].completeSince; trim > 0 && at.UnixMilli() != written[trim].UnixMilli() || trim == 0 &&
			!at.IsZero() {
			t.Errorf("trimmed to %d: complete since %v", trim, at)
		}
	}
	f(0)
	f(7)
}

// A partition whose past cannot be read is dropped when it is lost, and then delays no other.
func TestRebuildOfALostPartitionEnds(t *testing.T) {
	r, cluster, _ := rigOnLog(t, 10)
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		r.onLost([]stream.Partition{testOutcomes})
		return refused(req), nil, true
	})
	r.onAssigned(map[stream.Partition]stream.Commit{testOutcomes: {Offset: 10}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	commits := map[stream.Partition]stream.Commit{testOutcomes: {Offset: 3}}
	reassigned := must.Get(r.applyAssignment(ctx, commits))(t)
	if len(r.partitions) > 0 || len(commits) > 0 || !reassigned[testOutcomes] {
		t.Errorf("%d partition states, commits %v, reassigned %v", len(r.partitions), commits, reassigned)
	}
}

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
