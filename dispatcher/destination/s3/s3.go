// Package s3 delivers events as lines of objects in a bucket of an S3-compatible store. Events gather in an object for
// some seconds; a delivery has succeeded when the store has its object.
package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// Kind delivers to buckets. Nothing outlives a target.
type Kind struct{ Deps }

// Deps are the dependencies of a Kind.
type Deps struct {
	Transport http.RoundTripper // the egress guard
	Keyring   *seal.Keyring
	Now       func() time.Time
}

// New makes a Kind.
func New(deps Deps) *Kind { return &Kind{deps} }

// target is an opened destination.
type target struct {
	destination.Opened
	kind     *Kind
	settings kinds.S3
	address  string
	client   *minio.Client
	names    destination.Names

	mu   sync.Mutex // guards next
	next *object    // gathers events; nil: the next event begins another one
}

// object gathers lines. The delivery that began it stores it, for all others, too.
type object struct {
	name   string
	lines  bytes.Buffer
	full   chan struct{} // closed when it has the size at which it is stored
	stored chan struct{} // closed when took and err are set
	took   time.Duration
	err    error
}

// Open decrypts the settings.
func (k *Kind) Open(e *config.Endpoint, d *config.Destination) (destination.Target, error) {
	opened, err := destination.Open(k.Keyring, e, d)
	if err != nil {
		return nil, err
	}
	all, err := d.Settings.Open(k.Keyring, d.ID)
	if err != nil {
		return nil, err
	}
	settings := *all.S3
	store, err := url.Parse(settings.Store())
	if err != nil {
		return nil, fmt.Errorf("parse the endpoint of %s: %w", d.ID, err)
	}
	client, err := minio.New(store.Host, &minio.Options{
		Creds:  credentials.NewStaticV4(settings.AccessKey, string(settings.SecretKey), ""),
		Secure: store.Scheme == "https", Region: settings.Region, Transport: k.Transport, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("open the bucket of %s: %w", d.ID, err)
	}
	return &target{Opened: opened, kind: k, settings: settings, address: d.URL, client: client}, nil
}

// line is one event in an object.
type line struct {
	ID          string            `json:"id"`
	Type        string            `json:"type,omitempty"`
	EndpointID  string            `json:"endpoint_id"`
	ReceivedAt  web.Time          `json:"received_at"`
	Attempt     int               `json:"attempt"`
	Headers     map[string]string `json:"headers"`
	Body        json.RawMessage   `json:"body,omitempty"`        // JSON
	BodyEncoded []byte            `json:"body_base64,omitempty"` // any other
}

func newLine(m destination.Message, header http.Header) []byte {
	ev := m.Work.Event
	x := line{ID: ev.ID.Text(id.Event), Type: ev.Type, EndpointID: ev.Endpoint, ReceivedAt: web.Time(ev.ReceivedAt()),
		Attempt: m.Work.Attempt, Headers: map[string]string{}}
	for name, values := range header {
		x.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	if x.Body = m.Content.Body; !json.Valid(x.Body) {
		x.Body, x.BodyEncoded = nil, m.Content.Body
	}
	return web.Encode(x) // with a line break
}

// Send adds the event to an object and returns when that is stored. The time in which events gather is not that of the
// attempt.
func (t *target) Send(ctx context.Context, m destination.Message) destination.Result {
	attempt := m.Attempt
	header := m.Header(&t.Opened, "")
	for name := range header { // a signature covers the bytes of a body, not its JSON in a line
		if strings.HasPrefix(strings.ToLower(name), "webhook-") || strings.HasPrefix(name, "Relay-Webhook-") {
			delete(header, name)
		}
	}
	delete(header, destination.HeaderUserAgent)
	attempt.RequestHeader = t.names.Recorded(header, t.Header)
	o, begins := t.join(m, newLine(m, header))
	attempt.URL, attempt.Method = t.address+"/"+o.name, http.MethodPut
	if begins {
		t.gather(ctx, o)
		t.store(ctx, o, m.Work.Dest)
	}
	select {
	case <-o.stored:
	case <-ctx.Done():
		return t.failed(attempt, ctx.Err())
	}
	attempt.Duration = o.took
	result := destination.Result{Lane: lane.Succeeded}
	if o.err != nil {
		result = t.failed(attempt, o.err)
	}
	result.Waited = max(t.kind.Now().Sub(attempt.StartedAt)-o.took, 0)
	return result
}

// join adds a line to the object that gathers, or begins one.
func (t *target) join(m destination.Message, text []byte) (o *object, begins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if begins = t.next == nil; begins {
		at := t.kind.Now().UTC()
		t.next = &object{full: make(chan struct{}), stored: make(chan struct{}), name: strings.NewReplacer(
			"{date}", at.Format(time.DateOnly), "{hour}", at.Format("15"), "{endpoint_id}", m.Work.Event.Endpoint,
			"{id}", at.Format("150405")+"-"+m.Attempt.ID.Text(id.Attempt)).Replace(t.settings.Key)}
	}
	o = t.next
	o.lines.Write(text)
	if o.lines.Len() >= t.settings.Bytes {
		t.next = nil
		close(o.full)
	}
	return o, begins
}

// gather waits until the object is full or its time is over.
func (t *target) gather(ctx context.Context, o *object) {
	timer := time.NewTimer(time.Duration(t.settings.Seconds) * time.Second)
	defer timer.Stop()
	select {
	case <-o.full:
	case <-timer.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == o {
		t.next = nil
	}
}

// store stores an object with one request.
func (t *target) store(ctx context.Context, o *object, dest string) {
	defer close(o.stored)
	began := t.kind.Now()
	limited, cancel := context.WithTimeout(egress.WithDestination(ctx, dest), t.Timeout)
	defer cancel()
	_, o.err = t.client.PutObject(limited, t.settings.Bucket, o.name, &o.lines, int64(o.lines.Len()),
		minio.PutObjectOptions{ContentType: "application/x-ndjson", DisableMultipart: true, SendContentMd5: true})
	o.took = t.kind.Now().Sub(began)
}

// failed completes the attempt with its error, which names what a person can change.
func (t *target) failed(attempt *event.Attempt, err error) destination.Result {
	result := destination.Result{Lane: lane.Failed}
	result.Class = destination.Retryable
	set := func(code event.ErrorCode, format string, args ...any) {
		result.Code, attempt.ErrorMessage = code, fmt.Sprintf(format, args...)
	}
	var proxy *egress.ProxyError
	answer := minio.ToErrorResponse(err)
	switch bucket := t.settings.Bucket; {
	case errors.As(err, &proxy):
		result.Unsent = proxy
	case errors.Is(err, context.DeadlineExceeded):
		result.Lane = lane.TimedOut
		set(event.CodeTimeout, "no answer of the store within %v", t.Timeout)
	case answer.Code == minio.NoSuchBucket:
		set(event.CodeNotFound, "bucket %s not found", bucket)
	case answer.Code == "InvalidAccessKeyId", answer.Code == "SignatureDoesNotMatch":
		set(event.CodeAccessDenied, "the store refused the access key: %s", answer.Code)
	case answer.Code == minio.AccessDenied, answer.StatusCode == http.StatusForbidden:
		set(event.CodeAccessDenied, "access denied for bucket %s: the key needs s3:PutObject", bucket)
	case answer.Code == "EntityTooLarge", answer.StatusCode == http.StatusRequestEntityTooLarge:
		result.Class, result.Reason, result.Lane = destination.Final, event.TooLarge, lane.Rejected
		set(event.CodeTooLarge, "the store does not take an object of this size")
	case answer.StatusCode != 0:
		set(event.CodeRefused, "the store answered %d %.60s", answer.StatusCode, answer.Code)
	default:
		set(egress.Classify(err), "%s", egress.Message(err))
	}
	return result
}
