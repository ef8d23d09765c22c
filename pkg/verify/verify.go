// Package verify checks whether a received webhook was signed by its provider.
//
// [Check] takes an endpoint's verification ([Config], secrets in clear text) and the received [Request] with its raw
// body. It returns a [Reason], empty if the signature is valid. All functions are pure: no I/O, no clock, no state,
// safe for concurrent use. scheme.go lists the schemes, and layout.go checks and makes a signature of any of
// them.
//
// Guarantees:
//   - A request is accepted only if it carries a signature that one of the configured secrets made over exactly these
//     bytes. A configuration with an unknown type, algorithm or encoding, without a secret or with an invalid template
//     accepts nothing. Check does not enforce the other rules of [Config.Validate].
//   - MACs are compared as text, in constant time. Another spelling of a valid signature (upper-case hex, other base64
//     padding bits) is rejected.
//   - The age is checked after the signature, so [TimestampOutsideTolerance] always means that the provider signed the
//     request.
//   - A header that carries the signature, or that is signed with the body, must occur once. Of two values, a proxy,
//     this package and the destination might each use a different one (RFC 9110 §5.3 allows repeats only for
//     list-valued fields).
//   - Work and memory are bounded by the body and by constants: header values over [maxHeader] bytes are rejected
//     without parsing, and the body is hashed at most once per secret (Twilio: once per secret and spelling of the
//     URL, of which there are at most four).
package verify

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Reason says why a request was rejected. The values are those of an event's reason in the API.
type Reason string

// Reasons; the empty Reason means that the signature is valid.
const (
	// SignatureMissing: a header that the scheme needs is absent or empty.
	SignatureMissing Reason = "signature_missing"
	// SignatureMalformed: a header does not have the scheme's form, or occurs more than once.
	SignatureMalformed Reason = "signature_malformed"
	// SignatureMismatch: the header is well-formed, but none of the secrets made its signature over this request. Also the
	// result for an invalid configuration and for a Twilio body that is not a form.
	SignatureMismatch Reason = "signature_mismatch"
	// CertificateExpired: the signature is valid, but its certificate was not when the request came.
	CertificateExpired Reason = "certificate_expired"
	// TimestampOutsideTolerance: the signature is valid, but its time is more than the tolerance in the past or in the
	// future.
	TimestampOutsideTolerance Reason = "timestamp_outside_tolerance"
)

// Request is a received request, or one to be signed by [Sign].
type Request struct {
	Method string
	// URL is the public address the provider called, query included, as the provider wrote it. Twilio signs it.
	URL string
	// Header has canonical names, as in net/http.
	Header http.Header
	// Body is the raw body. It is not changed or retained.
	Body []byte
	// Now is the time that Check compares with the signed time, and the time that Sign signs.
	Now time.Time
	// Certificate is that of [Config.CertificateURL]; nil if there is none.
	Certificate *x509.Certificate
}

// Check verifies the signature of a request and its age. Any one of the configured secrets may have made the signature.
// It returns the empty Reason if the request is accepted.
func Check(c Config, r Request) Reason {
	signedAt, _, reason := c.checkSignature(r)
	if reason == "" && !signedAt.IsZero() && r.Now.Sub(signedAt).Abs() > c.Tolerance {
		return TimestampOutsideTolerance
	}
	return reason
}

// CheckIgnoringAge is Check without the check of the age. It is for rejected events that their owner replays: by then
// every timestamp is old. The certificate must have been valid at r.Now.
func CheckIgnoringAge(c Config, r Request) Reason {
	_, _, reason := c.checkSignature(r)
	return reason
}

// checkSignature verifies the signature without its age: see layout.check.
func (c Config) checkSignature(r Request) (time.Time, message, Reason) {
	l, err := c.layoutFor(r)
	if err != nil {
		return time.Time{}, message{}, SignatureMismatch
	}
	return l.check(c.Secrets, r)
}

// SignedContent returns a hash of what the scheme signs in a request that CheckIgnoringAge accepts. Requests with equal
// hashes are copies of one, whatever was added to their headers.
func SignedContent(c Config, r Request) [sha256.Size]byte {
	_, m, _ := c.checkSignature(r)
	h := sha256.New()
	m.writeTo(h)
	return [sha256.Size]byte(h.Sum(nil))
}

// Sign adds the provider's signature headers to r.Header, made with the first secret at r.Now, so that Check accepts
// the request. For Standard Webhooks, set Webhook-Id before. It fails if there is no secret, the scheme is unknown, or
// the configuration or the body does not suit the scheme.
func Sign(c Config, r Request) error {
	if len(c.Secrets) == 0 {
		return errors.New("sign: there is no secret")
	}
	l, err := c.layoutFor(r)
	if err == nil {
		err = l.sign(c.Secrets[0], r)
	}
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	return nil
}
