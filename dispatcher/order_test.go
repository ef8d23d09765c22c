package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// orderedSink is a destination that fails some requests and watches the order of those that it accepts. Bodies are
// {"k":"key","n":number}.
type orderedSink struct {
	sink
	fails func(key string, n int) bool
}

func newOrderedSink(takes time.Duration, fails func(key string, n int) bool) *orderedSink {
	s := &orderedSink{fails: fails}
	s.answer = func(_ int, r received) int {
		time.Sleep(takes)
		key, n := keyed(r.body)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fails(key, n) {
			return 500
		}
		return 200
	}
	return s
}

func keyed(body []byte) (key string, n int) {
	fmt.Sscanf(strings.NewReplacer(`{"k":"`, "", `","n":`, " ", "}", "").Replace(string(body)), "%s %d", &key, &n)
	return key, n
}

// keyedEvent makes an event of a key.
func (w *world) keyedEvent(partition int32, key string, n int) *event.Event {
	ev := w.newEvent(fmt.Sprintf(`{"k":"%s","n":%d}`, key, n))
	ev.ID = must.Get(w.ids.New(partition))(w.tb)
	return ev
}

// ordered makes the first destination of the test endpoint ordered by the key of the body.
func (w *world) ordered(whenFailed string, urls ...string) *config.Endpoint {
	endpoint := w.endpoint(urls...)
	endpoint.Destinations[0].Ordering = &kinds.Ordering{By: "body:$.k", WhenFailed: whenFailed}
	return endpoint
}

// checkOrder checks that the first success of each event came after that of the one before it with the same key.
// outcomes are in the order in which they were recorded.
func checkOrder(t *testing.T, requests []received, ok func(received) bool) map[string]int {
	t.Helper()
	last := map[string]int{}
	for _, r := range requests {
		key, n := keyed(r.body)
		switch {
		case !ok(r) || n <= last[key]:
		case n != last[key]+1:
			t.Fatalf("event %d of %s was delivered after event %d", n, key, last[key])
		default:
			last[key] = n
		}
	}
	return last
}

// Ten keys have failures, and the node is stopped, dies before it commits, and their endpoint moves to another
// partition. The events of each key are delivered in their order, one at a time.
func TestOrderSurvivesEverything(t *testing.T) {
	const keys, perKey = 10, 90
	run := func(t *testing.T, w *bubbleWorld, crash func() func()) {
		random := rand.New(rand.NewPCG(1, 2))
		s := newOrderedSink(20*time.Millisecond, func(string, int) bool { return random.IntN(10) < 3 })
		var succeeded []received
		answer := s.answer
		s.answer = func(n int, r received) int {
			status := answer(n, r)
			if status == 200 {
				s.mu.Lock()
				succeeded = append(succeeded, r)
				s.mu.Unlock()
			}
			return status
		}
		url, _ := w.serve(80, s)
		endpoint := w.ordered(kinds.BlockAfterFailure, url)
		accept := func(partition int32, from, to int) {
			for n := from; n <= to; n++ {
				for k := range keys {
					w.accept(w.keyedEvent(partition, fmt.Sprint("key", k), n))
				}
			}
		}
		_, stop := w.start(testConfig())
		accept(0, 1, perKey/3)
		time.Sleep(8 * time.Second)
		stop()
		_, stop = w.start(testConfig())
		accept(0, perKey/3+1, 2*perKey/3)
		time.Sleep(7 * time.Second)
		restarted := crash()
		time.Sleep(3 * time.Second)
		stop()
		restarted()
		d, _ := w.start(testConfig())
		time.Sleep(3 * time.Second)

		moving := *endpoint
		moving.Partition, moving.Move = 1, &config.PartitionMove{From: 0, Until: time.Now().Add(time.Hour)}
		w.view.put(&moving)
		accept(1, 2*perKey/3+1, perKey)
		log := must.Get(stream.NewReader(w.stream, "test"))(t)
		defer log.Close()
		survey := NewSurvey(log, endpoint.ID, []int32{0})
		for must.Get(survey.Refresh(t.Context()))(t).Any() {
			time.Sleep(time.Second)
		}
		moved := moving
		moved.Move = nil
		w.view.put(&moved)
		w.outcomesOf(1, count(keys*perKey/3, event.Delivered))
		for key, n := range checkOrder(t, succeeded, func(received) bool { return true }) {
			is.Equal(t, n, perKey, "of %d events of %s were delivered", perKey, key)
		}
		is.Equal(t, d.lanes.Census().Ordered, 0, "positions are left")
	}
	t.Run("restarts", func(t *testing.T) {
		bubble(t, 2, func(t *testing.T, w *bubbleWorld) { run(t, w, func() func() { return func() {} }) })
	})
	t.Run("crash", func(t *testing.T) {
		kafkaBubble(t, 2, func(t *testing.T, w *bubbleWorld) { run(t, w, w.refuseCommits) })
	})
}

