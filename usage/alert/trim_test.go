package alert

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

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
		if got := r.partitions[0].destinations[testDest].failures; got != failures {
			t.Errorf("trimmed to %d: %d failures in a row, want %d", trim, got, failures)
		}
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
