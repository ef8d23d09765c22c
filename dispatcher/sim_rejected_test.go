package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// refuseWith makes the log permanently refuse every batch for a topic that contains the text.
func (w *bubbleWorld) refuseWith(topic, text string, err *kerr.Error) *kfake.FaultHandle {
	return w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "t." + topic, Err: err, Count: -1,
		When: func(req kmsg.Request) bool {
			for _, t := range req.(*kmsg.ProduceRequest).Topics {
				for _, p := range t.Partitions {
					if bytes.Contains(p.Records, []byte(text)) {
						return true
					}
				}
			}
			return false
		},
	})
}

// deadLetters reads the dead letter topic until it has n records.
func (w *world) deadLetters(n int) []*stream.Record {
	w.tb.Helper()
	var all []*stream.Record
	w.scan(stream.Partition{Topic: stream.Dead}, func(record *stream.Record) bool {
		all = append(all, record)
		return len(all) == n
	})
	return all
}

func recordHeader(record *stream.Record, key string) string {
	for _, h := range record.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// A follow-up that Kafka refuses permanently ends its delivery visibly, and no other delivery of its batch.
func TestFollowUpThatBrokersReject(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord} {
		t.Run(refusal.Message, func(t *testing.T) {
			kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{answer: func(_ int, r received) int {
					if r.header.Get("Relay-Attempt") == "1" {
						return 500
					}
					return 200
				}}
				url, _ := w.serve(80, s)
				w.endpoint(url)
				fault := w.refuseWith("retry.1s", "poison", refusal)
				// Nothing is accepted for a while, so that the next batch has all of them.
				accept := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t.retry.1s",
					Err: kerr.NotLeaderForPartition, Count: -1}).Remove
				w.start(testConfig())
				const good = 30
				for i := range good / 2 {
					w.accept(w.newEvent(fmt.Sprint(i)))
				}
				poison := w.newEvent("poison")
				w.accept(poison)
				for i := range good / 2 {
					w.accept(w.newEvent(fmt.Sprint(good/2 + i)))
				}
				time.Sleep(time.Second)
				accept()
				var failed *event.Outcome
				w.outcomes(func(all []*event.Outcome) bool {
					if outcome := all[len(all)-1]; outcome.Status == event.Failed {
						failed = outcome
					}
					return count(good, event.Delivered)(all) && failed != nil
				})
				if failed.Event != poison.ID || failed.Reason != event.Undecodable || failed.Attempt == nil ||
					failed.Attempt.Code != 500 || !failed.NextAt.IsZero() {
					t.Errorf("outcome %+v", failed)
				}
				if fault.Hits() < 2 {
					t.Errorf("refused %d times: the record was not tried by itself", fault.Hits())
				}
				dead := w.deadLetters(1)[0]
				if string(dead.Value) != "poison" || recordHeader(dead, stream.HeaderDeadTopic) != "retry.1s" ||
					!strings.Contains(recordHeader(dead, stream.HeaderDeadError), refusal.Message) {
					t.Errorf("dead letter %q %v", dead.Value, dead.Headers)
				}
				if _, err := event.DecodeWork(dead); err != nil {
					t.Errorf("the dead letter cannot be replayed: %v", err)
				}
				if w.metric("relay_dispatch_rejected_records_total", "") != 1 ||
					w.metric("relay_dispatch_dead_letters_total", "") != 1 {
					t.Error("the metrics do not count it")
				}
				w.shut()
				if n := w.committed(stream.Partition{Topic: stream.Events}); n != good+1 || len(s.all()) != 2*good+1 {
					t.Errorf("committed %d of %d, %d requests", n, good+1, len(s.all()))
				}
				is.Equal(t, w.cluster.PartitionInfo("t."+stream.Dead, 0).HighWatermark, 1, "dead letters")
			})
		})
	}
}

// An outcome that is too large loses its details, but always reports the status of the delivery.
func TestOutcomeThatBrokersReject(t *testing.T) {
	for name, f := range map[string]struct {
		text    string // that the log refuses
		attempt bool   // whether the outcome still has the attempt
	}{
		"response": {"the answer", true},
		"attempt":  {"localhost", false},
	} {
		t.Run(name, func(t *testing.T) {
			kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				answer := func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "the answer") }
				url, _ := w.serve(80, http.HandlerFunc(answer))
				w.endpoint(url)
				w.refuseWith(stream.Outcomes, f.text, kerr.MessageTooLarge)
				w.start(testConfig())
				w.accept(w.newEvent(`{}`))
				outcome := w.outcomes(count(1))[0]
				if outcome.Status != event.Delivered || outcome.Code != 200 || (outcome.Attempt != nil) != f.attempt {
					t.Fatalf("outcome %+v", outcome)
				}
				if f.attempt && (outcome.Attempt.ResponseBody != nil || outcome.Attempt.RequestHeader != "" ||
					!outcome.Attempt.Truncated ||
					outcome.Attempt.URL != url) {
					t.Errorf("attempt %+v", outcome.Attempt)
				}
				w.shut()
				is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 1, "committed")
			})
		})
	}
}