// A key whose event fails for long is parked, and the offsets of its events are committed. Other keys and destinations
// go on, also after a restart. Once the event succeeds, those behind it come without a pause.
func TestBlockedKeyIsParked(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var down atomic.Bool
		down.Store(true)
		var up time.Time
		s := newOrderedSink(time.Millisecond, func(key string, _ int) bool {
			if key == "bad" && !down.Load() && up.IsZero() {
				up = time.Now()
			}
			return key == "bad" && down.Load()
		})
		url, _ := w.serve(80, s)
		endpoint := w.ordered(kinds.BlockAfterFailure, url)
		endpoint.RetryPolicy.IntervalSeconds = 60
		_, stop := w.start(testConfig())
		const n = 3000
		for i := range n {
			w.accept(w.keyedEvent(0, "bad", i+1))
		}
		for i := range 10 {
			w.accept(w.keyedEvent(0, "good", i+1))
		}
		w.outcomes(count(10, event.Delivered))
		time.Sleep(time.Minute)
		if offset := w.committed(stream.Partition{Topic: stream.Events}); offset != n+10 {
			t.Errorf("%d is committed of %d events", offset, n+10)
		}
		behind := 0
		for _, outcome := range w.outcomes(count(n-1, event.Held)) {
			if outcome.Reason == event.Behind && outcome.Behind == "" {
				t.Fatal("it is not said behind which event")
			}
			behind++
		}
		stop()
		w.start(testConfig())
		w.accept(w.keyedEvent(0, "good", 11))
		w.outcomes(count(11, event.Delivered))
		down.Store(false)
		w.outcomes(count(n+11, event.Delivered))
		checkOrder(t, s.all(), func(r received) bool { return true })
		if passed := s.all()[len(s.all())-1].at.Sub(up); passed > 20*time.Second {
			t.Errorf("%d events that wait needed %v, one after the other", n, passed)
		}
	})
}

// After a restart the first event of a key waits for its retry. Those behind it wait too, and are not parked again and
// again to search for it.
func TestNobodySearchesForARetry(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var down atomic.Bool
		down.Store(true)
		s := newOrderedSink(time.Millisecond, func(string, int) bool { return down.Load() })
		url, _ := w.serve(80, s)
		endpoint := w.ordered(kinds.BlockAfterFailure, url)
		endpoint.RetryPolicy.IntervalSeconds = 600
		_, stop := w.start(testConfig())
		const n = 100
		for i := range n {
			w.accept(w.keyedEvent(0, "key", i+1))
		}
		time.Sleep(time.Minute)
		stop()
		w.start(testConfig())
		time.Sleep(4 * time.Minute)
		reader := must.Get(stream.NewReader(w.stream, "test"))(t)
		defer reader.Close()
		records := int64(0)
		for _, tier := range stream.Tiers() {
			records += must.Get(reader.Ends(t.Context(), tier.Topic))(t)[stream.Partition{Topic: tier.Topic}]
		}
		if records > 10*n {
			t.Errorf("%d records for %d deliveries that wait for five minutes", records, n)
		}
		down.Store(false)
		w.outcomes(count(n, event.Delivered))
		checkOrder(t, s.all(), func(received) bool { return true })
	})
}

