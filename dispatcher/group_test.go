package dispatcher

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// spread makes an event in the given partition.
func (w *world) spread(partition int32, body string) *event.Event {
	ev := w.newEvent(body)
	eventID := must.Get(w.ids.New(partition))(w.tb)
	ev.ID = eventID
	return ev
}

// A process ends with one request unanswered and later records done. The next one repeats only that request.
func TestGapsSurviveRestart(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		hang := true
		s := &sink{}
		url, _ := w.serve(80, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if hang && r.Header.Get("Slow") != "" {
				io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client closes
				<-r.Context().Done()
				return
			}
			s.ServeHTTP(rw, r)
		}))
		endpoint := w.endpoint(url)
		endpoint.Destinations[0].TimeoutSeconds = 60
		cfg := testConfig()
		cfg.Drain = time.Second
		_, stop := w.start(cfg)
		slow := w.newEvent("slow")
		slow.Header = append(slow.Header, event.Field{Name: "Slow", Value: "1"})
		w.accept(w.newEvent("0"), slow)
		const after = 50
		for i := range after {
			w.accept(w.newEvent(fmt.Sprint(i + 1)))
		}
		w.outcomes(count(after+1, event.Delivered))
		stop()
		if n := w.committed(stream.Partition{Topic: stream.Events}); n != 1 {
			t.Fatalf("committed %d, want 1: the slow one is not done", n)
		}
		hang = false
		w.start(cfg)
		all := w.outcomes(count(after+2, event.Delivered))
		if len(all) != after+2 || len(s.all()) != after+2 {
			t.Errorf("%d outcomes, %d requests for %d events", len(all), len(s.all()), after+2)
		}
	})
}

// A stop waits for running requests, and their outcomes are committed.
func TestStopFinishesWhatIsInFlight(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(int, received) int { time.Sleep(10 * time.Second); return 200 }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		_, stop := w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took < 8*time.Second || took > 11*time.Second {
			t.Errorf("the stop took %v", took)
		}
		is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 1, "committed")
		if all := w.outcomes(count(1)); all[0].Status != event.Delivered {
			t.Errorf("outcome %+v", all[0])
		}
	})
}

// The configuration at the time of the attempt counts, not that at the time of acceptance.
func TestConfigurationIsReadAtFireTime(t *testing.T) {
	f := func(name string, change func(*bubbleWorld), prepare func(*event.Work), want ...string) {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{}
				url, _ := w.serve(80, s)
				w.endpoint(url)
				change(w)
				work := &event.Work{Event: w.newEvent(`{"a":{"b":1}}`), Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1}
				if prepare != nil {
					prepare(work)
				}
				w.start(testConfig())
				w.command(work)
				all := w.outcomes(count(1))
				is.Same(t, statuses(all), want)
				is.Equal(t, all[0].Run, work.Run, "run")
				wantRequests := 0
				if want[0] == "delivered" && !strings.HasPrefix(name, "skipped") {
					wantRequests = 1
				}
				is.Equal(t, len(s.all()), wantRequests, "requests")
			})
		})
	}
	nothing := func(*bubbleWorld) {}
	ofDest := func(f func(*config.Destination)) func(*bubbleWorld) {
		return func(w *bubbleWorld) {
			w.view.change(testEndpoint, func(endpoint *config.Endpoint) { f(&endpoint.Destinations[0]) })
		}
	}
	disable := ofDest(func(d *config.Destination) { d.Enabled = false })
	inRun := func(prior event.Status) func(*event.Work) {
		return func(work *event.Work) {
			work.Run, work.Prior = "run_1", prior
			if prior == event.Failed {
				work.PriorReason = event.Gone410
			}
		}
	}
	f("wanted", nothing, nil, "delivered")
	f("in a run", nothing, inRun(event.Failed), "delivered")
	f("endpoint deleted", func(w *bubbleWorld) { w.view.remove(testEndpoint) }, nil, "skipped endpoint_deleted")
	f("endpoint disabled", func(w *bubbleWorld) {
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Enabled = false })
	}, nil, "delivered")
	f("destination deleted", func(w *bubbleWorld) {
		w.view.change(testEndpoint, func(endpoint *config.Endpoint) { endpoint.Destinations = nil })
	}, nil, "skipped destination_deleted")
	f("destination disabled", disable, nil, "skipped destination_disabled")
	f("skipped in a run: delivered again", disable, inRun(event.Delivered), "delivered")
	f("skipped in a run: failed again", disable, inRun(event.Failed), "failed gone_410")
	f("skipped in a run, its chain still open", disable, inRun(event.Retrying), "skipped destination_disabled")
	f("filtered by type", ofDest(func(d *config.Destination) { d.Filter = &filter.Filter{Types: []string{"invoice.*"}} }),
		nil, "skipped filtered")
	body := &filter.Filter{Body: map[string]any{"a.b": 2.0}}
	f("filtered by body", ofDest(func(d *config.Destination) { d.Filter = body }), nil, "skipped filtered")
	f("let through", ofDest(func(d *config.Destination) {
		d.Filter = &filter.Filter{Types: []string{"order.*"}, Body: map[string]any{"a.b": 1.0}}
	}), nil, "delivered")
	f("payload expired", nothing, func(work *event.Work) {
		work.Event.ID[0], work.Event.ID[1], work.Event.ID[2] = 0, 0, 1 // the year 1970
	}, "failed payload_expired")
}

