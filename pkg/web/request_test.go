package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestClientAddr(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	f := func(peer string, want string, forwarded ...string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = peer
		for _, line := range forwarded {
			r.Header.Add("X-Forwarded-For", line)
		}
		if got := web.ClientAddr(r, proxies); got.String() != want {
			t.Errorf("peer %s, forwarded %q: %s, want %s", peer, forwarded, got, want)
		}
	}
	f("203.0.113.9:4711", "203.0.113.9")
	f("203.0.113.9:4711", "203.0.113.9", "198.51.100.1") // the peer is no proxy: its header is ignored
	f("10.0.0.1:1", "10.0.0.1")                          // a proxy that forwards nothing
	f("10.0.0.1:1", "198.51.100.1", "198.51.100.1")
	f("10.0.0.1:1", "198.51.100.1", "1.1.1.1, 198.51.100.1, 10.2.3.4")
	f("10.0.0.1:1", "198.51.100.1", "1.1.1.1", "198.51.100.1", "10.2.3.4") // several header lines are one list
	f("10.0.0.1:1", "10.9.9.9", "10.9.9.9, 10.2.3.4")                      // only proxies: the left-most
	f("10.0.0.1:1", "10.2.3.4", "8.8.8.8, garbage, 10.2.3.4")
	f("10.0.0.1:1", "2001:db8::1", "[2001:db8::1]:443")
	f("10.0.0.1:1", "198.51.100.1", "198.51.100.1:55")
	f("[fd00::1]:1", "198.51.100.1", "::ffff:198.51.100.1")
	f("[::ffff:10.0.0.1]:1", "198.51.100.1", "198.51.100.1")
	f("@", "invalid IP")
}

// A client of IPv6 counts as its /64.
func TestNetworkOf(t *testing.T) {
	for client, want := range map[string]string{
		"198.51.100.1": "198.51.100.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "2001:db8:1:3::": "2001:db8:1:3::"} {
		if got := web.NetworkOf(netip.MustParseAddr(client)); got.String() != want {
			t.Errorf("%s counts as %s, want %s", client, got, want)
		}
	}
	if web.NetworkOf(netip.Addr{}).IsValid() {
		t.Error("a client without address has a network")
	}
}

func TestHostName(t *testing.T) {
	for host, want := range map[string]string{
		"": "", "AZ.Example.com": "az.example.com", "a.example:8443": "a.example", "A.example.:443": "a.example",
		"[::1]:443": "::1", "[2001:DB8::A]": "2001:db8::a", "a.\u212aexample@[`{": "a.\u212aexample@[`{"} {
		is.Equal(t, web.HostName(host), want, "%q is", host)
	}
}

func TestCheckHeader(t *testing.T) {
	f := func(lines, size int, ok bool) {
		t.Helper()
		r := httptest.NewRequest("GET", "/", nil)
		for range lines {
			r.Header.Add("X-A", strings.Repeat("v", size))
		}
		if err := web.CheckHeader(r); (err == nil) != ok {
			t.Errorf("%d lines of %d bytes: %v", lines, size, err)
		}
	}
	f(200, 1, true)
	f(201, 1, false)
	f(10_000, 1, false)
	f(1, 64<<10-len("X-A: \r\n"), true)
	f(1, 64<<10-len("X-A: \r\n")+1, false)
}

func TestHeaderFieldsKeepOrderWithinAName(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header = http.Header{"X-B": {"2", "1"}, "X-A": {""}, "Accept": {"*/*"}}
	want := []event.Field{{Name: "Accept", Value: "*/*"}, {Name: "Host", Value: "example.com"}, {Name: "X-A"},
		{Name: "X-B", Value: "2"}, {Name: "X-B", Value: "1"}}
	is.Same(t, web.HeaderFields(r), want)
	r.Host = ""
	is.Same(t, web.HeaderFields(r), slices.Delete(want, 1, 2))
}

