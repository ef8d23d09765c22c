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
	"github.com/eventrelay/relay/dispatcher/request"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/spans"
)

// How much of a response body is recorded, and how much is read so that the connection can be reused.
const (
	maxRecordedBody = 16 << 10
	maxReadBody     = 64 << 10
)

// maxConnections is how many connections one attempt may use. net/http repeats a request without limit when an HTTP/2
// receiver says that it has not processed it (RFC 9113, 8.7). A receiver that always says so would get some hundred
// requests a second until the deadline of the attempt.
const maxConnections = 4

// client sends attempts. It limits how many run at once and caches header names; nothing else outlives an attempt.
type client struct {
	transport      http.RoundTripper
	userAgent      string
	now            func() time.Time
	requestSlots   *semaphore.Weighted // bounds concurrent requests
	connectionWait prometheus.Observer // seconds that a request waited for a slot and for an HTTP/2 stream
	names          request.Names
	spans          *spans.Recorder // nil: no traces
}

func newClient(
	transport http.RoundTripper, version string, now func() time.Time, sending int, waited prometheus.Observer,
) *client {
	return &client{
		transport: transport, userAgent: "EventRelay/" + version, now: now,
		requestSlots: semaphore.NewWeighted(int64(sending)), connectionWait: waited,
	}
}

// send makes one HTTP request and returns the attempt. A status code means that the receiver answered, however its
// body ended; without one, ErrorCode says what went wrong. The attempt starts when there is a slot for its request:
// waiting for one does not count against the destination.
func (c *client) send(
	ctx context.Context, attemptID id.ID, target *lane.Target, work *event.Work, content request.Content,
) *event.Attempt {
	queuedAt := c.now()
	acquireErr := c.requestSlots.Acquire(ctx, 1)
	start := c.now()
	attempt := &event.Attempt{
		ID: attemptID, StartedAt: start, Trigger: work.Trigger, URL: target.URLText, Method: methodOf(work.Event, target),
		TransformationVersion: content.Version,
	}
	if acquireErr != nil { // the node stops
		attempt.ErrorCode, attempt.ErrorMessage = event.CodeInternal, "the node stopped before the request was made"
		return attempt
	}
	defer c.requestSlots.Release(1)
	ctx, cancel := context.WithCancel(egress.WithDestination(ctx, work.Dest))
	trace := newTrace(c.now, start, target.Timeout, cancel)
	defer trace.end()
	header := request.Header(work, content, target, c.userAgent, start)
	span := c.spans.Attempt(work, attempt.Method, start)
	attempt.Trace = span.Propagate(header)
	span.Hook(&trace.hooks)
	req := newRequest(httptrace.WithClientTrace(ctx, &trace.hooks), target, attempt.Method, content.Body, header)
	attempt.RequestHeader = c.names.Recorded(req.Header, target.Header)
	resp, err := c.transport.RoundTrip(req)
	switch {
	case err != nil && trace.tooManyConnections():
		attempt.ErrorCode = event.CodeConnectionReset
		attempt.ErrorMessage = fmt.Sprintf(
			"the destination closed %d connections without processing the request", maxConnections)
	case err != nil && trace.expired():
		attempt.ErrorCode, attempt.ErrorMessage = event.CodeTimeout, trace.timeoutMessage()
	case err != nil:
		attempt.ErrorCode, attempt.ErrorMessage = egress.Classify(err), egress.Message(err)
	default:
		attempt.Code = resp.StatusCode
		attempt.ResponseHeader = c.names.Recorded(resp.Header, nil)
		attempt.ResponseBody, attempt.Truncated = readBody(resp)
		attempt.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), c.now()) // it counts from the end of the attempt
	}
	waited := trace.streamWait()
	attempt.Duration = c.now().Sub(start) - waited
	attempt.RemoteIP, attempt.TTFB = trace.result()
	c.connectionWait.Observe((start.Sub(queuedAt) + waited).Seconds())
	span.End(attempt, c.now())
	return attempt
}

// methodOf is the method of a request. No signature of a provider covers the method, so what an endpoint receives is
// sent as POST unless the endpoint keeps methods.
func methodOf(ev *event.Event, target *lane.Target) string {
	if target.KeepMethod || ev.Source != event.SourceProvider {
		return ev.Method
	}
	return http.MethodPost
}

// newRequest builds the request without copying the body. GetBody lets net/http use another connection when a kept one
// was closed before anything was written. After the first byte it does not repeat the request, see safeName.
func newRequest(ctx context.Context, target *lane.Target, method string, body []byte, h http.Header) *http.Request {
	req := (&http.Request{
		Method: method, URL: target.URL, Host: target.URL.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1,
		Body:       http.NoBody,
	}).WithContext(ctx)
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	return req
}

// readBody returns the beginning of the body and whether it was cut off or should have been longer. Beyond maxReadBody
// it closes the connection instead of reading on.
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

// statusMessage is the error message of an attempt that was answered with a failure status.
func statusMessage(status int) string {
	return fmt.Sprintf("the destination answered %d %s", status, http.StatusText(status))
}