// For an endpoint that this node does not know yet, it waits. An endpoint that no node knows counts as deleted.
func TestUnknownEndpoint(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		delete(w.view.endpoints, testEndpoint)
		tries := 0
		w.view.onSync = func() error {
			if tries++; tries == 1 {
				return errors.New("the log is unavailable")
			}
			w.view.put(endpoint)
			return nil
		}
		w.start(testConfig())
		begin := time.Now()
		w.accept(w.newEvent(`{}`))
		all := w.outcomes(count(1, event.Delivered))
		is.Same(t, statuses(all), []string{"pending", "delivered"})
		if took := time.Since(begin); took < lane.MinRecheck {
			t.Errorf("delivered after %v, although the configuration was unavailable", took)
		}
		w.view.onSync = nil
		ev := w.newEvent(`{}`)
		ev.Endpoint = "ep_unknown"
		w.accept(ev)
		all = w.outcomes(count(3))
		is.Same(t, statuses(all), []string{"pending", "delivered", "skipped endpoint_deleted"})
	})
}

// Events that need no delivery are completed without an outcome.
func TestEventsWithoutDelivery(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		rejected, duplicate, capture := w.newEvent(`1`), w.newEvent(`2`), w.newEvent(`3`)
		rejected.Verdict, rejected.Reason = event.VerdictRejected, event.SignatureMismatch
		duplicate.DuplicateOf, duplicate.Reason = rejected.ID.Text("evt_"), event.Duplicate
		capture.Dests = nil
		w.accept(rejected, duplicate, capture, w.newEvent(`4`))
		_, stop := w.start(testConfig())
		all := w.outcomes(count(1))
		stop()
		if len(all) != 1 || len(s.all()) != 1 || string(s.all()[0].body) != "4" {
			t.Errorf("outcomes %v, %d requests", statuses(all), len(s.all()))
		}
		is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 4, "committed")
	})
}

