package dispatcher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// transformed sets operations that are written as JSON.
func transformed(tb testing.TB, e *config.Endpoint, ops string) {
	tb.Helper()
	var all []transform.Op
	must.Do(tb, json.Unmarshal([]byte(ops), &all))
	e.SetTransformation(all, time.Now(), "key_1", "")
}

// The data of an event that was sent through the API may have 64 levels; its envelope adds one. Other bodies have 64.
func TestDeepestDataIsTransformed(t *testing.T) {
	e := &config.Endpoint{ID: testEndpoint}
	transformed(t, e, `[{"op":"add","path":"/a","value":1}]`)
	body := `{"data":` + strings.Repeat(`{"a":`, transform.MaxDepth-1) + "{}" + strings.Repeat("}", transform.MaxDepth)
	for source, good := range map[event.Source]bool{event.SourceAPI: true, event.SourceProvider: false} {
		work := testWork(t, []byte(body))
		work.Event.Source = source
		if _, _, err := newTransformations(1<<20).apply(t.Context(), e, work); (err == nil) != good {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// Each attempt carries what the newest operations make of the stored body, signed as it is sent: a stock Standard
// Webhooks library accepts it. It has the bytes of the preview, and the attempt names the version.
func TestTransformedBodiesAreDelivered(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(n int, _ received) int { return map[bool]int{true: 503, false: 200}[n == 1] }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		const ops = `[{"op":"drop","paths":["/email"]},{"op":"wrap","key":"payload"},
			{"op":"add","path":"/meta","value":{"n":1e400}},{"op":"add","path":"/meta/attempt","from":"attempt.number"},
			{"op":"add","path":"/meta/event","from":"event.id"}]`
		w.view.change(testEndpoint, func(e *config.Endpoint) { transformed(t, e, ops) })
		w.start(testConfig())
		ev := w.newEvent(`{"z": 1.50, "email": "a@example.com", "a": "é"}`)
		ev.Header = append(ev.Header,
			event.Field{Name: "Webhook-Id", Value: "msg_1"}, event.Field{Name: "Webhook-Timestamp", Value: "1"},
			event.Field{Name: "Webhook-Signature", Value: "v1,AAAA"}, event.Field{Name: "Content-Md5", Value: "AAAA"},
			event.Field{Name: "X-Hub-Signature-256", Value: "sha256=00"}, event.Field{Name: "X-Kept", Value: "yes"})
		w.accept(ev)
		all := w.outcomes(count(1, event.Delivered))
		if got := []int{all[0].Attempt.TransformationVersion, all[len(all)-1].Attempt.TransformationVersion}; got[0] != 1 ||
			got[1] != 1 {
			t.Errorf("the attempts name the versions %v", got)
		}
		verifier := must.Get(standardwebhooks.NewWebhook(w.secret.Reveal()))(t)
		for i, r := range s.all() {
			want := fmt.Sprintf(`{"payload":{"z":1.50,"a":"é"},"meta":{"n":1e400,"attempt":%d,"event":%q}}`, i+1,
				ev.ID.Text(id.Event))
			if string(r.body) != want || r.header.Get("Content-Length") != fmt.Sprint(len(want)) {
				t.Errorf("attempt %d has %s, want %s", i+1, r.body, want)
			}
			if err := verifier.VerifyIgnoringTimestamp(r.body, r.header); err != nil {
				t.Errorf("attempt %d: %v", i+1, err)
			}
			if r.header.Get("Webhook-Id") != ev.ID.Text(id.Event) || r.header.Get("X-Kept") != "yes" ||
				r.header.Get("X-Hub-Signature-256") != "" || r.header.Get("Content-Md5") != "" {
				t.Errorf("attempt %d has the headers %v", i+1, r.header)
			}
		}
		is.Equal(t, len(s.all()), 2, "requests")
	})
}

// A body that cannot be transformed is never sent, in no shape. Its delivery ends at once, without an attempt, and
// nothing else changes: deliveries beside it go on, the breaker stays closed. After the fix a replay delivers it.
func TestFailingTransformation(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		fail := func(e *config.Endpoint) { transformed(t, e, `[{"op":"drop","paths":["/secret"],"required":true}]`) }
		w.view.change(testEndpoint, fail)
		w.start(testConfig())
		bodies := []string{`{"a":1}`, `a=1`, ``, `{"secret":1,"secret":2}`, `{"secret":"\ud800"}`}
		var first *event.Event
		for i := range 40 { // over 40 s: an open breaker would hold the others
			ev := w.newEvent(bodies[i%len(bodies)])
			if first == nil {
				first = ev
			}
			w.accept(ev)
			time.Sleep(time.Second)
		}
		w.accept(w.newEvent(`{"secret":1,"kept":2}`))
		all := w.outcomes(count(1, event.Delivered))
		for _, o := range all[:len(all)-1] {
			if o.Status != event.Failed || o.Reason != event.TransformFailed || o.Attempt != nil {
				t.Fatalf("%+v", o)
			}
		}
		if got := s.all(); len(all) != 41 || len(got) != 1 || string(got[0].body) != `{"kept":2}` {
			t.Fatalf("%d outcomes, %d requests", len(all), len(got))
		}
		is.Equal(t, w.metric("relay_dispatch_outcomes_total", string(event.TransformFailed)), 40,
			"outcomes are counted")

		// Within a recovery job it is a failure too, not a skipped delivery, so it stops the job (TestFailureStopsJob).
		w.command(w.recoveryWork(recoveryJob()))
		last := w.outcomes(count(41, event.Failed))[41]
		if last.Reason != event.TransformFailed || last.SkipReason != "" || last.Run == "" || len(s.all()) != 1 {
			t.Errorf("of a recovery job: %+v, %d requests", last, len(s.all()))
		}

		w.view.change(testEndpoint, func(e *config.Endpoint) { transformed(t, e, `[{"op":"drop","paths":["/secret"]}]`) })
		run := must.Get(w.idsAt(w.now()))(t)
		w.command(&event.Work{Event: first, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1,
			Run: run.Text(id.Run), Prior: event.Failed, PriorReason: event.TransformFailed})
		w.outcomes(count(2, event.Delivered))
		if got := s.all(); len(got) != 2 || string(got[1].body) != `{"a":1}` {
			t.Errorf("%d requests", len(got))
		}
	})
}

