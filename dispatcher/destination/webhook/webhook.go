// Package webhook delivers events by HTTP requests: one attempt is one request, which attempts at other events of a
// batch may share.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
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

// Kind delivers by HTTP. It caches header names and access tokens; nothing else outlives an attempt.
type Kind struct {
	Deps
	userAgent string
	names     destination.Names
	tokens    tokenSources
}

// Deps are the dependencies of a Kind.
type Deps struct {
	Transport http.RoundTripper // the egress guard; it must follow no redirect
	Keyring   *seal.Keyring
	Now       func() time.Time
	Version   string // part of the user agent, EventRelay/<version>
}

// New makes a Kind.
func New(deps Deps) *Kind { return &Kind{Deps: deps, userAgent: "EventRelay/" + deps.Version} }

// target is an opened destination.
type target struct {
	destination.Opened
	kind    *Kind
	url     *url.URL
	urlText string // url as text

	transport http.RoundTripper
	tokens    *tokenSource         // nil: requests carry no access token
	batches   *destination.Batches // nil: each event has a request of its own
	maxBatch  int                  // bytes
}

// Open parses the URL and decrypts the headers and secrets of the destination.
func (k *Kind) Open(e *config.Endpoint, d *config.Destination) (destination.Target, error) {
	opened, err := destination.Open(k.Keyring, e, d)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil, fmt.Errorf("parse url of %s: %w", d.ID, err)
	}
	u.Fragment, u.User = "", nil
	t := &target{Opened: opened, kind: k, url: u, urlText: u.String(), transport: k.Transport}
	if b := d.HTTPBatch; b != nil {
		t.batches, t.maxBatch = newBatches(k.Now, b, t.Timeout), b.Bytes
	}
	if d.Auth == nil {
		return t, nil
	}
	settings, err := d.Settings.Open(k.Keyring, d.ID)
	if err == nil {
		err = t.authenticate(d.ID, settings.Auth)
	}
	return t, err
}

// Send makes one HTTP request and classifies its answer.
func (t *target) Send(ctx context.Context, m destination.Message) destination.Result {
	if t.batches != nil {
		return t.sendInBatch(ctx, m)
	}
	return t.request(ctx, m, cmp.Or(m.Content.Method, t.methodOf(m.Work.Event)), m.Header(&t.Opened, t.kind.userAgent))
}

func (t *target) request(
	ctx context.Context, m destination.Message, method string, header http.Header,
) destination.Result {
	attempt := m.Attempt
	to := destination.WithPath(t.url, m.Content.Path)
	attempt.URL, attempt.Method = to.String(), method
	waited, err := t.exchange(ctx, m, to, header)
	if err != nil && errors.As(err, new(*egress.ProxyError)) {
		return destination.Result{Unsent: err}
	}
	asked := attempt.ResponseHeader.Value(headerSteer)
	result := destination.Result{
		Classification: steer(Classify(attempt.Code, attempt.ErrorCode, m.RetryOn), asked),
		Disable:        strings.EqualFold(asked, steerDisable), Waited: waited,
	}
	if result.Class != destination.Delivered && attempt.Code != 0 {
		attempt.ErrorMessage = statusMessage(attempt.Code)
	}
	result.Lane = laneResult(attempt.Code, result.Classification)
	return result
}

