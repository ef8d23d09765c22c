package dispatcher

import (
	"net/http"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

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
		other.ID, other.Destinations = "ep_2", []config.Destination{{ID: "dst_9", URL: hung, Enabled: true,
			TimeoutSeconds: 60, MaxInFlight: 4}}
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
		if fresh, err := NewSurvey(reader, testEndpoint, []int32{0}).Refresh(t.Context()); err != nil || fresh != o {
			t.Errorf("seen for the first time: %+v, %v; want %+v", fresh, err, o)
		}
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
