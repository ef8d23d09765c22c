package webhook

import (
	"context"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"time"
)

// requestTrace records which address a request reached and when the answer began, and ends the attempt when the
// time-out of the destination has passed.
//
// The time-out covers DNS, connecting and TLS. It does not cover waiting for a stream of an HTTP/2 connection: while
// all streams that the receiver allows are in use, net/http makes a request wait on the connection. If the time-out
// expires during that wait, it is extended once, so that the wait may last for one more time-out. When the stream is
// there, the wait is added to the time-out. The hooks run on other goroutines, even after RoundTrip has returned.
type requestTrace struct {
	now     func() time.Time
	start   time.Time
	timeout time.Duration
	cancel  context.CancelFunc // ends the attempt
	hooks   httptrace.ClientTrace

	mu           sync.Mutex // guards the fields below
	timer        *time.Timer
	timedOut     bool
	extended     bool // the time-out was extended for a stream
	connections  int
	gotConn      time.Time     // zero once the request is written to it
	streamWaited time.Duration // time spent waiting for streams
	remoteIP     netip.Addr
	ttfb         time.Duration
}

func newTrace(now func() time.Time, start time.Time, timeout time.Duration, cancel context.CancelFunc) *requestTrace {
	t := &requestTrace{now: now, start: start, timeout: timeout, cancel: cancel}
	t.hooks.GotConn, t.hooks.WroteHeaders, t.hooks.GotFirstResponseByte = t.connected, t.wroteHeaders, t.gotFirstByte
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(timeout, t.expire)
	return t
}

// end stops the timer and releases the context of the request.
func (t *requestTrace) end() {
	t.timer.Stop()
	t.cancel()
}

// expire ends the attempt, or extends the time-out once if the request has a connection and waits for a stream.
func (t *requestTrace) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gotConn.IsZero() && !t.extended {
		t.extended = true
		t.timer.Reset(t.timeout - t.now().Sub(t.gotConn))
		return
	}
	t.timedOut = true
	t.cancel()
}

func (t *requestTrace) connected(info httptrace.GotConnInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gotConn = t.now()
	if tcp, ok := info.Conn.RemoteAddr().(*net.TCPAddr); ok {
		t.remoteIP = tcp.AddrPort().Addr().Unmap()
	}
	if t.connections++; t.connections > maxConnections {
		t.cancel()
	}
}

// minStreamWait is the least time from a connection to the written header that counts as a wait for a stream.
const minStreamWait = 5 * time.Millisecond

func (t *requestTrace) wroteHeaders() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	wait := now.Sub(t.gotConn)
	if t.gotConn.IsZero() || t.timedOut {
		return
	}
	t.gotConn = time.Time{}
	if wait < minStreamWait {
		return
	}
	t.streamWaited += wait
	t.timer.Reset(max(t.start.Add(t.timeout+t.streamWaited).Sub(now), time.Millisecond))
}

// expired reports whether the time-out ended the attempt.
func (t *requestTrace) expired() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.timedOut
}

func (t *requestTrace) timeoutMessage() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.connections == 0:
		return fmt.Sprintf("no connection to the destination within %v", t.timeout)
	case !t.gotConn.IsZero():
		return fmt.Sprintf("the destination gave the request no HTTP/2 stream within %v", t.timeout)
	}
	return fmt.Sprintf("no answer of the destination within %v", t.timeout)
}

// streamWait is how long the request waited for HTTP/2 streams.
func (t *requestTrace) streamWait() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timedOut && !t.gotConn.IsZero() {
		return t.streamWaited + t.timeout
	}
	return t.streamWaited
}

// tooManyConnections reports whether the attempt was ended because maxConnections connections did not process it.
func (t *requestTrace) tooManyConnections() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.connections > maxConnections
}

func (t *requestTrace) gotFirstByte() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ttfb = t.now().Sub(t.start) - t.streamWaited
}

func (t *requestTrace) result() (netip.Addr, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remoteIP, t.ttfb
}
