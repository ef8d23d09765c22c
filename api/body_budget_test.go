package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
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
		go func() {
			w := httptest.NewRecorder()
			c.api.Handler().ServeHTTP(w, r)
			body.Close()
			answered <- w.Code
		}()
		go rest.Write([]byte(`{"data":"` + strings.Repeat("a", part)))
		for range 500 { // until it has arrived, or is answered
			if held() >= before+part-4<<10 || len(answered) > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return answered, func() { rest.CloseWithError(io.ErrUnexpectedEOF) }
	}
	want := func(what string, answered <-chan int, want int) {
		t.Helper()
		got, patience := 0, 10*time.Second
		if want == 0 {
			patience = 300 * time.Millisecond
		}
		select {
		case got = <-answered:
		case <-time.After(patience):
		}
		if got != want {
			t.Errorf("%s: status %d, want %d", what, got, want)
		}
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
	for range 500 {
		if held() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d bytes and keys stay", held())
}