func TestCheckContentType(t *testing.T) {
	f := func(ok bool, headers ...string) {
		t.Helper()
		const chunked = -1
		for _, body := range []string{"{}", ""} {
			for _, length := range []int64{int64(len(body)), chunked} {
				r := httptest.NewRequest("POST", "/", strings.NewReader(body))
				r.ContentLength = length
				for i := 0; i < len(headers); i += 2 {
					r.Header.Add(headers[i], headers[i+1])
				}
				if err := web.CheckContentType(r); (err == nil) != (ok || body == "") {
					t.Errorf("%q, %d bytes of %q: %v", headers, length, body, err)
				}
			}
		}
	}
	f(true)
	for _, good := range []string{
		"", "application/json", "Application/JSON; charset=utf-8", "application/cloudevents+json", "application/json; =x"} {
		f(true, "Content-Type", good)
	}
	for _, bad := range []string{"text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json",
		"multipart/form-data; boundary=x"} {
		f(false, "Content-Type", bad)
	}
	f(false, "Content-Type", "application/json", "Content-Type", "text/plain")
	r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
	r.Header["Content-Type"] = []string{"application/json", "application/json"}
	is.Failed(t, web.CheckContentType(r), "is sent 2 times; send one header")
	f(false, "Content-Encoding", "gzip")
	f(true, "Content-Encoding", "identity")

	// The body of a request that is accepted is not touched.
	r = httptest.NewRequest("POST", "/", strings.NewReader("{}"))
	r.ContentLength = -1
	is.OK(t, web.CheckContentType(r))
	if body, err := io.ReadAll(r.Body); string(body) != "{}" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	for kind, want := range map[string]bool{"application/json": false, web.NDJSONType + "; charset=utf-8": true} {
		r.Header.Set("Content-Type", kind)
		if lines, err := web.CheckBatchType(r); lines != want || err != nil {
			t.Errorf("%s: %t, %v", kind, lines, err)
		}
	}
}

func TestReadBodyBounds(t *testing.T) {
	f := func(body string, length int64, limit int64, kind string) {
		t.Helper()
		r := httptest.NewRequest("POST", "/", io.NopCloser(strings.NewReader(body)))
		r.ContentLength = length
		var buf bytes.Buffer
		err := web.ReadBody(r, &buf, limit)
		got := ""
		if err != nil {
			got = web.FromError(err).Type
		}
		if got != kind || err == nil && buf.String() != body {
			t.Errorf("body of %d bytes, Content-Length %d, limit %d: %v", len(body), length, limit, err)
		}
	}
	f("", 0, 10, "")
	f("0123456789", 10, 10, "")
	f("0123456789", -1, 10, "")
	f("0123456789a", 11, 10, web.PayloadTooLarge)
	f("0123456789a", -1, 10, web.PayloadTooLarge)
	f("", 1<<40, 10, web.PayloadTooLarge)

	// Nothing is read of a body that its client has not sent yet.
	for _, length := range []int64{11, -1} {
		body := strings.NewReader("0123456789abcdef")
		r := httptest.NewRequest("POST", "/", io.NopCloser(body))
		r.ContentLength = length
		r.Header.Set("Expect", "100-continue")
		if err := web.ReadBody(r, new(bytes.Buffer), 10); web.FromError(err).Type != web.PayloadTooLarge || body.Len() < 5 {
			t.Errorf("Content-Length %d: %v, %d bytes are left", length, err, body.Len())
		}
	}
}

// KeepBody is called with the size of each part of a body that is read, and its error ends the request.
func TestKeepBody(t *testing.T) {
	full := web.ServiceUnavailable(nil, "busy")
	kept := 0
	front := &web.Front{}
	r := httptest.NewRequest("POST", "/", io.NopCloser(iotest.OneByteReader(strings.NewReader("0123456789"))))
	rec := front.Call(r, func(_ http.ResponseWriter, r *http.Request) error {
		web.InfoOf(r).KeepBody = func(n int) error {
			if kept += n; kept > 4 {
				return full
			}
			return nil
		}
		return web.ReadBody(r, new(bytes.Buffer), 100)
	})
	if kept != 5 || rec.Status != 503 || !strings.Contains(rec.Body.String(), "busy") {
		t.Errorf("%d bytes are kept: %d %s", kept, rec.Status, &rec.Body)
	}
}

// failing is a body that ends too early.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestReadBodyCutOff(t *testing.T) {
	r := httptest.NewRequest("POST", "/", failing{})
	if err := web.ReadBody(r, new(bytes.Buffer), 10); web.FromError(err).Status != 400 ||
		web.FromError(err).Type != web.InvalidRequest || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
}

