// Package web contains what all HTTP servers of the service share:
//
//   - web.go: Front turns a handler that returns an error into an http.Handler with request ids and timeouts. It also
//     recovers from panics and sets response headers that keep browsers from running a response. Call does the same for
//     a request made inside this process.
//   - error.go, write.go: error types, and how errors and values become responses.
//   - request.go, body.go, text.go: the client's address behind proxies, limits of headers and bodies, untrusted text.
//   - json.go: a strict JSON parser that keeps the bytes of every value.
//
// A client sees the text of an error only if a handler put it into an [Error]. An error or panic before the first byte
// becomes an error response; after it the connection is closed, so that no client takes a part for the whole. Start
// reading at Front.Wrap.
package web

import (
	"bytes"
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

// Front wraps the handlers of one HTTP server. The zero value works, but does not log.
type Front struct {
	Log *slog.Logger
	// Proxies are the networks of the proxies whose X-Forwarded-For is trusted (RELAY_TRUSTED_PROXIES).
	Proxies []netip.Prefix
	// BaseURL is the public URL, without a trailing slash. Errors link to their documentation below it.
	BaseURL string
	// BodyTimeout is how long a body may take to arrive, unless a handler sets another read deadline; zero means 30 s. It
	// also limits a body that no handler reads: net/http reads up to 256 KiB of it before it sends the response.
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may take to read the response, from its first byte on; zero means one minute. A
	// handler that streams sets its own write deadline before each write.
	WriteTimeout time.Duration
	// Respond writes the response for an error, unless it is nil: then it is JSON. The headers are set by then.
	Respond func(w http.ResponseWriter, r *http.Request, e *Error)
	// Done is called after each request, unless it is nil.
	Done func(Exchange)
}

// HandlerFunc handles a request. If it returns an error before it has written anything, Front writes the error
// response.
type HandlerFunc func(w http.ResponseWriter, r *http.Request) error

// Exchange describes a finished request, for metrics.
type Exchange struct {
	Method  string
	Route   string // the route's template, never the path: a path may contain a secret
	Status  int    // 0 if the handler wrote nothing: net/http then sends 200
	Elapsed time.Duration
	CutOff  bool // the response broke off after its first byte, by an error or a panic
}

// Info is what a Front and the router know of a request. InfoOf returns it.
type Info struct {
	ID     string            // X-Request-Id of the response
	Client netip.Addr        // see ClientAddr
	Route  string            // set by the router
	Vars   map[string]string // path parameters by name; set by the router
	// KeepBody is called with the length of each part of the body that ReadBody keeps in memory, and may refuse it; set by
	// the router, nil: it is not counted.
	KeepBody func(n int) error
	docs     string // BaseURL and DocsPath
}

type infoKey struct{}

// InfoOf returns the Info of a request. Without a Front it returns a new, empty one.
func InfoOf(r *http.Request) *Info { return InfoFrom(r.Context()) }

// InfoFrom is [InfoOf] for the context of a request.
func InfoFrom(ctx context.Context) *Info {
	if info, ok := ctx.Value(infoKey{}).(*Info); ok {
		return info
	}
	return &Info{}
}

// Wrap returns an http.Handler that calls next and writes a response for its error or panic: 500 for a panic. If the
// response has begun, it closes the connection instead.
func (f *Front) Wrap(next HandlerFunc) http.Handler {
	overTLS := strings.HasPrefix(f.BaseURL, "https://")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := &Info{ID: id.Random("req_"), Client: ClientAddr(r, f.Proxies), docs: f.BaseURL + DocsPath}
		if r.ContentLength != 0 {
			SetReadDeadline(w, time.Now().Add(cmp.Or(f.BodyTimeout, defaultBodyTimeout)))
		}
		h := w.Header()
		h["X-Request-Id"] = []string{info.ID}
		SetSandbox(h)
		if overTLS {
			h["Strict-Transport-Security"] = transportSecurity
		}
		f.serve(w, r, info, next)
	})
}

// serve calls next for a request with that Info, and answers its error or panic.
func (f *Front) serve(w http.ResponseWriter, r *http.Request, info *Info, next HandlerFunc) {
	started := time.Now()
	r = r.WithContext(context.WithValue(r.Context(), infoKey{}, info))
	res := &response{ResponseWriter: w, timeout: cmp.Or(f.WriteTimeout, defaultWriteTimeout)}
	cutOff := true
	defer func() {
		if f.Done != nil {
			f.Done(Exchange{Method: r.Method, Route: info.Route, Status: res.status, Elapsed: time.Since(started),
				CutOff: cutOff})
		}
	}()
	defer func() {
		if v := recover(); v != nil {
			f.answerPanic(res, r, v) // panics if the response has begun
		}
		cutOff = false
	}()
	if err := next(res, r); err != nil {
		f.answerError(res, r, err)
	}
}

