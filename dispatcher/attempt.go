package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Bounds of a response: how much of the body is recorded, and how much is read so that the
// connection can be used again.
const (
	maxRecordedBody = 16 << 10
	maxReadBody     = 64 << 10
)

// maxConnections is how many connections one attempt may try. net/http sends a request again that an HTTP/2
// receiver says it has not looked at (RFC 9113, 8.7), without end: one that says so every time would be called
// some hundred times a second until the attempt's deadline.
const maxConnections = 4

// client sends attempts. All it keeps between them is what it learned about header names.
type client struct {
	transport http.RoundTripper
	userAgent string
	now       func() time.Time
	sending   *semaphore.Weighted // bounds the requests at the same time
	waited    prometheus.Observer // of seconds, for a place among them and for a stream
	names     headerNames
}

func newClient(
	transport http.RoundTripper, version string, now func() time.Time, sending int, waited prometheus.Observer,
) *client {
	return &client{
		transport: transport, userAgent: "EventRelay/" + version, now: now,
		sending: semaphore.NewWeighted(int64(sending)), waited: waited,
	}
}

// send makes one HTTP request and returns what came of it. A status means that the receiver answered,
// however its body ended; without one, a.ErrorCode says what went wrong. The attempt begins when there is room for its
// request: what it waited before is no time of the destination.
func (c *client) send(ctx context.Context, attempt id.ID, t *lane.Target, w *event.Work) *event.Attempt {
	asked := c.now()
	noRoom := c.sending.Acquire(ctx, 1)
	start := c.now()
	a := &event.Attempt{
		ID: attempt, StartedAt: start, Trigger: w.Trigger, URL: t.URLText, Method: w.Event.Method,
	}
	if noRoom != nil { // the node stops
		a.ErrorCode, a.ErrorMessage = event.CodeInternal, "the node stopped before the request was made"
		return a
	}
	defer c.sending.Release(1)
	ctx, cut := context.WithCancel(egress.WithDestination(ctx, w.Dest))
	trace := newTrace(c.now, start, t.Timeout, cut)
	defer trace.end()
	req := newRequest(httptrace.WithClientTrace(ctx, &trace.hooks), t, w, requestHeader(w, t, c.userAgent, start))
	a.RequestHeader = c.recorded(req.Header, t.Header)
	resp, err := c.transport.RoundTrip(req)
	switch {
	case err != nil && trace.refused():
		a.ErrorCode = event.CodeConnectionReset
		a.ErrorMessage = fmt.Sprintf("the destination closed %d connections without looking at the request", maxConnections)
	case err != nil && trace.expired():
		a.ErrorCode, a.ErrorMessage = event.CodeTimeout, trace.timeoutMessage()
	case err != nil:
		a.ErrorCode, a.ErrorMessage = egress.Classify(err), egress.Message(err)
	default:
		a.Code = resp.StatusCode
		a.ResponseHeader = c.recorded(resp.Header, nil)
		a.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), start)
		a.ResponseBody, a.Truncated = readBody(resp)
	}
	waited := trace.streamWait()
	a.Duration = c.now().Sub(start) - waited
	a.RemoteIP, a.TTFB = trace.result()
	c.waited.Observe((start.Sub(asked) + waited).Seconds())
	return a
}

// newRequest builds the request without a copy of the body. GetBody lets net/http use another
// connection when a kept one turned out to be closed before anything was written; after the first
// byte it sends nothing again, see safeName.
func newRequest(ctx context.Context, t *lane.Target, w *event.Work, h http.Header) *http.Request {
	req := (&http.Request{
		Method: w.Event.Method, URL: t.URL, Host: t.URL.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody,
	}).WithContext(ctx)
	if body := w.Event.Body; len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	return req
}

// readBody returns the beginning of the body and whether there was, or should have been, more. What
// lies beyond maxReadBody costs the connection instead of our time.
func readBody(resp *http.Response) (body []byte, truncated bool) {
	defer resp.Body.Close()
	if resp.ContentLength == 0 {
		return nil, false
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRecordedBody))
	if err != nil || len(body) < maxRecordedBody {
		return body, err != nil
	}
	more, err := io.CopyN(io.Discard, resp.Body, maxReadBody-maxRecordedBody)
	return body, more > 0 || !errors.Is(err, io.EOF)
}

// statusMessage is the error message of an attempt that was answered with a status.
func statusMessage(status int) string {
	return fmt.Sprintf("the destination answered %d %s", status, http.StatusText(status))
}
