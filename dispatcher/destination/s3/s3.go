// Package s3 delivers events as lines of objects in a bucket of an S3-compatible store. Events gather in an object for
// some seconds; a delivery has succeeded when the store has its object.
package s3

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
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
	batches  destination.Batches
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
	return &target{Opened: opened, kind: k, settings: settings, address: d.URL, client: client,
		batches: destination.Batches{Now: k.Now, Wait: time.Duration(settings.Seconds) * time.Second,
			Bytes: settings.Bytes}}, nil
}

// Send adds the event to an object and returns when that is stored.
func (t *target) Send(ctx context.Context, m destination.Message) destination.Result {
	header := m.EventHeader(&t.Opened)
	m.Attempt.RequestHeader = t.names.Recorded(header, t.Header)
	return t.batches.Send(ctx, m, header, destination.Line(m, header), func(b *destination.Batch) destination.Result {
		return t.store(ctx, m, b)
	})
}

// store stores a batch with one request.
func (t *target) store(ctx context.Context, m destination.Message, b *destination.Batch) destination.Result {
	began := t.kind.Now()
	at := began.UTC()
	name := strings.NewReplacer("{date}", at.Format(time.DateOnly), "{hour}", at.Format("15"),
		"{endpoint_id}", m.Work.Event.Endpoint, "{id}", at.Format("150405")+"-"+m.Attempt.ID.Text(id.Attempt),
	).Replace(t.settings.Key)
	b.Attempt.URL, b.Attempt.Method = t.address+"/"+name, http.MethodPut
	limited, cancel := context.WithTimeout(egress.WithDestination(ctx, m.Work.Dest), t.Timeout)
	defer cancel()
	_, err := t.client.PutObject(limited, t.settings.Bucket, name, &b.Lines, int64(b.Lines.Len()),
		minio.PutObjectOptions{ContentType: "application/x-ndjson", DisableMultipart: true, SendContentMd5: true})
	b.Attempt.Duration = t.kind.Now().Sub(began)
	if err != nil {
		return destination.Failed(&b.Attempt, t.explain(err), t.Timeout)
	}
	return destination.Result{Lane: lane.Succeeded}
}

// explain returns an error that names what a person can change, if that is known.
func (t *target) explain(err error) error {
	bucket, answer := t.settings.Bucket, minio.ToErrorResponse(err)
	switch {
	case answer.StatusCode == 0:
		return err
	case answer.Code == minio.NoSuchBucket:
		return destination.Faultf(event.CodeNotFound, "bucket %s not found", bucket)
	case answer.Code == "InvalidAccessKeyId", answer.Code == "SignatureDoesNotMatch":
		return destination.Faultf(event.CodeAccessDenied, "the store refused the access key: %s", answer.Code)
	case answer.Code == minio.AccessDenied, answer.StatusCode == http.StatusForbidden:
		return destination.Faultf(event.CodeAccessDenied, "access denied for bucket %s: the key needs s3:PutObject", bucket)
	case answer.Code == "EntityTooLarge", answer.StatusCode == http.StatusRequestEntityTooLarge:
		return destination.Faultf(event.CodeTooLarge, "the store does not take an object of this size")
	}
	return destination.Faultf(event.CodeRefused, "the store answered %d %.60s", answer.StatusCode, answer.Code)
}
