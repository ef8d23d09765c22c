package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A Front with Respond writes errors and panics in another form; what is logged and sent as headers stays the same.
func TestRespondWritesErrors(t *testing.T) {
	var log strings.Builder
	front := &Front{Log: slog.New(slog.NewTextHandler(&log, nil)),
		Respond: func(w http.ResponseWriter, r *http.Request, e *Error) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(e.Status)
			fmt.Fprintf(w, "<h1>%s %s", e.Message, InfoOf(r).ID)
		}}
	for name, c := range map[string]struct {
		handle HandlerFunc
		status int
		text   string
		logged string
	}{
		"error": {func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Length", "100")
			return &Error{Status: 503, Message: "wait", RetryAfter: 1500 * time.Millisecond, Err: errors.New("the cause")}
		}, 503, "wait", "the cause"},
		"panic": {func(http.ResponseWriter, *http.Request) error {
			panic("secret")
		}, 500, internalMessage, "handler panicked"},
	} {
		log.Reset()
		w := httptest.NewRecorder()
		front.Wrap(c.handle).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		id := w.Header().Get("X-Request-Id")
		if w.Code != c.status || w.Body.String() != "<h1>"+c.text+" "+id || w.Header().Get("Content-Type") != "text/html" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if !strings.Contains(log.String(), c.logged) || !strings.Contains(log.String(), id) {
			t.Errorf("%s is logged as %s", name, log.String())
		}
		if got := w.Header().Get("Retry-After"); (got == "2") != (c.status == 503) ||
			w.Header().Get("WWW-Authenticate") != "" || w.Header().Get("Content-Length") != "" {
			t.Errorf("%s: the headers are %v", name, w.Header())
		}
	}
}

// Clients can ask again as fast as they like while something is unavailable: that writes one warning a second.
func TestUnavailableIsLoggedOnceASecond(t *testing.T) {
	var log strings.Builder
	synctest.Test(t, func(*testing.T) {
		lastUnavailable.Store(0)
		lines := slog.New(slog.NewTextHandler(&log, nil))
		for range 30 {
			WriteError(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), lines,
				&Error{Status: 503, Err: errors.New("the cause")})
			time.Sleep(100 * time.Millisecond)
		}
	})
	warned, all := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "\n")
	if warned != 3 || all != 3 {
		t.Errorf("%d warnings in %d lines: %s", warned, all, log.String())
	}
}
