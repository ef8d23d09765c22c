package dispatcher

import (
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// gathering makes the first destination of the test endpoint one that gets events in batches.
func (w *world) gathering(batch kinds.HTTPBatch, inFlight int, url string) *config.Endpoint {
	endpoint := w.endpoint(url)
	endpoint.Destinations[0].HTTPBatch, endpoint.Destinations[0].MaxInFlight = &batch, inFlight
	return endpoint
}

// changed puts a changed copy of an endpoint into the view.
func (w *world) changed(endpoint *config.Endpoint, change func(*config.Endpoint)) {
	next := *endpoint
	next.Destinations, next.Rev = slices.Clone(endpoint.Destinations), endpoint.Rev+1
	change(&next)
	w.view.put(&next)
}

// What happens while an event waits for others counts as for any other delivery: it is not sent, or not as it was.
func TestChangesWhileABatchGathers(t *testing.T) {
	var erased atomic.Pointer[id.ID]
	f := func(name, want string, change func(e *config.Endpoint)) {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s, other := &sink{}, &sink{}
				url, _ := w.serve(80, s)
				w.serve(81, other)
				endpoint := w.gathering(kinds.HTTPBatch{Events: 100, Bytes: 1 << 20, Seconds: 15}, 64, url)
				w.start(testConfig(), func(d *Deps) {
					d.Erased = func(e id.ID) bool { gone := erased.Load(); return gone != nil && *gone == e }
				})
				first, second := w.newEvent(`{"secret":1}`), w.newEvent(`{"secret":2}`)
				if name == "expired" {
					first.ExpiresAt = time.Now().Add(5 * time.Second)
				}
				w.accept(first, second)
				time.Sleep(time.Second)
				if name == "erased" {
					erased.Store(&first.ID)
				}
				w.changed(endpoint, change)
				time.Sleep(40 * time.Second)
				is.Equal(t, bodiesOf(t, s)+"moved: "+bodiesOf(t, other), want)
			})
		})
	}
	dest := func(change func(*config.Destination)) func(*config.Endpoint) {
		return func(e *config.Endpoint) { change(&e.Destinations[0]) }
	}
	f("other settings", `{"secret":1}{"secret":2} moved: `, func(e *config.Endpoint) { e.Name = "other" })
	f("expired", `{"secret":2} moved: `, func(*config.Endpoint) {})
	f("erased", `{"secret":2} moved: `, func(*config.Endpoint) {})
	f("disabled", "moved: ", dest(func(d *config.Destination) { d.Enabled = false }))
	f("paused", "moved: ", dest(func(d *config.Destination) { d.Paused = true }))
	f("purged", "moved: ", dest(func(d *config.Destination) { d.PurgeBefore = time.Now().Add(time.Second) }))
	f("another URL", `moved: {"secret":1}{"secret":2} `, dest(func(d *config.Destination) {
		d.URL = "http://localhost:81/hook"
	}))
	f("transformed", "{}{} moved: ", func(e *config.Endpoint) {
		e.SetTransformation([]transform.Op{{Op: transform.Drop, Paths: []string{"/secret"}}}, time.Now(), "key_1", "")
	})
}

// A change that does not alter what is sent does not keep a batch from leaving, however often it is made. An event that
// gathers again takes no second token of the rate.
func TestBatchLeavesWhileLimitsChange(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		endpoint := w.gathering(kinds.HTTPBatch{Events: 100, Bytes: 1 << 20, Seconds: 30}, 64, url)
		tokens := &countedTokens{}
		w.start(testConfig(), func(d *Deps) { d.Limiter = tokens })
		limited := func(perSecond float64, header string) {
			w.changed(endpoint, func(e *config.Endpoint) {
				d := &e.Destinations[0]
				d.RateLimit, d.HTTPBatch = &config.RateLimit{PerSecond: perSecond, Burst: 100}, &kinds.HTTPBatch{
					Events: 100, Bytes: 1 << 20, Seconds: 30}
				d.URL += header
				*endpoint = *e
			})
		}
		limited(100, "")
		w.accept(w.newEvent(`{"n":1}`), w.newEvent(`{"n":2}`))
		for n := range 4 {
			time.Sleep(10 * time.Second)
			limited(float64(101+n), "")
		}
		is.Equal(t, bodiesOf(t, s), `{"n":1}{"n":2} `)
		w.accept(w.newEvent(`{"n":3}`))
		time.Sleep(10 * time.Second)
		limited(100, "?changed")
		time.Sleep(time.Minute)
		is.Equal(t, bodiesOf(t, s), `{"n":1}{"n":2} {"n":3} `)
		is.Equal(t, tokens.taken.Load(), 3, "tokens")
	})
}

// countedTokens always has a token.
type countedTokens struct{ taken atomic.Int64 }

func (c *countedTokens) TakeToken(string, float64, int) time.Duration { c.taken.Add(1); return 0 }

// bodiesOf returns the bodies of the events in each batch that came, sorted, with a space after each batch.
func bodiesOf(t *testing.T, s *sink) (text string) {
	for _, r := range s.all() {
		var events []struct{ Body json.RawMessage }
		must.Do(t, json.Unmarshal(r.body, &events))
		var bodies []string
		for _, e := range events {
			bodies = append(bodies, string(e.Body))
		}
		slices.Sort(bodies)
		text += strings.Join(bodies, "") + " "
	}
	return text
}

// Two batches are as large as max_in_flight lets them be, the first one too.
func TestBatchesAreLargeAtOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.gathering(kinds.HTTPBatch{Events: 1000, Bytes: 1 << 20, Seconds: 10}, 200, url)
		w.start(testConfig())
		for range 400 {
			w.accept(w.newEvent(`{}`))
		}
		w.outcomes(count(400, event.Delivered))
		for _, r := range s.all() {
			if n := strings.Count(string(r.body), `"evt_`); n != 200 {
				t.Errorf("%d events in a batch", n)
			}
		}
	})
}
