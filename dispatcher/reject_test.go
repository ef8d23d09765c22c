package dispatcher

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/test/is"
)

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

// A destination that fails is held although it rejects requests in between, each time for longer, until it accepts one.
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
				time.Sleep(10 * time.Minute)
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
