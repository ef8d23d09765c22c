package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// answers is a producer that answers each batch with one error, and each record in a batch of its own with another.
type answers struct {
	batch, single error
	produced      []string // topics of the batches
}

func (a *answers) WaitForRoom(context.Context, *stream.Record) error { return nil }
func (a *answers) Produce(topic string, _ int32, r *stream.Record, done func(*stream.Record, error)) {
	a.produced = append(a.produced, topic)
	done(r, a.batch)
}
func (a *answers) ProduceInOwnBatch(context.Context, string, int32, *stream.Record) error {
	return a.single
}

// Whatever the log answers, a completion ends or waits in exactly one list. One in no list would never end, and nothing
// after it would be committed. Records that were acknowledged are not produced again.
func TestCompletionIsInOnePlace(t *testing.T) {
	refused, unavailable := error(kerr.MessageTooLarge), context.DeadlineExceeded
	broken := step{topic: stream.Outcomes, record: &stream.Record{}}
	hit := step{topic: stream.Findings, record: &stream.Record{}}
	outcome := outcomeStep(&event.Outcome{Event: quietEvent().ID, Endpoint: testEndpoint, Dest: "dst_1",
		Status: event.Delivered})
	for name, c := range map[string]struct {
		batch, single error
		steps         []step
		want          string // where the completion is after the batch, and after the batch of its own
	}{
		"accepted":               {nil, nil, []step{outcome}, "done"},
		"unavailable":            {unavailable, nil, []step{outcome}, "retries"},
		"refused in a batch":     {refused, nil, []step{outcome}, "single done"},
		"refused and accepted":   {refused, nil, []step{outcome, outcome}, "single ready"},
		"refused, unavailable":   {refused, unavailable, []step{outcome}, "single retries"},
		"outcome refused":        {refused, refused, []step{outcome}, "single retries"}, // nothing smaller is left
		"hit refused":            {refused, refused, []step{hit}, "single retries"},
		"broken outcome refused": {refused, refused, []step{broken}, "single retries"},
		"dead letter refused": {refused, refused, []step{{topic: stream.Dead, record: &stream.Record{
			Headers: make([]stream.Header, stream.DeadHeaderCount)}}}, "single done"},
		"large dead letter refused": {refused, refused, []step{{topic: stream.Dead, record: &stream.Record{
			Value: []byte("x"), Headers: make([]stream.Header, stream.DeadHeaderCount)}}}, "single ready"},
		"follow-up refused": {refused, refused, []step{{topic: "retry.1s", record: quietEvent().Record()}, outcome},
			"single ready"},
	} {
		m := must.Get(newMetrics(prometheus.NewRegistry(), time.Now))(t)
		producer, done := &answers{batch: c.batch, single: c.single}, 0
		f := newFinisher(Deps{Log: testLog(), Producer: producer, Now: time.Now, Stream: stream.Config{Prefix: "t."}}, m,
			func(*lane.Delivery) { done++ }, func(*lane.Delivery) {})
		p, _ := testPartition(t, stream.Events, 0)
		delivery := &lane.Delivery{Slot: p.beginRecord(0, 0), Work: &event.Work{Event: quietEvent(), Dest: "dst_1"}}
		place := func() string {
			places := strings.Repeat("done ", done)
			for list, b := range map[string]*backlog{"retries": &f.retries, "single": &f.single, "ready": &f.ready} {
				places += strings.Repeat(list+" ", len(b.list))
			}
			return strings.TrimSpace(places)
		}
		f.complete(delivery, c.steps...)
		got := place()
		if got == "single" {
			completion := f.single.list[0]
			f.single.list = nil
			f.produceSingle(t.Context(), completion)
			got = fmt.Sprint(got, " ", place())
		}
		if got != c.want || len(producer.produced) != 1 {
			t.Errorf("%s: %s, want %s; produced %q", name, got, c.want, producer.produced)
		}
	}
}

// picky is a destination that answers by the word in a body: "good" is accepted, another word gets its own status.
type picky struct {
	mu      sync.Mutex
	answers map[string]int // status by word; 200 without one
	goodAt  []time.Time    // when events with the word good were accepted
	n       int            // requests
}

func (p *picky) sink() *sink {
	return &sink{answer: func(_ int, r received) int {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.n++
		status := p.answers[string(r.body)]
		if string(r.body) == `"good"` && (status == 0 || status == 200) {
			p.goodAt = append(p.goodAt, time.Now())
		}
		if status == 0 {
			return 200
		}
		return status
	}}
}

func (p *picky) set(body string, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[body] = status
}

func (p *picky) accepted() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.goodAt)
}

func (p *picky) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// pickyWorld runs a dispatcher with one picky destination and the default retry policy.
func pickyWorld(t *testing.T, answers map[string]int, f func(w *bubbleWorld, p *picky, held *heldNow)) {
	t.Helper()
	bubble(t, 1, func(_ *testing.T, w *bubbleWorld) {
		p := &picky{answers: maps.Clone(answers)}
		url, _ := w.serve(80, p.sink())
		w.endpoint(url).RetryPolicy = retry.Default()
		var held heldNow
		w.start(DefaultConfig(), func(d *Deps) { d.Held = &held })
		f(w, p, &held)
	})
}