// Without a transformation a delivery has the stored body itself, and no work is done for it.
func TestWithoutTransformationNothingIsDone(t *testing.T) {
	transformations := newTransformations(1 << 20)
	endpoint := &config.Endpoint{ID: testEndpoint}
	work := &event.Work{Event: &event.Event{Endpoint: testEndpoint, Body: []byte("no JSON")}}
	allocations := testing.AllocsPerRun(10, func() {
		body, _, err := transformations.apply(t.Context(), endpoint, work)
		if err != nil || &body.Body[0] != &work.Event.Body[0] || body.Version != 0 {
			t.Errorf("%s, version %d, %v", body.Body, body.Version, err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// What a transformed body takes is part of the memory that lanes share: first the most that it may be, then what it is,
// and nothing once the delivery is recorded.
func TestTransformedBodiesCountAsMemory(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		release := make(chan struct{})
		arrived := make(chan struct{}, 10)
		url, _ := w.serve(80, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			arrived <- struct{}{}
			<-release
		}))
		endpoint := w.endpoint(url)
		value := strings.Repeat("v", 4000)
		w.view.change(testEndpoint, func(e *config.Endpoint) {
			e.Destinations[0].MaxInFlight = 1
			transformed(t, e, `[{"op":"add","path":"/l/*/x","value":"`+value+`"}]`)
		})
		d, _ := w.start(testConfig())
		body := `{"l":[{},{},{}]}` + strings.Repeat(" ", 1000)
		w.accept(w.newEvent(body), w.newEvent(body))
		<-arrived
		deliveries, held := 0, 0
		for deliveries < 2 { // the second one waits in its lane
			time.Sleep(time.Millisecond)
			deliveries, held = d.lanes.InMemory()
		}
		if sent, waiting := 3*4000, 500*4000; held < sent+waiting || held > sent+waiting+waiting/10 {
			t.Errorf("%d bytes are counted for %d deliveries", held, deliveries)
		}
		w.view.put(endpoint) // the operations are gone before the second delivery is sent
		close(release)
		w.outcomes(count(2, event.Delivered))
		for held > 0 {
			time.Sleep(time.Millisecond)
			_, held = d.lanes.InMemory()
		}
	})
}

// Operations are compiled once for each revision of an endpoint, and the compiled ones are bounded.
func TestOperationsAreCompiledOnce(t *testing.T) {
	made := newTransformations(1 << 20)
	e := &config.Endpoint{ID: testEndpoint, Rev: 1}
	transformed(t, e, `[{"op":"drop","paths":["a"]}]`)
	first, err := made.program(e, "")
	again, _ := made.program(e, "")
	e.Rev++
	changed, _ := made.program(e, "")
	if err != nil || first != again || first == changed || len(made.byOwner) != 1 {
		t.Errorf("%p %p %p, %v", first, again, changed, err)
	}
	add := strings.Repeat(`{"op":"add","path":"a","value":"`+strings.Repeat("v", 4000)+`"},`, 15)
	transformed(t, e, "["+add+`{"op":"wrap","key":"k"}]`)
	for i := range 2 * maxProgramBytes / len(add) {
		e.ID = fmt.Sprint("ep_", i)
		if _, err := made.program(e, ""); err != nil || made.bytes > maxProgramBytes {
			t.Fatalf("%d bytes of %d endpoints, %v", made.bytes, len(made.byOwner), err)
		}
	}
	e.ID, e.Transformation = "ep_newer", &config.Transformation{Version: 1, Ops: []transform.Op{{Op: "sort"}}}
	if body, _, err := made.apply(t.Context(), e, testWork(t, []byte(`{}`))); err == nil || body.Body != nil {
		t.Errorf("an operation of a newer version made %s", body.Body)
	}
}

// Operations on large bodies run one after the other when they would need more memory together than they may have.
func TestMemoryOfOperationsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := newTransformations(4 << 20)
		e := &config.Endpoint{ID: testEndpoint, Rev: 1}
		transformed(t, e, `[{"op":"wrap","key":"k"}]`)
		work := testWork(t, bytes.Repeat([]byte(" "), transformMemory/transformFactor))
		work.Event.Body[0] = '1'
		must.Do(t, made.memory.Acquire(t.Context(), 1))
		var all sync.WaitGroup
		defer all.Wait()
		done := make(chan error, 1)
		all.Go(func() {
			_, _, err := made.apply(t.Context(), e, work)
			done <- err
		})
		synctest.Wait()
		select {
		case err := <-done:
			t.Errorf("it ran beside another one: %v", err)
		default:
			made.memory.Release(1)
			is.OK(t, <-done)
		}
	})
}