// An outcome that cannot be made smaller is retried until Kafka accepts it.
func TestSmallestOutcomeIsRetriedUntilProduced(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		fault := w.refuseWith(stream.Outcomes, testDest, kerr.InvalidRecord)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		time.Sleep(time.Minute)
		if n := w.committed(stream.Partition{Topic: stream.Events}); n != -1 || fault.Hits() < 100 {
			t.Errorf("committed %d without an outcome, after %d tries", n, fault.Hits())
		}
		fault.Remove()
		if outcome := w.outcomes(count(1))[0]; outcome.Status != event.Delivered || len(s.all()) != 1 {
			t.Errorf("outcome %+v, %d requests", outcome, len(s.all()))
		}
	})
}

// A dead letter that Kafka refuses is reduced to origin and error. If that is refused too, the outcome still reports
// the delivery as failed.
func TestDeadLetterThatBrokersReject(t *testing.T) {
	for name, f := range map[string]struct {
		text       string // that the log refuses in the dead letter topic
		deadLetter bool
	}{
		"body":            {"poison", true},
		"any dead letter": {"relay-dead", false},
	} {
		t.Run(name, func(t *testing.T) {
			kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{answer: func(int, received) int { return 500 }}
				url, _ := w.serve(80, s)
				w.endpoint(url)
				w.refuseWith("retry.1s", "poison", kerr.MessageTooLarge)
				w.refuseWith(stream.Dead, f.text, kerr.MessageTooLarge)
				w.start(testConfig())
				ev := w.newEvent("poison")
				w.accept(ev)
				is.Same(t, statuses(w.outcomes(count(1))), []string{"failed undecodable"})
				w.shut()
				if n := w.committed(stream.Partition{Topic: stream.Events}); n != 1 || len(s.all()) != 1 {
					t.Errorf("committed %d, %d requests", n, len(s.all()))
				}
				if !f.deadLetter {
					is.Equal(t, w.cluster.PartitionInfo("t."+stream.Dead, 0).HighWatermark, 0, "dead letters")
					return
				}
				dead := w.deadLetters(1)[0]
				if dead.Value != nil || !strings.Contains(recordHeader(dead, stream.HeaderDeadError), ev.ID.String()) {
					t.Errorf("dead letter %q %v", dead.Value, dead.Headers)
				}
				if _, err := event.Decode(dead); err == nil {
					t.Error("an event without its body can be brought back")
				}
			})
		})
	}
}

// With the producer's buffer full and its callbacks behind, thousands of completions wait and all are recorded. A
// callback that produced the second record of a completion itself would block itself as soon as enough refusals are
// queued before it.
func TestCompletionsWhileTheBufferIsFull(t *testing.T) {
	const two, more, smallSize, largeSize = 2000, 24_000, 100, 1000 // the client queues 20,000 refusals
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	must.Do(t, err)
	t.Cleanup(cluster.Close)
	w := newWorldOn(t, stream.Config{Brokers: cluster.ListenAddrs()}, nil, 1)
	cfg := w.stream
	cfg.ProducerBufferBytes = (two + 1) * smallSize // no large one fits before the callbacks of ten small ones
	producer, err := stream.NewProducer(cfg, "small")
	must.Do(t, err)
	defer producer.Close()
	m, err := newMetrics(prometheus.NewRegistry(), time.Now)
	must.Do(t, err)
	var done atomic.Int64
	blocked, release := make(chan struct{}), make(chan struct{})
	f := newFinisher(Deps{Log: w.stream.Log, Stream: cfg, Producer: producer, Now: w.now}, m,
		func(*lane.Delivery) {
			if done.Add(1) == 1 {
				close(blocked)
				<-release
			}
		})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { f.run(ctx) })

	finish := func(topics ...string) {
		steps := make([]step, len(topics))
		for i, topic := range topics {
			size := largeSize
			if len(topics) > 1 && i == 0 || done.Load() == 0 && len(topics) == 1 {
				size = smallSize
			}
			steps[i] = step{topic: topic, record: &stream.Record{Value: make([]byte, size)}}
		}
		f.complete(&lane.Delivery{Slot: &slot{partition: &partition{}}}, steps...)
	}
	// One batch of many records, so that many callbacks follow each other.
	accept := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t.retry.1s",
		Err: kerr.NotLeaderForPartition, Count: -1}).Remove
	for range two {
		finish("retry.1s", stream.Outcomes)
	}
	finish(stream.Outcomes)
	<-blocked // the callback of the last one
	accept()
	for cluster.PartitionInfo("t.retry.1s", 0).HighWatermark < two && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	var called atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range more / 4 {
				finish(stream.Outcomes)
				called.Add(1)
			}
		})
	}
	// until the refusals fill the client's queue
	for last := int64(-1); called.Load() > last; time.Sleep(200 * time.Millisecond) {
		last = called.Load()
	}
	close(release)
	all := make(chan struct{})
	running.Go(func() {
		callers.Wait()
		for done.Load() < 1+two+more && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		close(all)
	})
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Fatalf("%d of %d completions are done", done.Load(), 1+two+more)
	}
}