func TestFront(t *testing.T) {
	f := func(name string, h web.HandlerFunc, status int, kind string, logged bool) {
		t.Helper()
		var log bytes.Buffer
		var done web.Exchange
		front := &web.Front{Log: slog.New(slog.NewTextHandler(&log, nil)), BaseURL: "https://r.example",
			Done: func(x web.Exchange) { done = x }}
		w := httptest.NewRecorder()
		front.Wrap(h).ServeHTTP(w, httptest.NewRequest("GET", "/secret-path", nil))
		for header, want := range map[string]string{
			"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff",
			"Cache-Control": "no-store"} {
			is.Equal(t, w.Header().Get(header), want, "%s: %s is", name, header)
		}
		id := w.Header().Get("X-Request-Id")
		if w.Code != status || done.Status != status || done.CutOff || id == "" {
			t.Errorf("%s: status %d, Done got %d, request id %q", name, w.Code, done.Status, id)
		}
		if kind != "" {
			var body struct {
				Error struct {
					Type, Message, Param string
					Doc                  string `json:"doc_url"`
					Request              string `json:"request_id"`
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error.Type != kind || body.Error.Request != id ||
				body.Error.Doc != "https://r.example/docs/errors#"+kind || body.Error.Message == "" ||
				w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: %v\n%s", name, err, w.Body)
			}
		}
		if strings.Contains(w.Body.String()+log.String(), "hunter2") || strings.Contains(log.String(), "secret-path") {
			t.Errorf("%s: the response or the log contains a secret: %s %s", name, w.Body, log.String())
		}
		if (log.Len() > 0) != logged {
			t.Errorf("%s: log %q", name, log.String())
		}
	}
	f("good", func(w http.ResponseWriter, _ *http.Request) error {
		web.WriteJSON(w, 201, map[string]int{"a": 1})
		return nil
	}, 201, "", false)
	f("no WriteHeader", func(w http.ResponseWriter, _ *http.Request) error { _, err := w.Write([]byte("x")); return err },
		200, "", false)
	f("no WriteHeader, a string", func(w http.ResponseWriter, _ *http.Request) error {
		_, err := io.WriteString(
			w, "x")
		return err
	}, 200, "", false)
	f("invalid", func(http.ResponseWriter, *http.Request) error {
		return web.Invalid("a", "b")
	}, 400, web.InvalidRequest, false)
	f("wrapped", func(http.ResponseWriter, *http.Request) error {
		return fmt.Errorf("x: %w", web.WrongState("a", "b"))
	}, 400, web.InvalidState, false)
	f("missing", func(http.ResponseWriter, *http.Request) error { return web.Missing("x") }, 404, web.NotFound, false)
	f("unavailable, with a cause", func(http.ResponseWriter, *http.Request) error {
		return web.ServiceUnavailable(errors.New("x"), "y")
	}, 503, web.Unavailable, true)
	f("unavailable, without a cause", func(http.ResponseWriter, *http.Request) error {
		return web.ServiceUnavailable(nil, "y")
	}, 503, web.Unavailable, false)
	f("deadline", func(http.ResponseWriter, *http.Request) error {
		return context.DeadlineExceeded
	}, 504, web.Timeout, true)
	f("unknown", func(http.ResponseWriter, *http.Request) error { return errors.New("detail") }, 500, web.Internal, true)
	f("panic", func(http.ResponseWriter, *http.Request) error { panic("hunter2") }, 500, web.Internal, true)
	f("runtime error", func(http.ResponseWriter, *http.Request) error {
		return []error{}[len("hunter2")]
	}, 500, web.Internal, true)
}

// The message contains the parameter, for clients that show the message only.
func TestMessageNamesItsParameter(t *testing.T) {
	f := func(param, shown, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		web.WriteError(w, httptest.NewRequest("GET", "/", nil), nil, web.Invalid(param, "must be a string"))
		var body struct {
			Error struct{ Message, Param string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error.Message != want ||
			body.Error.Param != shown {
			t.Errorf("%v %s", err, w.Body)
		}
	}
	f("destinations[0].url", "destinations[0].url", "destinations[0].url: must be a string")
	f("", "", "must be a string")
	// A parameter is cut to 200 bytes, between characters.
	f(strings.Repeat("x", 200), strings.Repeat("x", 200), strings.Repeat("x", 200)+": must be a string")
	cut := strings.Repeat("x", 197) + "…"
	f(strings.Repeat("x", 300), cut, cut+": must be a string")
	f("x"+strings.Repeat("ü", 150), "x"+strings.Repeat("ü", 98)+"…", "x"+strings.Repeat("ü", 98)+"…: must be a string")
}

func TestErrorHeaders(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/", nil)
	web.WriteError(w, r, nil, &web.Error{Status: 401, Type: web.InvalidAPIKey})
	if w.Header().Get("WWW-Authenticate") != "Bearer" || w.Header().Get("Retry-After") != "" ||
		strings.Contains(w.Body.String(), "queued") {
		t.Errorf("401: %v %s", w.Header(), w.Body)
	}
	w = httptest.NewRecorder()
	web.WriteError(w, r, nil,
		&web.Error{Status: 503, Type: web.Unavailable, RetryAfter: 1100 * time.Millisecond, Run: "run_1", Code: "slow"})
	if w.Header().Get("Retry-After") != "2" || w.Header().Get("WWW-Authenticate") != "" ||
		!strings.Contains(w.Body.String(), `"code":"slow","run_id":"run_1","queued":0`) {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	if e := web.ServiceUnavailable(nil, "y"); e.RetryAfter != time.Second {
		t.Errorf("try again after %v", e.RetryAfter)
	}
	if e := web.WrongState("a", "is %d", 1); e.Param != "a" || e.Message != "is 1" ||
		e.Error() != "invalid_state a: is 1" {
		t.Errorf("%+v", e)
	}
}

// A handler that aborts writes no response, and what it aborts is not reported as a panic.
func TestAbort(t *testing.T) {
	var log bytes.Buffer
	w := httptest.NewRecorder()
	front := &web.Front{Log: slog.New(slog.NewTextHandler(&log, nil))}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler || log.Len() > 0 || w.Body.Len() > 0 { //nolint:errorlint // as net/http
			t.Errorf("%v; log %s; response %s", v, &log, w.Body)
		}
	}()
	front.Wrap(func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }).
		ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
}

// An interim response is not the response.
func TestInterimStatus(t *testing.T) {
	var done web.Exchange
	front := &web.Front{Done: func(x web.Exchange) { done = x }}
	front.Wrap(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusEarlyHints)
		return web.Missing("x")
	}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	is.Equal(t, done.Status, 404, "%+v", done)
}

// Responses keep < and >, and a value that is no JSON is a bug.
func TestEncode(t *testing.T) {
	is.Equal(t, string(web.Encode("<a>&")), "\"<a>&\"\n")
	defer func() {
		if recover() == nil {
			t.Error("a function is encoded")
		}
	}()
	web.Encode(func() {})
}

// net/http reads the rest of a body before it sends the response. A client that stops sending in the middle must not
// keep its connection longer than BodyTimeout, even if the handler does not read the body.
func TestUnreadSlowBodyTimesOut(t *testing.T) {
	front := &web.Front{BodyTimeout: 50 * time.Millisecond}
	srv := httptest.NewServer(front.Wrap(func(http.ResponseWriter, *http.Request) error { return web.Missing("x") }))
	defer srv.Close()
	for _, framing := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
		conn := must.Get(net.Dial("tcp", srv.Listener.Addr().String()))(t)
		defer conn.Close()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", framing)
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		answer, err := io.ReadAll(conn) // to the end of the connection
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 404 ") {
			t.Errorf("%s: %q, %v", framing, answer, err)
		}
	}
}

