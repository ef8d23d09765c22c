// Package web holds what every HTTP surface of the service shares: errors and the one place where they
// become an answer, request ids, the headers that keep an answer from being run by a browser, panics,
// the address of a client behind proxies, bounds on header blocks and bodies, texts of strangers as they
// may be shown, and a strict reader of JSON that keeps the bytes of every value.
//
// In flows a handler that returns an error; out flows an http.Handler that answers every request, also
// one that panics, in the shape of the contract. No error text of ours reaches a client unless a handler
// put it into an [Error].
package web

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Front stands before the handlers of one surface. The zero value works but logs nowhere.
type Front struct {
	Log *slog.Logger
	// Proxies are the networks whose X-Forwarded-For counts (RELAY_TRUSTED_PROXIES).
	Proxies []netip.Prefix
	// BaseURL is the public address, without a trailing slash; errors link to their explanation there.
	BaseURL string
	// BodyTimeout is how long a body may take to arrive, however slowly, unless a handler sets another end; zero for
	// 30 s. It bounds a body that no handler reads too: net/http reads on for a while before it sends an answer.
	BodyTimeout time.Duration
	// WriteTimeout is how long the answer may take to be read, from its first byte on; zero for a minute. A handler whose
	// answer goes on sets a write deadline of its own before each write.
	WriteTimeout time.Duration
	// Done is told of every request after its answer; nil for nobody.
	Done func(Exchange)
}

// HandlerFunc answers a request or returns why it could not.
type HandlerFunc func(w http.ResponseWriter, r *http.Request) error

// Exchange is what is known of a request when it has been answered.
type Exchange struct {
	Method  string
	Route   string // the template, never the path: paths may be capabilities
	Status  int
	Elapsed time.Duration
}

// Info goes with a request from its beginning.
type Info struct {
	ID     string            // X-Request-Id of the answer
	Client netip.Addr        // see ClientAddr
	Route  string            // set by the router
	Vars   map[string]string // the values in the path, by their names in the route; set by the router
	docs   string            // absolute address of DocsPath
}

type infoKey struct{}

// InfoOf is what the Front knows of the request. Outside of a Front it is empty and of no effect.
func InfoOf(r *http.Request) *Info {
	if info, ok := r.Context().Value(infoKey{}).(*Info); ok {
		return info
	}
	return &Info{}
}

// Wrap makes next an http.Handler.
func (f *Front) Wrap(next HandlerFunc) http.Handler {
	overTLS := strings.HasPrefix(f.BaseURL, "https://")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		info := &Info{ID: id.Random("req_"), Client: ClientAddr(r, f.Proxies), docs: f.BaseURL + DocsPath}
		r = r.WithContext(context.WithValue(r.Context(), infoKey{}, info))
		res := &response{ResponseWriter: w, timeout: cmp.Or(f.WriteTimeout, defaultWriteTimeout)}
		if r.ContentLength != 0 {
			SetReadDeadline(w, time.Now().Add(cmp.Or(f.BodyTimeout, defaultBodyTimeout)))
		}
		h := w.Header()
		h["X-Request-Id"] = []string{info.ID}
		SetSandbox(h)
		if overTLS {
			h["Strict-Transport-Security"] = transportSecurity
		}
		defer func() {
			if v := recover(); v != nil {
				f.answerPanic(res, r, v)
			}
			if f.Done != nil {
				f.Done(Exchange{Method: r.Method, Route: info.Route, Status: res.status, Elapsed: time.Since(started)})
			}
		}()
		if err := next(res, r); err != nil {
			f.answerError(res, r, err)
		}
	})
}

// defaultWriteTimeout bounds an answer of 6 MiB to a client that reads 100 KB a second.
const defaultWriteTimeout = time.Minute

// transportSecurity lets browsers that have seen the service over TLS never ask for it without, for a year.
var transportSecurity = []string{"max-age=31536000"}

// SetSandbox sets the headers of everything that is not a page of the dashboard: the host is shared with
// it, so nothing that is answered here may run as one of its pages, whatever bytes a customer put into it.
func SetSandbox(h http.Header) {
	values := []string{"sandbox; default-src 'none'", "nosniff", "no-store"} // one piece of memory
	h["Content-Security-Policy"], h["X-Content-Type-Options"], h["Cache-Control"] = values[0:1:1], values[1:2:2],
		values[2:3:3]
}

func (f *Front) answerError(res *response, r *http.Request, err error) {
	if res.status != 0 { // the answer has begun: it can only be cut off, so that nobody takes it for whole
		f.log().LogAttrs(r.Context(), slog.LevelError, "answer broke off", slog.String("error", err.Error()),
			slog.String("request_id", InfoOf(r).ID))
		panic(http.ErrAbortHandler)
	}
	WriteError(res, r, f.log(), err)
}

// panicked answers 500. The value of a panic may hold anything a request held: only its type is logged.
func (f *Front) answerPanic(res *response, r *http.Request, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // compared as net/http compares it
		panic(v)
	}
	stack := make([]byte, 16<<10)
	stack = stack[:runtime.Stack(stack, false)]
	f.log().LogAttrs(r.Context(), slog.LevelError, "handler panicked",
		slog.String("type", typeName(v)), slog.String("route", InfoOf(r).Route), slog.String("request_id", InfoOf(r).ID),
		slog.String("stack", string(stack)))
	if res.status != 0 {
		panic(http.ErrAbortHandler)
	}
	WriteError(res, r, nil, &Error{Status: http.StatusInternalServerError, Type: Internal, Message: internalMessage})
}

func (f *Front) log() *slog.Logger {
	if f.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return f.Log
}

// response remembers the status, so that an error after the first byte is not written into the answer, and bounds the
// time of writing. It begins with the answer: a call may run for long before that, as a replay that queues for an hour
// does.
type response struct {
	http.ResponseWriter
	timeout time.Duration
	status  int
}

func (w *response) start(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
		// Where that cannot be done, as in tests without a connection, nothing has to be bounded.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout))
	}
}

func (w *response) WriteHeader(status int) {
	w.start(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	w.start(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// WriteString spares io.WriteString a copy.
func (w *response) WriteString(s string) (int, error) {
	w.start(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// Unwrap lets http.ResponseController through.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