// exchange makes one HTTP request and completes the attempt. A status code means that the receiver answered, however
// its body ended; without one, ErrorCode says what went wrong. It returns how long the request waited for a stream.
func (t *target) exchange(
	ctx context.Context, m destination.Message, to *url.URL, header http.Header,
) (waited time.Duration, failed error) {
	k, attempt, start := t.kind, m.Attempt, m.Attempt.StartedAt
	ctx, cancel := context.WithCancel(egress.WithDestination(ctx, m.Work.Dest))
	trace := newTrace(k.Now, start, t.Timeout, cancel)
	defer trace.end()
	m.Span.Hook(&trace.hooks)
	header, resp, err := t.roundTrip(ctx, &trace.hooks, attempt.Method, to, m.Content.Body, header)
	attempt.RequestHeader = k.names.Recorded(header, t.Header)
	switch {
	case err != nil && trace.tooManyConnections():
		attempt.ErrorCode = event.CodeConnectionReset
		attempt.ErrorMessage = fmt.Sprintf(
			"the destination closed %d connections without processing the request", maxConnections)
	case err != nil && trace.expired():
		attempt.ErrorCode, attempt.ErrorMessage = event.CodeTimeout, trace.timeoutMessage()
	case err != nil && errors.As(err, &tokenError{}):
		attempt.ErrorCode, attempt.ErrorMessage = event.CodeToken, err.Error()
	case err != nil:
		attempt.ErrorCode, attempt.ErrorMessage = egress.Classify(err), egress.Message(err)
	default:
		attempt.Code = resp.StatusCode
		attempt.ResponseHeader = k.names.Recorded(resp.Header, nil)
		attempt.ResponseBody, attempt.Truncated = readBody(resp)
		attempt.RetryAfter = ParseRetryAfter(resp.Header.Get("Retry-After"), k.Now()) // it counts from the end of the attempt
	}
	waited = trace.streamWait()
	attempt.Duration = k.Now().Sub(start) - waited
	attempt.RemoteIP, attempt.TTFB = trace.result()
	return waited, err
}

// methodOf is the method of a request. No signature of a provider covers the method, so what an endpoint receives is
// sent as POST unless the endpoint keeps methods.
func (t *target) methodOf(ev *event.Event) string {
	if t.KeepMethod || ev.Source != event.SourceProvider {
		return ev.Method
	}
	return http.MethodPost
}

// newRequest builds the request without copying the body. GetBody lets net/http use another connection when a kept one
// was closed before anything was written. After the first byte it does not repeat the request, see safeName.
func newRequest(ctx context.Context, to *url.URL, method string, body []byte, h http.Header) *http.Request {
	req := (&http.Request{
		Method: method, URL: to, Host: to.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1,
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

// maxBatchAnswer is how much of the answer to a batch each of its attempts records.
const maxBatchAnswer = 1 << 10

func newBatches(now func() time.Time, b *kinds.HTTPBatch, timeout time.Duration) *destination.Batches {
	return &destination.Batches{Now: now, Wait: time.Duration(b.Seconds) * time.Second, Count: b.Events,
		Bytes: b.Bytes - 1, Halve: timeout} // an array has a byte more than lines
}

// sendInBatch adds the event to a batch and returns when it was answered. An answer decides for all events of its
// request.
func (t *target) sendInBatch(ctx context.Context, m destination.Message) destination.Result {
	header := m.EventHeader(&destination.Opened{}) // those of the destination are the request's
	line := destination.Line(m, header)
	if size := len(line); size >= t.maxBatch {
		m.Attempt.URL, m.Attempt.Method = t.urlText, http.MethodPost
		return destination.Failed(m.Attempt, destination.Faultf(event.CodeTooLarge,
			"the event has %d bytes in a batch, more than max_bytes (%d)", size, t.maxBatch), 0)
	}
	name := m.Attempt.ID.Text(id.Attempt)
	return t.batches.Send(ctx, m, header, line, func(b *destination.Batch) destination.Result {
		m := m
		m.Attempt, m.Content = &b.Attempt, destination.Content{Body: b.Array()}
		b.Attempt.StartedAt = t.kind.Now()
		result := t.request(ctx, m, http.MethodPost, b.Header(name+b.Half, m.Work, m.Content.Body,
			&t.Opened, t.kind.userAgent, b.Attempt.StartedAt))
		if b.Count > 1 && len(b.Attempt.ResponseBody) > maxBatchAnswer {
			b.Attempt.ResponseBody, b.Attempt.Truncated = b.Attempt.ResponseBody[:maxBatchAnswer], true
		}
		return result
	})
}
