package dispatcher

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// poisoned is a destination that accepts each event but those that say "bad".
type poisoned struct {
	fail func(rw http.ResponseWriter, req *http.Request) // the answer to a bad event

	mu       sync.Mutex
	bad      []time.Time // when requests with bad events came
	accepted []time.Time // when good events came
}

func (p *poisoned) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	bad := string(body) == `"bad"`
	p.mu.Lock()
	if bad {
		p.bad = append(p.bad, time.Now())
	} else {
		p.accepted = append(p.accepted, time.Now())
	}
	p.mu.Unlock()
	if bad {
		p.fail(rw, req)
	}
}

// since returns when the first good event came, from then on, and how many bad ones came before it.
func (p *poisoned) since(then time.Time) (good time.Time, bad int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.accepted {
		if !at.Before(then) {
			good = at
			break
		}
	}
	for _, at := range p.bad {
		if at.After(then) && (good.IsZero() || at.Before(good)) {
			bad++
		}
	}
	return good, bad
}

// poisonedWorld runs a dispatcher with one poisoned destination. Nothing tells its events from each other.
func poisonedWorld(
	t *testing.T, fail http.HandlerFunc, f func(w *bubbleWorld, p *poisoned, held *heldNow, send func(body string)),
) {
	bubble(t, 1, func(_ *testing.T, w *bubbleWorld) {
		p := &poisoned{fail: fail}
		url, _ := w.serve(80, p)
		w.endpoint(url).RetryPolicy = retry.Default()
		var held heldNow
		w.start(DefaultConfig(), func(d *Deps) { d.Held = &held })
		f(w, p, &held, func(body string) {
			ev := w.newEvent(body)
			ev.Verdict = event.VerdictUnverified
			w.accept(ev)
		})
	})
}

// poisons are the ways in which a destination fails events that it cannot process, each with the time-out of a probe.
var poisons = map[string]struct {
	timeout time.Duration
	fail    http.HandlerFunc
}{
	"400": {fail: func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(400) }},
	"503": {fail: func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }},
	"429": {fail: func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "86400")
		rw.WriteHeader(429)
	}},
	"no answer": {timeout: 15 * time.Second, fail: func(_ http.ResponseWriter, req *http.Request) {
		<-req.Context().Done()
	}},
	"one byte a second": {timeout: 15 * time.Second, fail: func(rw http.ResponseWriter, req *http.Request) {
		for req.Context().Err() == nil {
			rw.Write([]byte("x"))
			rw.(http.Flusher).Flush()
			time.Sleep(time.Second)
		}
	}},
}

// A destination that works, but fails some events, gets a good event within a minute and two probes, however many bad
// ones came before, and also when its breaker has reached its longest time. RELAY_TORTURE tries all of each poison.
func TestGoodEventPassesBadOnes(t *testing.T) {
	for name, poison := range poisons {
		for _, bad := range []int{100, 1000} {
			if bad > 100 && name != "503" && !full() {
				continue
			}
			t.Run(fmt.Sprint(name, " ", bad), func(t *testing.T) {
				poisonedWorld(t, poison.fail, func(_ *bubbleWorld, p *poisoned, held *heldNow, send func(string)) {
					for range bad {
						send(`"bad"`)
						time.Sleep(time.Second)
					}
					for range 1200 { // some of them time out until the breaker opens
						if poison.timeout == 0 || len(held.all()) > 0 {
							break
						}
						time.Sleep(time.Second)
					}
					time.Sleep(5 * time.Second)
					good(t, p, held, send, poison.timeout)
				})
			})
		}
		if name != "503" && !full() {
			continue
		}
		t.Run(name+" an hour ago", func(t *testing.T) {
			poisonedWorld(t, poison.fail, func(_ *bubbleWorld, p *poisoned, held *heldNow, send func(string)) {
				for range 100 {
					send(`"bad"`)
					time.Sleep(time.Second)
				}
				for range 12 {
					time.Sleep(10 * time.Minute)
					if calls := held.all(); len(calls) == 0 || calls[len(calls)-1] == "1h0m0s" {
						break
					}
				}
				good(t, p, held, send, poison.timeout)
			})
		})
	}
}

// good sends a good event, and asserts that it arrives within a minute and two probes. Time-outs of probes before it
// count on top.
func good(t *testing.T, p *poisoned, held *heldNow, send func(body string), timeout time.Duration) {
	t.Helper()
	sent := time.Now()
	send(`"good"`)
	time.Sleep(3 * time.Minute)
	arrived, probes := p.since(sent)
	if late := arrived.Sub(sent); arrived.IsZero() || late > time.Minute+timeout || probes > 1 {
		t.Errorf("the good event arrived after %v and %d other probes; breaker %v", late, probes, held.all())
	}
}

// While a stranger goes on to send bad events, good ones come through: at once if their sender is authenticated, or if
// they have another type than the bad ones.
func TestGoodEventsAmongBadOnes(t *testing.T) {
	f := func(name string, change func(*event.Event)) {
		t.Run(name, func(t *testing.T) {
			poisonedWorld(t, poisons["503"].fail, func(w *bubbleWorld, p *poisoned, held *heldNow, send func(string)) {
				for i := range 1200 {
					send(`"bad"`)
					if i%200 == 199 {
						ev := w.newEvent(`"good"`)
						ev.Verdict = event.VerdictUnverified
						change(ev)
						w.accept(ev)
					}
					time.Sleep(time.Second)
				}
				time.Sleep(2 * time.Minute)
				p.mu.Lock()
				defer p.mu.Unlock()
				is.Equal(t, len(p.accepted), 6, "good events arrived; breaker %v", held.all())
			})
		})
	}
	f("verified", func(ev *event.Event) { ev.Verdict = event.VerdictVerified })
	f("another type", func(ev *event.Event) { ev.Type = "invoice.paid" })
}

// A destination that is down gets few requests, however many events come: probes, early ones and the first failures.
func TestRequestsOfADayWithoutAnswer(t *testing.T) {
	endpoint := simEndpoint("ep_1", "dst_1")
	endpoint.RetryPolicy = retry.Policy{Strategy: "none"}
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		s.answer = func(string, time.Time) (time.Duration, int) { return time.Millisecond, 503 }
		s.absentUntil.Store(time.Now().Add(24 * time.Hour).UnixNano())
		for range 24 * 60 {
			s.accept(endpoint)
			time.Sleep(time.Minute)
		}
		s.seen.Lock()
		defer s.seen.Unlock()
		if t.Logf("%d requests", s.requests); s.requests > 430 || s.requests < 300 {
			t.Errorf("%d requests in a day", s.requests)
		}
	})
}
