package web_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
)

// callOver returns what a call in the process returns when a request over HTTP makes it.
func callOver(t *testing.T, front *web.Front, next web.HandlerFunc) (*web.Recorder, *httptest.ResponseRecorder) {
	t.Helper()
	var rec *web.Recorder
	w := httptest.NewRecorder()
	page := &web.Front{}
	page.Wrap(func(_ http.ResponseWriter, r *http.Request) error {
		rec = front.Call(httptest.NewRequestWithContext(r.Context(), "GET", "/inner", nil), next)
		return nil
	}).ServeHTTP(w, httptest.NewRequest("GET", "/page", nil))
	return rec, w
}

// A call in the process keeps the id and the client of the request that makes it, has a route of its own, and answers
// errors and panics as over HTTP, also after its response has begun.
func TestCall(t *testing.T) {
	f := func(name string, next web.HandlerFunc, status int, body string, logged bool) {
		t.Helper()
		var log bytes.Buffer
		var done web.Exchange
		front := &web.Front{Log: slog.New(slog.NewTextHandler(&log, nil)), BaseURL: "https://r.example",
			Done: func(x web.Exchange) { done = x }}
		rec, outer := callOver(t, front, func(w http.ResponseWriter, r *http.Request) error {
			if info := web.InfoOf(r); info.Client.String() != "192.0.2.1" || info.Route != "" {
				t.Errorf("%s: %+v", name, info)
			}
			web.InfoOf(r).Route = "/template"
			return next(w, r)
		})
		id := outer.Header().Get("X-Request-Id")
		if rec.Status != status || done.Route != "/template" || done.Method != "GET" ||
			rec.Header().Get("X-Request-Id") != id || id == "" {
			t.Errorf("%s: status %d, Done got %+v, request id %q", name, rec.Status, done, id)
		}
		if got := rec.Body.String(); !strings.Contains(got, body) || strings.Contains(got, "begun") ||
			status >= 400 && !strings.Contains(got, `"request_id":"`+id+`"`) {
			t.Errorf("%s: %s", name, got)
		}
		if strings.Contains(rec.Body.String()+log.String(), "hunter2") || (log.Len() > 0) != logged {
			t.Errorf("%s: %s; log %s", name, &rec.Body, &log)
		}
	}
	f("good", func(w http.ResponseWriter, _ *http.Request) error {
		web.WriteJSON(w, 201, map[string]int{"a": 1})
		return nil
	}, 201, `{"a":1}`, false)
	f("nothing written", func(http.ResponseWriter, *http.Request) error { return nil }, 200, "", false)
	f("invalid", func(http.ResponseWriter, *http.Request) error { return web.Invalid("a", "b") }, 400,
		`"doc_url":"https://r.example/docs/errors#invalid_request"`, false)
	f("panic", func(http.ResponseWriter, *http.Request) error { panic("hunter2") }, 500, web.Internal, true)
	begin := func(w http.ResponseWriter) { w.WriteHeader(202); _, _ = w.Write([]byte("begun")) }
	f("panic after it began", func(w http.ResponseWriter, _ *http.Request) error {
		begin(w)
		panic("hunter2")
	}, 500, web.Internal, true)
	f("error after it began", func(w http.ResponseWriter, _ *http.Request) error {
		begin(w)
		return errors.New("detail")
	}, 500, web.Internal, true)
}

// Without a request around it a call has an id of its own and no client.
func TestCallAlone(t *testing.T) {
	inner := httptest.NewRequest("GET", "/inner", nil)
	rec := (&web.Front{}).Call(inner, func(_ http.ResponseWriter, r *http.Request) error {
		if info := web.InfoOf(r); info.Client.IsValid() || !strings.HasPrefix(info.ID, "req_") {
			t.Errorf("%+v", info)
		}
		return web.Missing("x")
	})
	is.Equal(t, rec.Status, 404, &rec.Body)
}
