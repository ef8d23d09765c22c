package wire

import (
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// Header is a header that the verification reads, with its values as received.
type Header struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// SecretResult compares a signature with one of the secrets.
type SecretResult struct {
	Last4 *string `json:"last4" maxLength:"4"`
	// The first 8 characters of the signature that the secret makes.
	ExpectedPrefix *string `json:"expected_prefix" maxLength:"8"`
	Matches        bool    `json:"matches"`
}

// SignatureFinding is something that the explanation of a signature has noticed.
type SignatureFinding struct {
	Code string `json:"code" enum:"header_missing,header_repeated,header_too_long,other_scheme,other_header,malformed,prefix,encoding,algorithm,content,secret_prefix,secret_text,secret_base64,secret_hex,secret_whitespace,secret_quotes,secret_kind,body_newline,body_line_ends,body_empty,body_json,body_changed,body_not_form,url,timestamp_missing,timestamp_malformed,timestamp_milliseconds,timestamp_old,timestamp_future,id_missing,id_malformed,valid_for_replay,unknown_scheme,no_cause"`
	// What is probably wrong and what to change, in one sentence.
	Message string `json:"message"`
}

// SignatureExplanation compares the signature of an event with the one that the secrets make.
type SignatureExplanation struct {
	Object  string `json:"object" const:"signature"`
	EventID string `json:"event_id" ref:"EventId"`
	Scheme  string `json:"scheme" enum:"@schemes"`
	// What the endpoint's current verification makes of the request.
	Verdict event.Verdict `json:"verdict" enum:"verified,observed,rejected"`
	Reason  *event.Reason `json:"reason" enum:"signature_missing,signature_malformed,signature_mismatch,timestamp_outside_tolerance"`
	// The headers that the verification reads, with their values as received.
	Headers []Header `json:"headers"`
	// The address that Twilio is assumed to have called, which its signature covers. It is tried with and without the
	// port; `signed_content` begins with the spelling that was signed, otherwise with this one. Its token is masked for
	// read-only and agent keys. `null` for other schemes.
	URL *string `json:"url"`
	// The signed bytes, up to 64 KiB. `null` if a part of them is missing from the request.
	SignedContent          *string `json:"signed_content"`
	SignedContentEncoding  string  `json:"signed_content_encoding" ref:"BodyEncoding"`
	SignedContentTruncated bool    `json:"signed_content_truncated"`
	// A token of an ingest URL in it is masked.
	SignedContentMasked bool `json:"signed_content_masked"`
	SignedSizeBytes     *int `json:"signed_size_bytes" minimum:"0"`
	// The signed time as received.
	Timestamp *string  `json:"timestamp"`
	SignedAt  web.Time `json:"signed_at" nullable:"true"`
	// Seconds from the signed time to the time of receipt, negative for a time in the future.
	AgeSeconds *int64 `json:"age_seconds"`
	// `null` if the scheme signs no time.
	ToleranceSeconds *int `json:"tolerance_seconds"`
	// The first 8 characters of the first signature in the request.
	ReceivedPrefix *string        `json:"received_prefix" maxLength:"8"`
	Secrets        []SecretResult `json:"secrets" maxItems:"3"`
	// Probable causes. Empty if the signature is accepted and the event was not rejected.
	Findings []SignatureFinding `json:"findings"`
}