// BodyTimeout does not limit how long a handler runs: the read deadline ends with the last byte of the body.
func TestBodyDeadlineEndsWithTheBody(t *testing.T) {
	front := &web.Front{BodyTimeout: 50 * time.Millisecond}
	srv := httptest.NewServer(front.Wrap(func(w http.ResponseWriter, r *http.Request) error {
		if err := web.ReadBody(r, new(bytes.Buffer), 10); err != nil {
			return err
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(200 * time.Millisecond):
		}
		web.WriteJSON(w, http.StatusOK, nil)
		return nil
	}))
	defer srv.Close()
	res := must.Get(srv.Client().Post(srv.URL, "application/json", strings.NewReader("{}")))(t)
	res.Body.Close()
	must.Equal(t, res.StatusCode, http.StatusOK, res.Status)
}

// An error after the first byte closes the connection, so that the client does not take a part for the whole response.
func TestErrorAfterTheFirstByteBreaksTheConnection(t *testing.T) {
	done := make(chan web.Exchange, 1)
	front := &web.Front{Done: func(x web.Exchange) { done <- x }}
	srv := httptest.NewServer(front.Wrap(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(200)
		_, _ = w.Write([]byte(`{"data":[`))
		if r.URL.Path == "/panic" {
			panic("store broke off")
		}
		return errors.New("store broke off")
	}))
	defer srv.Close()
	for _, path := range []string{"/error", "/panic"} {
		if res, err := srv.Client().Get(srv.URL + path); err == nil { // else closed before the headers, which is fine too
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err == nil {
				t.Fatalf("%s: the client got a complete response: %q", path, b)
			}
		}
		if x := <-done; !x.CutOff || x.Status != 200 {
			t.Errorf("%s is counted as %+v", path, x)
		}
	}
}

