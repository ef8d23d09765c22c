package webhook

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/must"
)

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// h2 behaves like net/http over HTTP/2: a connection, a wait for a stream, the header, an answer.
func h2(connect, stream, answer time.Duration) roundTripper {
	return func(r *http.Request) (*http.Response, error) {
		ctx, hooks := r.Context(), httptrace.ContextClientTrace(r.Context())
		for _, step := range []struct {
			takes time.Duration
			then  func()
		}{
			{connect, func() { hooks.GotConn(httptrace.GotConnInfo{Conn: noConn{}}) }},
			{stream, func() { hooks.WroteHeaders() }},
			{answer, func() { hooks.GotFirstResponseByte() }},
		} {
			timer := time.NewTimer(step.takes)
			select {
			case <-timer.C:
				step.then()
			case <-ctx.Done():
				timer.Stop()
				return nil, ctx.Err()
			}
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
	}
}

// The time-out of an attempt covers connecting and the answer. Waiting for a stream of an HTTP/2 connection has a
// bound of its own.
func TestStreamWaitIsNoTimeout(t *testing.T) {
	f := func(connect, stream, answer time.Duration, message string, duration, total time.Duration) {
		t.Helper()
		var code event.ErrorCode
		if message != "" {
			code = event.CodeTimeout
		}
		synctest.Test(t, func(t *testing.T) {
			work := testWork(t, []byte("{}"))
			target := testTarget(t, "https://example.com/h", sign.NewSecret())
			target.Timeout = 10 * time.Second
			began := time.Now()
			c := newTestClient(h2(connect, stream, answer))
			attempt := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
			if attempt.ErrorCode != code || attempt.ErrorMessage != message || attempt.Duration != duration ||
				time.Since(began) != total {
				t.Errorf("connect %v, stream %v, answer %v: %q %q, %v of %v, want %q, %v of %v", connect, stream, answer,
					attempt.ErrorCode, attempt.ErrorMessage, attempt.Duration, time.Since(began), message, duration, total)
			}
		})
	}
	const s = time.Second
	f(0, 0, 9*s, "", 9*s, 9*s)
	f(0, 0, 11*s, "no answer of the destination within 10s", 10*s, 10*s)
	f(11*s, 0, 0, "no connection to the destination within 10s", 10*s, 10*s)
	f(1*s, 8*s, 8*s, "", 9*s, 17*s)
	f(1*s, 9*s+s/2, 8*s, "", 9*s, 18*s+s/2)
	f(1*s, 9*s+s/2, 10*s, "no answer of the destination within 10s", 10*s, 19*s+s/2)
	f(1*s, 30*s, 0, "the destination gave the request no HTTP/2 stream within 10s", 1*s, 11*s)
}

// A request that waits because the node has no free open files has its whole time-out afterwards.
func TestWaitForOpenFilesIsNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited := newWaited()
		c := newTestClient(h2(0, 0, 8*time.Second))
		c.sender = destination.NewSender(time.Now, 1, waited, nil)
		target := testTarget(t, "https://example.com/h", sign.NewSecret())
		target.Timeout = 10 * time.Second
		var wg sync.WaitGroup
		for range 3 {
			work := testWork(t, []byte("{}"))
			wg.Go(func() {
				if attempt := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work)); attempt.Code != 200 ||
					attempt.Duration != 8*time.Second {
					t.Errorf("%d %s after %v", attempt.Code, attempt.ErrorCode, attempt.Duration)
				}
			})
		}
		wg.Wait()
		registry := prometheus.NewRegistry()
		registry.MustRegister(waited)
		families := must.Get(registry.Gather())(t)
		if sum := families[0].GetMetric()[0].GetHistogram().GetSampleSum(); sum != 24 { // 0, 8 and 16
			t.Errorf("requests waited %v s", sum)
		}
		stop, cancel := context.WithCancel(t.Context())
		cancel()
		work := testWork(t, []byte("{}"))
		if attempt := c.send(stop, work.Event.ID, target, work, destination.Stored(work)); attempt.Code != 0 ||
			attempt.ErrorCode != event.CodeInternal {
			t.Errorf("while the node stops: %d %s", attempt.Code, attempt.ErrorCode)
		}
	})
}

// Connecting and TLS count towards the time-out, and a request frees its slot however it ends.
func TestHostsThatDoNotAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are accepted by the kernel, TLS is never answered
	must.Do(t, err)
	defer silent.Close()
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone.Close()
	fine := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer fine.Close()
	c := testClient(t, loopback())
	c.sender = destination.NewSender(time.Now, 1, newWaited(), nil)
	f := func(address string, code event.ErrorCode) {
		t.Helper()
		work := testWork(t, []byte("{}"))
		target := testTarget(t, address, sign.NewSecret())
		if code == event.CodeTimeout {
			target.Timeout = 100 * time.Millisecond
		}
		attempt := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
		if attempt.ErrorCode != code || code == event.CodeTimeout && attempt.Duration < target.Timeout ||
			attempt.Duration > time.Minute {
			t.Errorf("%s: %q %q after %v", address, attempt.ErrorCode, attempt.ErrorMessage, attempt.Duration)
		}
	}
	for range 2 {
		f("https://"+silent.Addr().String(), event.CodeTimeout)
		f("http://"+silent.Addr().String(), event.CodeTimeout)
		f("https://"+gone.Addr().String(), event.CodeConnectionRefused)
		f(fine.URL, "")
	}
}

// noConn is a connection without a peer.
type noConn struct{ net.Conn }

func (noConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }
