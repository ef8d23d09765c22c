package config

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/eventrelay/relay/pkg/config/argon"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
)

// Values of an import are validated like requests to the API: somebody else may have written the document, and every
// part of the service relies on these bounds.

// validate validates a value of an import; see entity.Value.Validate. checkURL validates the URL of a destination.
func validate(v entity.Value, checkURL func(string) error) error {
	if e, ok := v.(*Endpoint); ok {
		return e.validateWith(checkURL)
	}
	return v.Validate()
}

func (k *Key) Validate() error {
	return require.OneOf("scope", string(k.Scope), string(Read), string(ReadWrite))
}

func (u *User) Validate() error {
	u.Link = nil // a link of an import must not let anybody sign in
	email, err := NormalizeEmail(u.Email)
	id := UserID(email)
	if u.Issuer != "" {
		id = u.identity().UserID()
		u.Password = "" // an import must not let anybody sign in whom the issuer does not
	}
	if err != nil || email != u.Email || u.ID != id {
		return fmt.Errorf("email %.100q does not belong to this id", u.Email)
	}
	if u.Password != "" {
		_, err = argon.Parse(u.Password)
	}
	return errors.Join(err, require.OneOf("scope", string(u.Scope), string(Read), string(ReadWrite)),
		require.Range("epoch", u.Epoch, 0, 1<<53),
		require.Range("ended_sessions", len(u.EndedSessions), 0, maxEndedSessions))
}

// Bounds of the members of an endpoint, the same as in the API.
const (
	maxDescription   = 500
	maxMetadataCount = 20
	maxMetadataText  = 500
	maxAddedHeaders  = 20
	maxDay           = 86_400
)

func (e *Endpoint) validateWith(checkURL func(string) error) error {
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	errs := []error{
		require.Text("name", e.Name, 1, require.MaxName), require.OneOf("provider", e.Provider, verify.Providers()...),
		require.Range("destinations", len(e.Destinations), e.FewestDestinations(), require.MaxDestinations),
		require.Range("metadata", len(e.Metadata), 0, maxMetadataCount),
		require.OneOf("validate", e.Validation, ValidateOff, ValidateWarn, ValidateReject),
		e.RetryPolicy.Validate(), require.Bounds("", &e.EndpointSettings),
	}
	if e.Description != nil {
		errs = append(errs, require.Text("description", *e.Description, 0, maxDescription))
	}
	for key, value := range e.Metadata {
		errs = append(errs, require.Text("key of metadata", key, 1, 64), require.Text("metadata", value, 0, maxMetadataText))
	}
	if e.TypeSource != nil {
		_, err := event.ParseTypeSource(*e.TypeSource)
		errs = append(errs, err)
	}
	if e.Dedup != nil {
		_, err := event.ParseDedupKey(e.Dedup.Key)
		errs = append(errs, err, require.Bounds("dedup", e.Dedup))
	}
	if v := e.Verification; v != nil {
		errs = append(errs, v.Validate())
	}
	errs = append(errs, e.Inbound.ValidateFor(e.Provider, kinds.Checks{URL: checkURL}))
	if e.IngestLimit != nil {
		errs = append(errs, require.Bounds("ingest_limit", e.IngestLimit))
	}
	for i := range e.Destinations {
		d := &e.Destinations[i]
		if err := d.Validate(checkURL); err != nil {
			errs = append(errs, fmt.Errorf("destination %s: %w", d.ID, err))
		}
	}
	return errors.Join(errs...)
}

// Config returns it as package verify takes it, without its secrets.
func (v *Verification) Config() verify.Config {
	return verify.Config{Type: v.Type, Header: v.Header, Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix,
		SignedContent: v.SignedContent, Tolerance: time.Duration(v.ToleranceSeconds) * time.Second}
}

// Validate validates all members but the texts of the secrets, which are sealed.
func (v *Verification) Validate() error {
	conf := v.Config()
	conf.Tolerance = verify.DefaultTolerance // the bounds of the stored one are wider
	if err := conf.ValidateSettings(); err != nil {
		return fmt.Errorf("verification: %w", err)
	}
	return errors.Join(require.OneOf("verification.mode", v.Mode, "enforce", "observe"),
		require.Range("verification.secrets", len(v.Secrets), 1, verify.MaxSecrets),
		require.Range("verification.tolerance_seconds", v.ToleranceSeconds, 0, maxDay))
}

// headerName matches header names in the form in which they are stored and sent.
var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")

// validateURL validates the URL of a webhook, or that it is the address of another kind.
func (d *Destination) validateURL(checkURL func(string) error) error {
	if kind, address := d.Kind(); kind == "" {
		return checkURL(d.URL)
	} else if d.URL != address {
		return fmt.Errorf("url must be %.100q, not %.100q", address, d.URL)
	}
	return nil
}

// ValidateDelivery validates what several members decide together. Objects and messages of s3 and sqs, and the elements
// of a batch, have the headers of an event inside.
func (d *Destination) ValidateDelivery() error {
	inside := d.S3 != nil || d.SQS != nil
	switch {
	case d.Format == FormatCloudEventsBinary && (inside || d.HTTPBatch != nil):
		return &kinds.Fault{Path: "format", Message: "cannot be cloudevents_binary with http_batch, s3 and sqs, where an " +
			"event has no headers of its own; cloudevents can"}
	case d.Signing == nil:
		return nil
	case inside:
		return &kinds.Fault{Path: "signing.schemes", Message: "cannot be used with s3 and sqs, which get no signatures"}
	}
	for i, x := range d.Signing.Schemes {
		if _, added := d.Headers[x.Header]; added || d.Auth != nil && x.Header == "Authorization" {
			return &kinds.Fault{Path: fmt.Sprintf("signing.schemes[%d].header", i), Message: "is set by headers or auth"}
		}
	}
	return nil
}

func (d *Destination) Validate(checkURL func(string) error) error {
	if d.Headers == nil {
		d.Headers = map[string]seal.Secret{}
	}
	errs := []error{
		d.validateURL(checkURL), require.Bounds("", &d.DestinationSettings),
		require.Range("headers", len(d.Headers), 0, maxAddedHeaders), require.Range("signing secrets", len(d.Secrets), 1, 10),
	}
	if d.Name != nil {
		errs = append(errs, require.Text("name", *d.Name, 0, require.MaxName))
	}
	for name := range d.Headers {
		if !headerName.MatchString(name) {
			errs = append(errs, fmt.Errorf("%.100q is not a valid header name", name))
		}
	}
	errs = append(errs, d.Settings.Validate(kinds.Checks{URL: checkURL}), d.ValidateDelivery())
	if r := d.RateLimit; r != nil {
		errs = append(errs, require.Bounds("rate_limit", r))
	}
	if d.RetryPolicy != nil {
		errs = append(errs, d.RetryPolicy.Validate())
	}
	if f := d.Filter; f != nil {
		errs = append(errs, require.Range("filter.types", len(f.Types), 0, 50),
			require.Range("filter.body", len(f.Body), 0, 20))
		for path, want := range f.Body {
			errs = append(errs, require.Text("path of filter.body", path, 1, 500))
			switch want.(type) {
			case nil, bool, string, float64:
			default:
				errs = append(errs, errors.New("filter.body must contain only strings, numbers, booleans and null"))
			}
		}
		errs = append(errs, f.ValidateRules())
	}
	return errors.Join(errs...)
}