// An endpoint without a transformation costs a look at its configuration.
func BenchmarkTransformations(b *testing.B) {
	for _, ops := range []string{`[]`, `[{"op":"drop","paths":["/data/internal"]},{"op":"wrap","key":"payload"}]`} {
		e := &config.Endpoint{ID: testEndpoint, Rev: 1}
		transformed(b, e, ops)
		made, view := newTransformations(2<<20), newView(e)
		work := testWork(b, []byte(`{"type":"order.paid","data":{"internal":{"n":1},"x":"`+strings.Repeat("x", 1000)+`"}}`))
		b.Run(fmt.Sprint(e.Transformation.Number(), "_versions"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				delivery := lane.Delivery{Work: work}
				made.reserve(view, &delivery)
				if _, _, err := made.apply(b.Context(), e, work); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A destination's own operations are in place of the endpoint's: they change its request, or cancel its delivery, and
// leave the other destinations alone. No operations leave the body as it is stored.
func TestTransformationOfADestination(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		sinks, urls := [3]*sink{}, [3]string{}
		for i := range sinks {
			sinks[i] = &sink{answer: func(int, received) int { return 200 }}
			urls[i], _ = w.serve(80+i, sinks[i])
		}
		w.endpoint(urls[0], urls[1]+"/?token=1", urls[2])
		w.view.change(testEndpoint, func(e *config.Endpoint) {
			transformed(t, e, `[{"op":"wrap","key":"payload"}]`)
			for i, ops := range []string{`[{"op":"cancel","when":"body.test"},
				{"op":"path","expr":"'/orders/' + body.id"},{"op":"method","expr":"'PUT'"},
				{"op":"header","name":"X-Kind","expr":"type"}]`, `[]`} {
				var all []transform.Op
				must.Do(t, json.Unmarshal([]byte(ops), &all))
				e.Destinations[i+1].SetTransformation(all, false, time.Now(), "key_1", "")
			}
		})
		w.start(testConfig())
		const body = `{ "id": "a/b c" }`
		ev := w.newEvent(body)
		ev.Dests = []string{"dst_1", "dst_2", "dst_3"}
		w.accept(ev)
		w.outcomes(count(3, event.Delivered))
		for i, want := range []string{`{"payload":{"id":"a/b c"}}`, body, body} {
			is.Equal(t, string(sinks[i].all()[0].body), want, "body for destination %d", i)
		}
		got := sinks[1].all()[0]
		is.Equal(t, got.method+" "+got.path, "PUT /hook/orders/a/b%20c?token=1", "request")
		is.Equal(t, got.header.Get("X-Kind"), ev.Type, "header")
		test := w.newEvent(`{"test":true,"id":"7"}`)
		test.Dests = ev.Dests
		w.accept(test)
		all := w.outcomes(count(6))
		for _, o := range all {
			if o.Event == test.ID && (o.Dest == "dst_2") != (o.Reason == event.CancelledByRule && o.Attempt == nil) {
				t.Errorf("%s: %s %s", o.Dest, o.Status, o.Reason)
			}
		}
		is.Equal(t, len(sinks[1].all()), 1, "requests to the destination that cancels")
	})
}