// defaultWriteTimeout is enough for 6 MB to a client that reads 100 KB/s.
const defaultWriteTimeout = time.Minute

// transportSecurity is the HSTS header: browsers use TLS only for a year after a response over TLS (RFC 6797).
var transportSecurity = []string{"max-age=31536000"}

// SetSandbox sets the security headers of every response that is not a page of the dashboard: the dashboard has the
// same origin, so that customers' bytes in a response must not run as a page of it. It also forbids caching.
func SetSandbox(h http.Header) {
	values := []string{"sandbox; default-src 'none'", "nosniff", "no-store"} // one allocation for all three
	h["Content-Security-Policy"], h["X-Content-Type-Options"], h["Cache-Control"] = values[0:1:1], values[1:2:2],
		values[2:3:3]
}

// answerError writes the response for err. It closes the connection if the response has begun.
func (f *Front) answerError(res *response, r *http.Request, err error) {
	if !res.restart() { // closing the connection shows the client that the response is incomplete
		f.log().LogAttrs(r.Context(), slog.LevelError, "response cut off by an error", slog.String("error", err.Error()),
			slog.String("request_id", InfoOf(r).ID))
		panic(http.ErrAbortHandler)
	}
	f.writeError(res, r, err)
}

// writeError logs err and writes the response for it.
func (f *Front) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if f.Respond == nil {
		WriteError(w, r, f.log(), err)
		return
	}
	e := FromError(err)
	logError(r, f.log(), e)
	setErrorHeaders(w.Header(), e)
	f.Respond(w, r, e)
}

// answerPanic writes a 500 response, or closes the connection if the response has begun. It logs the type of the
// panic's value only: the value may contain secrets of the request.
func (f *Front) answerPanic(res *response, r *http.Request, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // compared as net/http compares it
		panic(v)
	}
	stack := make([]byte, 16<<10)
	stack = stack[:runtime.Stack(stack, false)]
	f.log().LogAttrs(r.Context(), slog.LevelError, "handler panicked",
		slog.String("type", typeName(v)), slog.String("route", InfoOf(r).Route), slog.String("request_id", InfoOf(r).ID),
		slog.String("stack", string(stack)))
	if !res.restart() {
		panic(http.ErrAbortHandler)
	}
	f.writeError(res, r, &Error{Status: http.StatusInternalServerError, Type: Internal, Message: internalMessage})
}

func (f *Front) log() *slog.Logger {
	if f.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return f.Log
}

// response records the status, so that Front knows whether the response has begun, and sets the write deadline when it
// begins. The time before that does not count: a replay may queue events for an hour before it responds.
type response struct {
	http.ResponseWriter
	timeout time.Duration
	status  int
}

// start records the first final status (not 1xx) and sets the write deadline.
func (w *response) start(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
		// The error is ignored: tests without a connection do not support deadlines.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout))
	}
}

// restart reports whether an error response can still be written. It drops what was written to a Recorder.
func (w *response) restart() bool {
	if rec, ok := w.ResponseWriter.(*Recorder); ok {
		rec.Body.Reset()
		rec.Status, w.status = 0, 0
	}
	return w.status == 0
}

func (w *response) WriteHeader(status int) {
	w.start(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	w.start(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// WriteString lets io.WriteString write without copying the string.
func (w *response) WriteString(s string) (int, error) {
	w.start(http.StatusOK)
	return io.WriteString(w.ResponseWriter, s)
}

// Unwrap lets http.ResponseController reach the wrapped ResponseWriter.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Recorder is a ResponseWriter that keeps the response in memory. The zero value is ready to use.
type Recorder struct {
	Status int // 0 until the response has begun
	Body   bytes.Buffer
	header http.Header
}

// Header returns the headers of the response.
func (w *Recorder) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// WriteHeader records the first status.
func (w *Recorder) WriteHeader(status int) {
	w.Status = cmp.Or(w.Status, status)
}

func (w *Recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.Body.Write(b)
}

// Call calls next for a request that was made inside this process, without a connection, and returns the response. The
// request gets the id and the client address of the request that its context belongs to; without one, a new id and no
// address. The response to an error or a panic is the same as over HTTP, also after the response has begun: none of it
// has left the process.
func (f *Front) Call(r *http.Request, next HandlerFunc) *Recorder {
	info := &Info{docs: f.BaseURL + DocsPath}
	if from, ok := r.Context().Value(infoKey{}).(*Info); ok {
		info.ID, info.Client = from.ID, from.Client
	} else {
		info.ID = id.Random("req_")
	}
	rec := &Recorder{}
	rec.Header()["X-Request-Id"] = []string{info.ID}
	f.serve(rec, r, info, next)
	rec.WriteHeader(http.StatusOK) // as net/http does for a handler that writes nothing
	return rec
}