// What follows a delivery that has failed for good.
func TestAfterAFailure(t *testing.T) {
	f := func(name, whenFailed string, act func(*bubbleWorld, *event.Event)) {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				var down atomic.Bool
				down.Store(true)
				s := newOrderedSink(time.Millisecond, func(_ string, n int) bool { return n == 1 && down.Load() })
				url, _ := w.serve(80, s)
				endpoint := w.ordered(whenFailed, url)
				endpoint.RetryPolicy.MaxAttempts = 2
				_, stop := w.start(testConfig())
				first := w.keyedEvent(0, "k", 1)
				w.accept(first, w.keyedEvent(0, "k", 2), w.keyedEvent(0, "k", 3))
				w.outcomes(count(1, event.Failed))
				time.Sleep(10 * time.Minute)
				if act != nil {
					must.Equal(t, len(s.all()), 2, "requests before the person acts")
					stop()
					w.start(testConfig())
					time.Sleep(10 * time.Minute)
					if got := len(s.all()); got != 2 {
						t.Fatalf("%d requests after a restart: %+v", got, s.all())
					}
					down.Store(false)
					act(w, first)
				}
				w.outcomes(count(2, event.Delivered))
				time.Sleep(time.Minute)
				got := s.all()
				if n := len(got); name != "block until there is no order" &&
					(string(got[n-2].body) != `{"k":"k","n":2}` || string(got[n-1].body) != `{"k":"k","n":3}`) {
					t.Errorf("the last requests are %s, %s", got[n-2].body, got[n-1].body)
				}
				is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 3, "is committed")
			})
		})
	}
	f("skip", kinds.SkipFailure, nil)
	f("block until a replay", kinds.BlockAfterFailure, func(w *bubbleWorld, first *event.Event) {
		w.command(&event.Work{Event: first, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Prior: event.Failed,
			Run: id.NewGenerator(nil).NewUnbounded(0).Text(id.Run)})
	})
	f("block until it is skip", kinds.BlockAfterFailure, func(w *bubbleWorld, _ *event.Event) {
		w.view.change(testEndpoint, func(e *config.Endpoint) {
			e.Destinations[0].Ordering = &kinds.Ordering{By: "body:$.k", WhenFailed: kinds.SkipFailure}
		})
	})
	f("block until there is no order", kinds.BlockAfterFailure, func(w *bubbleWorld, _ *event.Event) {
		w.endpoint("http://localhost:80/hook")
	})
}

// A change of the order applies to events that are read afterwards. Those that wait keep their turns.
func TestChangeOfOrdering(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var down atomic.Bool
		down.Store(true)
		s := newOrderedSink(time.Millisecond, func(_ string, n int) bool { return n == 2 && down.Load() })
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		change := func(by string) {
			next := *w.endpoint(url)
			next.Destinations[0].Ordering = &kinds.Ordering{By: by}
			w.view.put(&next)
		}
		w.accept(w.keyedEvent(0, "k", 1))
		w.outcomes(count(1, event.Delivered))
		change("body:$.k")
		w.accept(w.keyedEvent(0, "k", 2), w.keyedEvent(0, "k", 3))
		time.Sleep(time.Minute)
		change("endpoint")
		w.accept(w.keyedEvent(0, "k", 4)) // not behind 2 and 3, which have a slot of the key
		w.outcomes(count(2, event.Delivered))
		down.Store(false)
		w.outcomes(count(4, event.Delivered))
		last := s.all()
		if n := len(last); string(last[n-1].body) != `{"k":"k","n":3}` || string(last[n-2].body) != `{"k":"k","n":2}` {
			t.Errorf("the last requests are %s, %s", last[n-2].body, last[n-1].body)
		}
	})
}

