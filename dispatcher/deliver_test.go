package dispatcher

import (
	"net/http/httptest"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

func TestDeliver(t *testing.T) {
	w := newWorld(t, 1)
	s := &sink{}
	srv := httptest.NewServer(s)
	defer srv.Close()
	w.endpoint(srv.URL)
	_, stop := w.start(testConfig())
	w.accept(w.newEvent(`{"a":1}`), w.newEvent(`{"a":2}`))
	got := w.outcomes(count(2, event.Delivered))
	if len(got) != 2 || got[0].Attempt == nil || !got[0].Attempt.OK || got[0].Code != 200 {
		t.Fatalf("outcomes: %+v", got)
	}
	stop()
	must.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), 2, "committed offset")
	if r := s.all(); len(r) != 2 {
		t.Fatalf("%d requests, want 2", len(r))
	}
}

func TestRetryUntilDelivered(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{answer: func(n int, _ received) int {
			if n < 3 {
				return 503
			}
			return 204
		}})
		w.endpoint(url)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		got := w.outcomes(count(1, event.Delivered))
		if len(got) != 3 || got[0].Status != event.Retrying || got[1].Status != event.Retrying {
			t.Fatalf("outcomes: %+v", got)
		}
		failed, delivered := got[0].Attempt, got[2].Attempt
		if failed.ErrorMessage != "the destination answered 503 Service Unavailable" || delivered.ErrorMessage != "" {
			t.Errorf("the attempts say %q and %q", failed.ErrorMessage, delivered.ErrorMessage)
		}
	})
}
