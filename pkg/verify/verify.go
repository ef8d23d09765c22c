// Package verify judges whether a received webhook was signed by its provider.
//
// In: what an endpoint's configuration says ([Config], secrets in clear) and what was received ([Request], the body as
// it came off the wire). Out: a [Reason], empty when the signature is good. Pure functions: no I/O, no clock, no state,
// safe for any number of goroutines. There is one file per scheme, and scheme.go lists them; what they share is in
// mac.go and header.go.
//
// What is guaranteed:
//   - A request is accepted only when one of the configured secrets made a signature in it over exactly these bytes. A
//     configuration that [Config.Validate] would refuse (unknown type, no secret, a broken template) accepts nothing.
//   - MACs are compared in constant time, in their written form: a second spelling of a good signature (upper-case hex,
//     other base64 padding bits) is not that signature.
//   - The age is judged after the signature, so [TimestampOutsideTolerance] always means that the provider did sign it.
//   - A header that carries the signature, or that is signed with the body, must come once. Of two values a proxy, this
//     package and the destination might each believe another one (RFC 9110 §5.3 allows repeats only for list-valued
//     fields).
//   - Work and memory are bounded by the body and by constants: header values over [maxHeader] bytes are refused
//     unread, a request costs at most one pass over the body per secret (Twilio: one per secret and spelling of the
//     URL, at most four).
package verify

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Reason says why a request was not accepted. The words are those of an event's reason.
type Reason string

// The reasons; the empty one is a good signature.
const (
	// SignatureMissing: a header that the scheme needs is absent or empty.
	SignatureMissing Reason = "signature_missing"
	// SignatureMalformed: the header is there but does not have the scheme's form, or comes more than once.
	SignatureMalformed Reason = "signature_malformed"
	// SignatureMismatch: well formed, but none of the secrets made it over this request.
	SignatureMismatch Reason = "signature_mismatch"
	// TimestampOutsideTolerance: a good signature whose time is too far from now, in the past or in the future.
	TimestampOutsideTolerance Reason = "timestamp_outside_tolerance"
)

// Request is what was received.
type Request struct {
	Method string
	// URL is the public address the provider called, query included, as the provider wrote it. Twilio signs it.
	URL string
	// Header has canonical names, as net/http leaves them.
	Header http.Header
	// Body is the raw body. It is read, never kept or changed.
	Body []byte
	// Now is the moment the age of a signature is judged at.
	Now time.Time
}

// Check judges a request. Any one of the configured secrets may have made the signature.
func Check(c Config, r Request) Reason {
	signedAt, reason := c.checkSignature(r)
	if reason == "" && !signedAt.IsZero() && r.Now.Sub(signedAt).Abs() > c.Tolerance {
		return TimestampOutsideTolerance
	}
	return reason
}

// CheckIgnoringAge is Check without the judgement of age. It is for an event that was rejected and is replayed by its
// owner: by then every timestamp is old.
func CheckIgnoringAge(c Config, r Request) Reason {
	_, reason := c.checkSignature(r)
	return reason
}

// signature judges the signature alone and returns the time that is signed with it, as [Scheme] says.
func (c Config) checkSignature(r Request) (time.Time, Reason) {
	if s := ByName(c.Type); s.Signs() {
		return s.check(c, r)
	}
	return time.Time{}, SignatureMismatch
}

// Sign adds the headers that a provider would send with the request, so that Check takes it: the signature made with
// the first secret, at the request's time. For Standard Webhooks the request has its Webhook-Id already.
func Sign(c Config, r Request) error {
	if len(c.Secrets) == 0 {
		return errors.New("sign: there is no secret")
	}
	s := ByName(c.Type)
	if !s.Signs() {
		return fmt.Errorf("sign: unknown scheme %q", c.Type)
	}
	if err := s.sign(c, r, strconv.FormatInt(r.Now.Unix(), 10)); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	return nil
}