// Without an order, what waits for its turn is sent at once, whether it waits in memory or is parked.
func TestEndOfOrderingSendsWhatWaits(t *testing.T) {
	for _, waited := range []time.Duration{time.Second, 3 * time.Second, 5100 * time.Millisecond, 20 * time.Second} {
		bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
			var down atomic.Bool
			down.Store(true)
			s := newOrderedSink(time.Millisecond, func(string, int) bool { return down.Load() })
			url, _ := w.serve(80, s)
			endpoint := w.ordered("", url)
			endpoint.RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: 600, MaxAttempts: 5}
			w.start(testConfig())
			time.Sleep(10 * time.Minute) // after a start, what is parked is looked at often
			for n := range 5 {
				w.accept(w.keyedEvent(0, "k", n+1))
			}
			w.outcomes(count(1, event.Retrying))
			time.Sleep(waited)
			down.Store(false)
			next := *endpoint
			next.Destinations = slices.Clone(endpoint.Destinations)
			next.Destinations[0].Ordering, next.Rev = nil, endpoint.Rev+1
			w.view.put(&next)
			changed := time.Now()
			w.outcomes(count(4, event.Delivered))
			if took := time.Since(changed); took > 2*time.Second {
				t.Errorf("sent %v after the order had ended, %v after the first failure", took, waited)
			}
		})
	}
}

// Two keys share no slot, so that no sender finds a key that blocks one of another.
func TestKeysShareNoSlot(t *testing.T) {
	ordering, seen := &kinds.Ordering{By: "body:$.k"}, map[uint64]string{}
	for n := range 3000 {
		ev := &event.Event{Body: []byte(fmt.Sprintf(`{"k":"key%d"}`, n/2))}
		dest := fmt.Sprint("dst_", n%2)
		slot, ok := slotOfKey(ev, dest, ordering)
		if other := seen[slot]; !ok || other != "" {
			t.Fatalf("%s of %s has the slot of %s", ev.Body, dest, other)
		}
		seen[slot] = string(ev.Body) + " of " + dest
	}
}

// inPartition is an event that was accepted in the given partition.
func (w *world) inPartition(p int32, body string) *event.Event {
	w.tb.Helper()
	ev := w.newEvent(body)
	var err error
	if ev.ID, err = w.ids.New(p); err != nil {
		w.tb.Fatal(err)
	}
	return ev
}

// While an endpoint moves, its new events wait and those of the old partition do not. The wait ends with the move, or
// by itself when the node that moves it is gone.
func TestNewEventsOfAMovedEndpointWait(t *testing.T) {
	f := func(name string, end func(*bubbleWorld), after time.Duration) {
		t.Run(name, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, w *bubbleWorld) {
				s := &sink{}
				url, _ := w.serve(80, s)
				w.endpoint(url)
				until := time.Now().Add(time.Minute)
				w.view.change(testEndpoint, func(endpoint *config.Endpoint) {
					endpoint.Partition, endpoint.Move = 1, &config.PartitionMove{From: 0, Until: until}
				})
				w.start(testConfig())
				began := time.Now()
				w.accept(w.inPartition(1, `"new"`), w.inPartition(0, `"old"`))
				w.outcomesOf(0, count(1, event.Delivered))
				w.outcomesOf(1, count(1))
				time.Sleep(20 * time.Second)
				if got := s.all(); len(got) != 1 || string(got[0].body) != `"old"` {
					t.Fatalf("%d requests while it is moved", len(got))
				}
				end(w)
				all := w.outcomesOf(1, count(1, event.Delivered))
				if all[0].Status != event.Held || all[0].Reason != event.Manual {
					t.Errorf("while it is moved: %+v", all[0])
				}
				if late := s.all()[1].at.Sub(began) - after; late < 0 || late > lane.MinRecheck+lane.Slack(lane.MinRecheck) {
					t.Errorf("delivered %v after the end of the move", late)
				}
			})
		})
	}
	f("the move ends", func(w *bubbleWorld) {
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Move = nil })
	}, 20*time.Second)
	f("the mover died", func(*bubbleWorld) {}, time.Minute)
}

