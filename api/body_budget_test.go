package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// Bodies that hardly arrive take a part of the memory for bodies: those of one key, which may only read, leave room for
// others, and all of them together are bounded. What they have taken is free when they end.
func TestBodiesThatStallAreBounded(t *testing.T) {
	c := newClient(t)
	e := "/v1/endpoints/" + c.endpoint(nil).text("id")
	const part = 40 << 10
	held := api.BoundBodies(c.api, 5*part/2, 3*part/2) // a few kilobytes of each are not counted
	// stall sends a part of a body, and returns what the answer is as soon as there is one, and how to end the body.
	stall := func(key, path string) (status <-chan int, end func()) {
		body, rest := io.Pipe()
		r := httptest.NewRequest(http.MethodPost, e+path, body)
		r.Header.Set("Authorization", "Bearer "+key)
		answered := make(chan int, 1)
		before := held()
		awaitLease()
		go func() {
			w := httptest.NewRecorder()
			c.api.Handler().ServeHTTP(w, r)
			body.Close()
			answered <- w.Code
		}()
		go rest.Write([]byte(`{"data":"` + strings.Repeat("a", part)))
		kit.WaitFor(t, "the body has arrived, or is answered", func() bool {
			return held() >= before+part-4<<10 || len(answered) > 0
		})
		return answered, func() { rest.CloseWithError(io.ErrUnexpectedEOF) }
	}
	want := func(what string, answered <-chan int, want int) {
		t.Helper()
		got, patience := 0, time.Minute
		if want == 0 { // no answer
			patience = 100 * time.Millisecond
		}
		select {
		case got = <-answered:
		case <-time.After(patience):
		}
		is.Equal(t, got, want, "%s: status", what)
	}
	const preview = "/transformation/preview"
	first, end := stall(readKey, preview)
	want("the first body", first, 0)
	more, _ := stall(readKey, preview)
	want("another of that key", more, http.StatusTooManyRequests)
	other, endOther := stall(writeKey, "/events")
	want("one of another key", other, 0)
	api.BoundBodies(c.api, 5*part/2, 5*part)
	more, _ = stall(writeKey, "/test")
	want("one more than the node has room for", more, http.StatusServiceUnavailable)
	end()
	endOther()
	want("a body that was cut off", first, http.StatusBadRequest)
	want("one of another key that was cut off", other, http.StatusBadRequest)
	kit.WaitFor(t, "no bytes and keys stay", func() bool { return held() == 0 })
}
