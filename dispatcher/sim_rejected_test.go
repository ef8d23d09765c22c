package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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

	"github.com/eventrelay/relay/dispatcher/destination/webhook"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
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
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	w := newWorldOn(t, stream.Config{Brokers: cluster.ListenAddrs()}, nil, 1)
	cfg := w.stream
	cfg.ProducerBufferBytes = (two + 1) * smallSize // no large one fits before the callbacks of ten small ones
	producer := must.Get(stream.NewProducer(cfg, "small"))(t)
	defer producer.Close()
	m := must.Get(newMetrics(prometheus.NewRegistry(), time.Now))(t)
	var done atomic.Int64
	blocked, release := make(chan struct{}), make(chan struct{})
	f := newFinisher(Deps{Log: w.stream.Log, Stream: cfg, Producer: producer, Now: w.now}, m,
		func(*lane.Delivery) {
			if done.Add(1) == 1 {
				close(blocked)
				<-release
			}
		}, func(*lane.Delivery) {})
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

// extremeHeaders are Retry-After values that receivers may send, valid and invalid.
func extremeHeaders() []string {
	return []string{
		"", " ", "0", "-0", "-1", "-5", "-9223372036854775808", "-99999999999999999999999", "1", "120", "+120", "120.5",
		"1e30", "-1e30", "NaN", "Inf",
		"9223372036854775807", "9223372036854775808", "18446744073709551616", "1" + strings.Repeat("0", 30),
		"1" + strings.Repeat("0", 5000),
		"0x7fffffff", "١٢٠", "120 s", "1,200", "\x00", "120\x00", "soon", strings.Repeat("9", 64<<10),
		"Mon, 01 Jan 0001 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 01 Jan 2027 00:00:00 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT",
		"Sat, 32 Dec 2026 23:59:59 GMT", "Fri, 31 Dec 99999 23:59:59 GMT", "2026-12-31T00:00:00Z",
		"Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
	}
}

// extremePolicy has values that no validation accepts, and ordinary ones.
func extremePolicy(r *rand.Rand) retry.Policy {
	floats := []float64{0, 0.1, 1, 2, -1, -1e300, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}
	ints := []int{0, 1, 5, 300, 86400, 10 * 365 * 86400, -1, -86400, math.MaxInt32, math.MaxInt, math.MinInt}
	pick := func() int { return ints[r.IntN(len(ints))] }
	policy := retry.Policy{
		Strategy:       []string{"none", "linear", "exponential", "schedule", "", "a later one"}[r.IntN(6)],
		InitialSeconds: pick(), IntervalSeconds: pick(), MaxSeconds: pick(), Multiplier: floats[r.IntN(len(floats))],
		MaxAttempts: []int{-1, 0, 1, 2, 10, 100}[r.IntN(6)], Jitter: floats[r.IntN(len(floats))],
		RespectRetryAfter: r.IntN(4) > 0, MaxRetryAfterSeconds: pick(),
	}
	for range r.IntN(4) {
		policy.ScheduleSeconds = append(policy.ScheduleSeconds, pick())
	}
	return policy
}

// For any policy and any Retry-After, a delivery has at most its number of attempts, none is early or in the past, no
// wait exceeds the schedule or the cap on Retry-After, each lies before its deadline and the expiry of the payload,
// and passes the tiers in few retry passes.
func TestExtremePoliciesAndHeadersKeepTheirBounds(t *testing.T) {
	headers, tiers := extremeHeaders(), stream.Tiers()
	ids := id.NewGenerator(nil)
	eventID := must.Get(ids.New(1))(t)
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(3_000) {
		r := rand.New(rand.NewPCG(seed, 11))
		policy := extremePolicy(r)
		now, expiry := start, start.AddDate(0, 0, 1+r.IntN(30))
		work := &event.Work{Event: &event.Event{ID: eventID, Endpoint: "ep_1"}, Dest: "dst_1", Attempt: 1}
		for {
			header := headers[r.IntN(len(headers))]
			asked := webhook.ParseRetryAfter(header, now)
			if asked < 0 || asked > maxDelay {
				t.Fatalf("seed %d: %.40q is %v", seed, header, asked)
			}
			next := decide(work, refused, policy, asked, now, expiry, r.Float64())
			if next.status != event.Retrying {
				if next.status != event.Failed || next.reason != event.AttemptsExhausted && next.reason != event.PayloadExpired {
					t.Fatalf("seed %d: %+v", seed, next)
				}
				break
			}
			wait := next.due.Sub(now)
			limit := retryDelay(policy, work.Attempt, 0, 0)
			for _, random := range []float64{0.5, 1} {
				limit = max(limit, retryDelay(policy, work.Attempt, 0, random))
			}
			if policy.RespectRetryAfter {
				limit = max(limit, min(asked, seconds(float64(policy.MaxRetryAfterSeconds))))
			}
			if wait < 0 || wait > limit || !next.due.Before(next.deadline) || next.deadline.After(expiry) ||
				work.Attempt >= policy.Attempts() {
				t.Fatalf("seed %d, attempt %d of %d, %.40q: waits %v of at most %v, until %v of %v", seed, work.Attempt,
					policy.MaxAttempts,
					header, wait, limit, next.due, next.deadline)
			}
			work.Attempt, work.Due, work.Deadline = work.Attempt+1, next.due, next.deadline
			work = throughTheLog(t, work)
			passes := 0
			for now.Before(work.Due) {
				passes++
				now = lane.ReadyAt(work.Due, now, now, lane.TierFor(tiers, work.Due.Sub(now)).Delay)
			}
			if most := int(wait/lane.MaxRecheck) + 2*len(tiers); passes > most {
				t.Fatalf("seed %d: %d retry passes for %v", seed, passes, wait)
			}
		}
	}
}

// throughTheLog encodes and decodes work: its due time may become later by less than a millisecond.
func throughTheLog(t *testing.T, work *event.Work) *event.Work {
	t.Helper()
	record := must.Get(work.Record())(t)
	back := must.Get(event.DecodeWork(record))(t)
	if late := back.Due.Sub(work.Due); late < 0 || late >= time.Millisecond || back.Attempt != work.Attempt {
		t.Fatalf("due %v came back as %v, attempt %d as %d", work.Due, back.Due, work.Attempt, back.Attempt)
	}
	return back
}

// FuzzRetryAfter checks that no header makes a wait beyond the bound, or a negative one.
func FuzzRetryAfter(f *testing.F) {
	for _, h := range extremeHeaders() {
		f.Add(h)
	}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if d := webhook.ParseRetryAfter(header, now); d < 0 || d > maxDelay {
			t.Errorf("%q is %v", header, d)
		}
	})
}