// A survey counts the open records of one endpoint, which of them wait and until when, and no finished ones, also when
// older records of other endpoints are still open.
func TestSurvey(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w *bubbleWorld) {
		release := make(chan struct{})
		hung, _ := w.serve(81, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		failing := &sink{answer: func(n int, _ received) int {
			if n <= 3 {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}}
		url, _ := w.serve(80, failing)
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy.IntervalSeconds = 10
		w.view.put(endpoint)
		other := *endpoint
		other.ID, other.Destinations = "ep_2", []config.Destination{{ID: "dst_9", URL: hung,
			DestinationSettings: config.DestinationSettings{Enabled: true, TimeoutSeconds: 60, MaxInFlight: 4}}}
		w.view.put(&other)
		w.start(testConfig())

		reader := must.Get(stream.NewReader(w.stream, "test"))(t)
		defer reader.Close()
		survey := NewSurvey(reader, testEndpoint, []int32{0})
		refresh := func() OpenRecords {
			t.Helper()
			o := must.Get(survey.Refresh(t.Context()))(t)
			return o
		}
		if o := refresh(); o.Any() {
			t.Errorf("before anything: %+v", o)
		}
		foreign := w.newEvent(`"hangs"`, "dst_9")
		foreign.Endpoint = "ep_2"
		elsewhere := w.inPartition(1, `"elsewhere"`)
		w.accept(foreign, elsewhere, w.newEvent(`"a"`), w.newEvent(`"b"`))
		if o := refresh(); o.Immediate == 0 && o.Waiting == 0 {
			t.Errorf("just accepted: %+v", o)
		}
		w.outcomes(count(2, event.Retrying))
		w.outcomesOf(1, count(1, event.Retrying))
		time.Sleep(time.Second) // until the commits
		o := refresh()
		if in := time.Until(o.LastDue); o.Immediate != 0 || o.Waiting != 2 || in < 7*time.Second || in > 10*time.Second {
			t.Errorf("two wait for a retry: %+v, the last for %v", o, in)
		}
		is.Equal(t, must.Get(NewSurvey(reader, testEndpoint, []int32{0}).Refresh(t.Context()))(t), o,
			"seen for the first time")
		w.outcomes(count(2, event.Delivered))
		time.Sleep(time.Second)
		if o := refresh(); o.Any() {
			t.Errorf("all is done: %+v", o)
		}
		if o, err := NewSurvey(reader, "ep_2", []int32{0, 1}).Refresh(t.Context()); err != nil || o.Immediate != 1 ||
			o.Waiting != 0 {
			t.Errorf("the other endpoint: %+v, %v", o, err)
		}
		close(release)
	})
}

// An unverified event that fails holds up no other, unless its destination asks for the order of those, too. Orders
// that are older than the setting include the events of endpoints without a verification.
func TestOrderOfUnverifiedEvents(t *testing.T) {
	f := func(unverified string, verdict event.Verdict, blocks bool) {
		t.Run(fmt.Sprint(unverified, " ", verdict), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := newOrderedSink(time.Millisecond, func(_ string, n int) bool { return n == 1 })
				url, _ := w.serve(80, s)
				w.ordered(kinds.BlockAfterFailure, url).Destinations[0].Ordering.Unverified = unverified
				w.start(testConfig())
				bad := w.keyedEvent(0, "k", 1)
				bad.Verdict = verdict
				w.accept(bad, w.keyedEvent(0, "k", 2))
				time.Sleep(time.Minute)
				last := s.all()[len(s.all())-1]
				second := func(r received) bool { return string(r.body) == `{"k":"k","n":2}` }
				is.Equal(t, slices.ContainsFunc(s.all(), second), !blocks,
					"the second event came; the last request was %s", last.body)
			})
		})
	}
	f("unordered", event.VerdictVerified, true)
	f("unordered", event.VerdictUnverified, false)
	f("unordered", event.VerdictObserved, false)
	f("ordered", event.VerdictUnverified, true)
	f("ordered", event.VerdictObserved, true)
	f("", event.VerdictUnverified, true)
	f("", event.VerdictObserved, false)
}