func TestTime(t *testing.T) {
	b, err := json.Marshal([]web.Time{
		{}, web.Time(time.Date(2026, 8, 21, 22, 24, 36, 123_999_999, time.FixedZone("", 3600)))})
	if err != nil || string(b) != `[null,"2026-08-21T21:24:36.123Z"]` {
		t.Fatalf("%s %v", b, err)
	}
	var read []web.Time
	if err := json.Unmarshal(b, &read); err != nil || !read[0].IsZero() || read[0].String() != "" ||
		read[1].String() != "2026-08-21T21:24:36.123Z" {
		t.Errorf("%v %v", read, err)
	}
	if err := json.Unmarshal([]byte(`["yesterday"]`), &read); err == nil {
		t.Error("a text that is no time is read")
	}
}

// A client that sends all of a body that is too large before it reads the response gets the error, not a broken pipe.
func TestErrorReachesClientThatSendsWholeBody(t *testing.T) {
	front := &web.Front{}
	srv := httptest.NewUnstartedServer(front.Wrap(func(_ http.ResponseWriter, r *http.Request) error {
		return web.ReadBody(r, new(bytes.Buffer), 1<<20)
	}))
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetReadBuffer(64 << 10) // else some systems keep all of the body for a server that reads nothing
		return ctx
	}
	srv.Start()
	defer srv.Close()
	conn := must.Get(net.Dial("tcp", srv.Listener.Addr().String()))(t)
	defer conn.Close()
	const size = 8 << 20
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
	must.Get(io.CopyN(conn, zeros{}, size))(t)
	res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer res.Body.Close()
	is.Equal(t, res.StatusCode, 400, "status")
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// The cookies of a dashboard are removed, whatever stands beside them; those that only look like them stay.
func TestWithoutSessions(t *testing.T) {
	for value, want := range map[string]string{
		"relay-0123abcd=x":                      "",
		"a=1; __Host-relay-0123abcd=x; b=2":     "a=1; b=2",
		"relay-0123abcd-toast=x;b=2":            "b=2",
		"relay-0123abcd":                        "",
		"my-relay-0123abcd=x; relay-mode=fast":  "my-relay-0123abcd=x; relay-mode=fast",
		"relay-0123abcdef=x; theme=relay-light": "relay-0123abcdef=x; theme=relay-light",
	} {
		got := web.WithoutSessions([]event.Field{{Name: "Accept", Value: "relay-0123abcd=x"}, {Name: "Cookie", Value: value},
			{Name: "Cookie", Value: "relay-0123abcd=y"}, {Name: "Host", Value: "h"}})
		all := []event.Field{{Name: "Accept", Value: "relay-0123abcd=x"}, {Name: "Cookie", Value: want},
			{Name: "Host", Value: "h"}}
		if want == "" {
			all = slices.Delete(all, 1, 2)
		}
		is.List(t, got, all, value)
	}
}