// Events that a destination answers with 4xx do not hold up the others, however many come before them or with them.
func TestRejectedEventsHoldNothingUp(t *testing.T) {
	soon := func(t *testing.T, p *picky, sent []time.Time) {
		t.Helper()
		for i, at := range p.accepted() {
			if late := at.Sub(sent[i]); late > 5*time.Second {
				t.Errorf("good event %d arrived after %v", i, late)
			}
		}
		is.Equal(t, len(p.accepted()), len(sent), "of %d good events arrived", len(sent))
	}
	f := func(name string, status int, attack func(send func(body string))) {
		t.Run(name, func(t *testing.T) {
			pickyWorld(t, map[string]int{`"bad"`: status}, func(w *bubbleWorld, p *picky, held *heldNow) {
				var sent []time.Time
				attack(func(body string) {
					if body == `"good"` {
						sent = append(sent, time.Now())
					}
					w.accept(w.newEvent(body))
				})
				time.Sleep(5 * time.Second)
				soon(t, p, sent)
				if calls := held.all(); len(calls) > 0 {
					t.Errorf("the circuit breaker opened: %v", calls)
				}
			})
		})
	}
	burst := func(n int) func(send func(string)) {
		return func(send func(string)) {
			for range n {
				send(`"bad"`)
				time.Sleep(38 * time.Second / time.Duration(n))
			}
			time.Sleep(5 * time.Second)
			send(`"good"`)
		}
	}
	f("40 before a good one", 400, burst(40))
	f("160 before a good one", 422, burst(160))
	f("one a second beside good ones", 400, func(send func(string)) {
		for i := range 470 {
			if i == 51 || i == 110 || i == 200 || i == 290 {
				send(`"good"`)
			}
			send(`"bad"`)
			time.Sleep(time.Second)
		}
	})
	f("every request unauthorized for an hour", 401, func(send func(string)) {
		for range 120 {
			send(`"bad"`)
			time.Sleep(30 * time.Second)
		}
		send(`"good"`)
	})
}

// A destination that fails is held although it rejects requests in between, each time for longer but for no longer than
// it has failed, until it accepts one.
func TestBreakerOpensBesideRejections(t *testing.T) {
	f := func(name string, failure, other int) {
		t.Run(name, func(t *testing.T) {
			answers := map[string]int{`"good"`: failure, `"bad"`: other}
			pickyWorld(t, answers, func(w *bubbleWorld, p *picky, held *heldNow) {
				const events = 60
				for range events { // in ten minutes
					w.accept(w.newEvent(`"good"`), w.newEvent(`"bad"`))
					time.Sleep(10 * time.Second)
				}
				if calls := held.all(); !slices.Contains(calls, "2m0s") || p.requests() > 6*events {
					t.Errorf("opened for %v, %d requests for %d events", calls, p.requests(), 2*events)
				}
				p.set(`"good"`, 200)
				p.set(`"bad"`, 400)
				for _, call := range held.all() {
					if wait, err := time.ParseDuration(call); err == nil && wait > 10*time.Minute {
						t.Errorf("opened for %v after ten minutes", wait)
					}
				}
				time.Sleep(11 * time.Minute)
				if calls := held.all(); len(p.accepted()) == 0 || calls[len(calls)-1] != "closed" {
					t.Errorf("%d events arrived after the destination was back, breaker %v", len(p.accepted()), calls)
				}
			})
		})
	}
	f("503 and 400 in turn", 503, 400)
	f("429", 429, 429)
}

// An event that a destination cannot process, with a status 500 each time, is not the probe again and again: once the
// breaker is half-open, an event that has not failed yet is.
func TestProbeIsAnotherEventThanTheLast(t *testing.T) {
	pickyWorld(t, map[string]int{`"bad"`: 500}, func(w *bubbleWorld, p *picky, held *heldNow) {
		for len(held.all()) == 0 {
			w.accept(w.newEvent(`"bad"`))
			time.Sleep(time.Second)
		}
		w.accept(w.newEvent(`"good"`))
		time.Sleep(2 * time.Minute)
		if n := len(p.accepted()); n != 1 {
			t.Errorf("%d good events arrived; breaker %v", n, held.all())
		}
	})
}

// refuse makes the log refuse requests of one kind until the returned function is called.
func (w *bubbleWorld) refuse(key kmsg.Key, topic string) (accept func()) {
	return w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{key}, Topic: "t." + topic, Err: kerr.TopicAuthorizationFailed, Count: -1,
	}).Remove
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

// The line of an attempt has the time of the next one only if there is one.
func TestAttemptLineWithoutNext(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	logAttempt(log, &event.Outcome{Attempt: &event.Attempt{}})
	is.Equal(t, strings.Contains(out.String(), "next="), false, out.String())
	logAttempt(log, &event.Outcome{Attempt: &event.Attempt{}, NextAt: time.Unix(1_800_000_000, 0)})
	is.Has(t, out.String(), "next=2027", "with a retry")
}