// Records that cannot be decoded go to the dead letter topic with all their data, and do not block their partition.
func TestUndecodableRecordsBecomeDeadLetters(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		_, stop := w.start(testConfig())
		broken := w.newEvent(`{"broken":1}`, "dst_1", "dst_2").Record()
		broken.Headers = slices.DeleteFunc(broken.Headers, func(h stream.Header) bool { return h.Key == "relay-v" })
		w.produce(stream.Events, 0, broken)
		w.produce(stream.Events, 0, &stream.Record{Value: []byte("not an event")})
		work := &event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 0, Run: "run_9"}
		record := must.Get(work.Record())(t)
		w.produce("retry.1s", 0, record)
		w.accept(w.newEvent(`{"good":1}`))
		all := w.outcomes(count(4))
		stop()
		is.Equal(t, w.metric("relay_dispatch_dead_letters_total", ""), 3, "dead letters are counted")
		got := statuses(all)
		slices.Sort(got)
		want := []string{"delivered", "failed undecodable", "failed undecodable", "failed undecodable"}
		is.Same(t, got, want)
		for _, outcome := range all {
			if outcome.Event == work.Event.ID && (outcome.Run != "run_9" || outcome.Dest != testDest) {
				t.Errorf("failed outcome of the undecodable command: %+v", outcome)
			}
		}
		dead := map[string]string{}
		n := 0
		w.scan(stream.Partition{Topic: stream.Dead}, func(record *stream.Record) bool {
			header := map[string]string{}
			for _, h := range record.Headers {
				header[h.Key] = string(h.Value)
			}
			if header[stream.HeaderDeadError] == "" || header[stream.HeaderDeadGroup] != stream.DispatchGroup {
				t.Errorf("dead letter without its error: %v", header)
			}
			dead[header[stream.HeaderDeadTopic]+"/"+header[stream.HeaderDeadOffset]] = string(record.Value)
			n++
			return n == 3
		})
		if d := cmp.Diff(map[string]string{"events/0": `{"broken":1}`, "events/1": "not an event", "retry.1s/0": `{}`},
			dead); d != "" {
			t.Error(d)
		}
		is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 3, "committed")
		is.Equal(t, w.committed(stream.Partition{Topic: "retry.1s"}), 1, "committed … of retry.1s")
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		d, stop := w.start(testConfig())
		time.Sleep(time.Second)
		if len(d.assignment.all()) == 0 {
			t.Error("nothing was assigned")
		}
		stop()
		is.Equal(t, len(d.assignment.all()), 0, "partitions are still here")
		held, bytes := d.lanes.InMemory()
		if held != 0 || bytes != 0 {
			t.Errorf("%d deliveries, %d bytes are still held", held, bytes)
		}
	})
	if _, err := New(Config{}, Deps{}); err == nil {
		t.Error("an empty configuration was accepted")
	}
}

// Bodies larger than one fetch pass through events and retry topics beside small ones.
func TestLargeBodies(t *testing.T) {
	bubble(t, 2, func(t *testing.T, w *bubbleWorld) {
		large := make([]byte, 3*maxFetchBytes)
		rand.Read(large)
		s := &sink{answer: func(n int, _ received) int { return []int{500, 200}[n%2] }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		const events = 20
		for i := range events {
			ev := w.spread(int32(i%2), fmt.Sprint(i))
			if i%5 == 0 {
				ev.Body = large
			}
			w.accept(ev)
		}
		w.outcomesOf(0, count(events/2, event.Delivered))
		w.outcomesOf(1, count(events/2, event.Delivered))
		whole := 0
		for _, r := range s.all() {
			if bytes.Equal(r.body, large) {
				whole++
			} else if len(r.body) > 2 {
				t.Errorf("a body of %d bytes", len(r.body))
			}
		}
		if whole < events/5 {
			t.Errorf("%d large bodies arrived", whole)
		}
	})
}

// A destination of another kind than a webhook is delivered to in the same way, beside one. What its kind says is final
// is not retried.
func TestDeliverToKafka(t *testing.T) {
	customer := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders")))(t)
	defer customer.Close()
	w := newWorld(t, 1)
	s := &sink{}
	srv := httptest.NewServer(s)
	defer srv.Close()
	endpoint := w.endpoint(srv.URL, srv.URL)
	settings := kinds.Settings{Kafka: &kinds.Kafka{Brokers: customer.ListenAddrs(), Topic: "orders", Plaintext: true,
		MaxRecord: 2000}}
	settings.Trim()
	dest := &endpoint.Destinations[1]
	dest.Settings = settings
	_, dest.URL = settings.Kind()
	w.view.put(endpoint)
	w.start(testConfig())
	w.accept(w.newEvent(`{}`, "dst_1", "dst_2"), w.newEvent(string(make([]byte, 3000)), "dst_1", "dst_2"))
	outcomes := w.outcomes(func(all []*event.Outcome) bool { return len(all) == 4 })
	got := of(outcomes, dest.ID)
	if len(got) != 2 || len(s.all()) != 2 {
		t.Fatalf("%d outcomes, %d requests", len(got), len(s.all()))
	}
	for _, outcome := range got {
		switch a := outcome.Attempt; {
		case outcome.Status == event.Delivered && a.OK && a.URL == dest.URL && a.Method == "PRODUCE":
		case outcome.Status == event.Failed && outcome.Reason == event.TooLarge && a.ErrorCode == event.CodeTooLarge:
		default:
			t.Errorf("%s %s: %+v", outcome.Status, outcome.Reason, a)
		}
	}
}

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// While the operator's proxy is down, deliveries wait: no attempt is recorded, and none of their attempts is used.
func TestProxyFaultsAreNoAttempts(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{answer: func(n int, _ received) int {
			return map[bool]int{true: 503, false: 200}[n == 1]
		}})
		began, direct := time.Now(), w.rt
		w.rt = roundTripper(func(r *http.Request) (*http.Response, error) {
			if time.Since(began) < time.Hour {
				return nil, &egress.ProxyError{}
			}
			return direct.RoundTrip(r)
		})
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy.MaxAttempts = 2
		w.view.put(endpoint)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		outcomes := w.outcomes(count(1, event.Delivered))
		var attempts int
		for _, outcome := range outcomes {
			if outcome.Attempt != nil {
				attempts++
			}
		}
		if attempts != 2 || time.Since(began) < time.Hour || outcomes[0].Status != event.Pending {
			t.Errorf("%d attempts after %v: %q", attempts, time.Since(began), statuses(outcomes))
		}
	})
}

// A use of a tripwire is not delivered. Its hit is made at once and stored some time later, and the offset waits for
// it, even if brokers reject the hit: a node that is killed meanwhile leaves the use to the next one. Events do not
// wait for it.
func TestUses(t *testing.T) {
	kafkaBubble(t, 2, func(t *testing.T, w *bubbleWorld) {
		dest := &sink{}
		url, _ := w.serve(80, dest)
		w.endpoint(url)
		var made atomic.Int64
		refused := w.refuseWith(stream.Findings, "hit a", kerr.MessageTooLarge)
		start := func() func() {
			_, stop := w.start(testConfig(), func(d *Deps) {
				d.UseHit = func(_ context.Context, e *event.Event) (int32, *stream.Record, error) {
					made.Add(1)
					switch string(e.Body) {
					case "none":
						return 0, nil, nil
					case "fails":
						return 0, nil, errors.New("no keys")
					}
					return 1, &stream.Record{Key: []byte("fnd_1"), Value: []byte("hit " + string(e.Body))}, nil
				}
			})
			return stop
		}
		use := func(body string, source event.Source) {
			t.Helper()
			e := w.newEvent(body)
			e.Source, e.Endpoint = source, "trw_1"
			w.accept(e)
		}
		wantCommitted := func(want int64) {
			t.Helper()
			time.Sleep(10 * time.Second)
			is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), want, "records are committed")
		}
		stop := start()
		use("none", event.SourceTripwire)
		use("a", event.SourceTripwire)
		w.accept(w.newEvent("x"))
		w.outcomes(count(1))
		if wantCommitted(1); made.Load() != 2 {
			t.Errorf("%d hits are made", made.Load())
		}
		stop()
		refused.Remove()
		start()
		wantCommitted(3)
		is.Equal(t, made.Load(), 3, "hits are made with those of the next node")

		use("b", event.SourceTripwireTest)
		time.Sleep(hitPause / 2)
		if synctest.Wait(); made.Load() != 4 || w.end(stream.Findings, 1) != 1 {
			t.Errorf("%d hits are made, %d stored at once", made.Load(), w.end(stream.Findings, 1))
		}
		wantCommitted(4)
		use("fails", event.SourceTripwire)
		wantCommitted(5)
		if hits, dead := w.end(stream.Findings, 1), w.end(stream.Dead, 0); hits != 2 || dead != 1 {
			t.Errorf("%d hits, and %d dead letters of a use that makes none", hits, dead)
		}
		if n := len(dest.all()); n != 1 {
			t.Errorf("%d requests, want that of the event", n)
		}
	})
}

// end returns the end offset of a partition.
func (w *world) end(topic string, index int32) int64 {
	w.tb.Helper()
	reader := must.Get(stream.NewReader(w.stream, "test"))(w.tb)
	defer reader.Close()
	ends := must.Get(reader.Ends(w.tb.Context(), topic))(w.tb)
	return ends[stream.Partition{Topic: topic, Index: index}]
}
