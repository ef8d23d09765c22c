package wire

import (
	"encoding/json"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/pkg/web"
)

// Verification is how the provider signs its requests. `null`: signatures are not verified.
type Verification struct {
	// The same as `provider`.
	Type string `json:"type" in:"own" enum:"@schemes"`
	// `enforce`: events without a valid signature are stored as `rejected` and not delivered. `observe`: they are
	// delivered and marked in `relay-verification`. Default `enforce`.
	Mode string `json:"mode" in:"" enum:"enforce,observe"`
	// Maximum difference between the signed time and the time of receipt, in seconds. For types that sign a timestamp
	// (such as stripe, slack, standard_webhooks, hmac with `{timestamp}`). Default `300`.
	ToleranceSeconds int    `json:"tolerance_seconds" in:"" minimum:"1" maximum:"86400"`
	SecretSet        bool   `json:"secret_set"`
	SecretLast4      string `json:"secret_last4" maxLength:"4"`
	// The provider's signing secret. For some types it is the provider's public key, `user:password`, the ARN of the topic
	// or the id of the webhook. Write-only: responses show `secret_last4`. Its mask means unchanged.
	Secret string `json:"secret,omitempty" in:"own,only" minLength:"1" maxLength:"512" pattern:"@secret"`
	// Up to three secrets, instead of `secret`: a signature is valid if one of them matches.
	Secrets []string `json:"secrets,omitempty" in:"own,only" minItems:"1" maxItems:"3" items.minLength:"1" items.maxLength:"512" items.pattern:"@secret"`
	// Header that carries the signature. For `hmac` only; default `X-Signature`.
	Header string `json:"header,omitempty" in:"own" minLength:"1" maxLength:"128" pattern:"@header"`
	// Hash of the HMAC. For `hmac` only; default `sha256`.
	Algorithm string `json:"algorithm,omitempty" in:"own" enum:"sha256,sha1,sha512"`
	// Encoding of the signature. For `hmac` only; default `hex`.
	Encoding string `json:"encoding,omitempty" in:"own" enum:"hex,base64"`
	// Text before the signature in the header, such as `sha256=`. For `hmac` only; default none.
	Prefix string `json:"prefix,omitempty" in:"own" maxLength:"64" pattern:"^([!-~][ -~]*)?$"`
	// Template of the signed text, with the placeholders `{timestamp}` and `{body}`. For `hmac` only; default `{body}`.
	SignedContent string `json:"signed_content,omitempty" in:"own" minLength:"1" maxLength:"256" pattern:"@text" example:"{timestamp}.{body}"`
}

// Signing is how the deliveries to a destination are signed.
type Signing struct {
	Scheme string `json:"scheme" in:"own" enum:"standard_webhooks"`
	// `ed25519`: the receiver verifies with `public_key` and has no secret.
	Algorithm string `json:"algorithm" in:"own" enum:"hmac-sha256,ed25519"`
	// `whpk_` and the base64 of the public key; `null` for `hmac-sha256`.
	PublicKey *string `json:"public_key"`
	// Only in the response that created it. Never for `ed25519`.
	Secret      string `json:"secret,omitempty" in:"own"`
	SecretLast4 string `json:"secret_last4"`
	// How deliveries are signed: by all of these at once.
	Schemes []kinds.SigningScheme `json:"schemes" in:"own" maxItems:"3"`
}

// Destination is where the events of an endpoint are delivered.
type Destination struct {
	ID     string `json:"id" ref:"DestinationId"`
	Object string `json:"object" const:"destination"`
	// Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more;
	// what it allows beyond that is refused.
	Name *string `json:"name" in:"name,null" maxLength:"100" pattern:"@text"`
	URL  string  `json:"url" in:"own" inref:"DestinationURL"`
	config.DestinationSettings
	// Headers that are added to each delivery. Credentials are masked.
	Headers   map[string]string `json:"headers" in:"own" inref:"DestinationHeadersInput" maxProperties:"20"`
	RateLimit *config.RateLimit `json:"rate_limit" in:"own,null"`
	// In place of the endpoint's. Merged member by member; what is left out in a new one is as in the endpoint. `null`: as
	// the endpoint.
	RetryPolicy *retry.Policy  `json:"retry_policy" in:"own,null"`
	Filter      *filter.Filter `json:"filter" in:"own" inref:"FilterInput" ref:"Filter" nullable:"true"`
	// In place of the endpoint's. `null`: as the endpoint. No operations: bodies are delivered as they are stored.
	Transformation *Transformation `json:"transformation" in:"own" inref:"TransformationInput"`
	kinds.Settings
	Signing Signing `json:"signing" in:"own" inref:"SigningInput"`
	// What happens to new deliveries. `active`: they are sent; `held`: they wait for the circuit breaker's next probe;
	// `paused`: they wait until the destination is unpaused; `disabled`: none are created.
	State       string    `json:"state" enum:"active,disabled,paused,held"`
	StateReason *string   `json:"state_reason" enum:"breaker_open,gone_410,receiver_disabled,manual,consecutive_failures"`
	Warnings    []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// EndpointAlerts are the settings in which an endpoint differs from the account; `null` means as in the account.
type EndpointAlerts struct {
	// Default `true`.
	Enabled bool `json:"enabled" in:""`
	// Channels that get the endpoint's alerts: all if `null`, none if empty.
	Channels            []string `json:"channels" in:"null" nullable:"true" maxItems:"3" uniqueItems:"true" items.enum:"@channels"`
	ConsecutiveFailures *int     `json:"consecutive_failures" in:"null" minimum:"1" maximum:"10000"`
	FailureRatePercent  *int     `json:"failure_rate_percent" in:"null" minimum:"1" maximum:"100"`
	// No alert of the endpoint fires until then. One that fires already stays, and its end is announced.
	MutedUntil web.Time `json:"muted_until" in:"null" inref:"InputTime" nullable:"true"`
}

// Transformation has the operations that make the bodies of deliveries.
type Transformation struct {
	Ops []transform.Op `json:"ops" ref:"TransformationOps"`
}

// TransformationVersion says when and by whom a version was made.
type TransformationVersion struct {
	Version   int        `json:"version" minimum:"1"`
	CreatedAt web.Time   `json:"created_at"`
	CreatedBy AuditActor `json:"created_by"`
	// How many it has; 0 ended the transformation.
	Operations int `json:"operations" minimum:"0" maximum:"32"`
	// `true`: the destination has that of the endpoint again.
	Inherits bool `json:"inherits,omitempty"`
}

// Endpoint receives the events of a provider or an application, and has the destinations to which they are delivered.
type Endpoint struct {
	ID     string `json:"id" ref:"EndpointId"`
	Object string `json:"object" const:"endpoint"`
	// Printable characters: no line breaks, tabs, direction marks or other invisible characters. The pattern allows more;
	// what it allows beyond that is refused. Default: the last eight characters of the id.
	Name        string  `json:"name" in:"name" minLength:"1" maxLength:"100" pattern:"@text"`
	Description *string `json:"description" in:"null" maxLength:"500" pattern:"@text"`
	// Default `generic`.
	Provider     string        `json:"provider" in:"own" enum:"@providers"`
	Verification *Verification `json:"verification" in:"own" inref:"VerificationCreate,VerificationChange"`
	// Where the type of a received event comes from: `body:$.type`, `header:X-GitHub-Event` or `const:order.created`.
	// Up to four alternatives, separated by `|`; the first one that yields a type is used. Values of more than 128 bytes,
	// or with spaces or invisible characters, are not types. The default depends on the provider.
	TypeSource *string `json:"type_source" in:"own,null" minLength:"1" maxLength:"512" pattern:"^(body:[$]|header:|const:)[^|]+([|](body:[$]|header:|const:)[^|]+){0,3}$" example:"body:$.type"`
	// Recognises repeated requests of the provider. A request with the key of an earlier one is stored as `skipped`
	// (`duplicate`) and not delivered. In a cluster, keys are as durable as its Redis: when that starts empty, a
	// repeated request is delivered again. A relay with its engines inside keeps them in a file. The default of a new
	// endpoint depends on the provider, such as `header:X-GitHub-Delivery`; `null` for none.
	Dedup       *config.Dedup       `json:"dedup" in:"null"`
	IngestLimit *config.IngestLimit `json:"ingest_limit" in:"" inref:"IngestLimitCreate,IngestLimitChange"`
	// Where the endpoint reads events from, beside `ingest_url`. `null` ends it.
	Source *kinds.Source `json:"source" in:"null"`
	// How events that the provider could not deliver are fetched from its API: for `stripe` and `github`. `null` ends it.
	Reconcile *kinds.Reconcile `json:"reconcile" in:"null"`
	// How far the source is read; `null` while that is not known, and in lists.
	SourceStatus *SourceStatus `json:"source_status"`
	// How the last look at the provider ended; `null` before, without `reconcile`, and in lists.
	Reconciliation *Reconciliation `json:"reconciliation"`
	Destinations   []Destination   `json:"destinations" in:"own" inref:"-" maxItems:"50"`
	// When failed deliveries are tried again. Members of another strategy than the resulting one are ignored. `null`
	// resets the policy to its defaults.
	RetryPolicy retry.Policy `json:"retry_policy" in:"own,null"`
	// Settings in which the endpoint differs from the account. `null` removes all of them.
	Alerts EndpointAlerts `json:"alerts" in:"own,null"`
	// `null`: bodies are delivered as they are stored.
	Transformation *Transformation `json:"transformation" in:"own" inref:"TransformationInput"`
	config.EndpointSettings
	// Look for secrets in the bodies of events, and in headers that carry no credentials. What is found is a finding with
	// the source `event`.
	ScanPayloads bool `json:"scan_payloads" in:"" inref:"ScanPayloads"`
	// What happens to an event whose data does not match the newest schema of its type in the catalogue. `warn` accepts
	// it with a warning, `reject` answers a send with 400. Both mark the event with `mismatch`; received events are
	// always accepted.
	Validate string            `json:"validate" in:"" enum:"off,warn,reject" inref:"EventValidation"`
	Metadata map[string]string `json:"metadata" in:"own" inref:"MetadataInput" maxProperties:"20"`
	// Tenant that the endpoint belongs to. It is set when the endpoint is created, and never changes.
	Tenant string `json:"tenant,omitempty" in:"own,null" ref:"TenantName"`
	// URL to which the provider posts events. Anyone who knows it can send events, so read-only keys and agent keys see
	// its token as `****` and four characters. `rotate-token` creates a new one. Challenges, with which a provider checks
	// the URL (Slack's `url_verification`, `hub.challenge`, Dropbox's `challenge`), are answered before any check and not
	// stored: an answered challenge does not show that the secret of `verification` is right.
	IngestURL string   `json:"ingest_url" format:"uri"`
	CreatedAt web.Time `json:"created_at"`
	UpdatedAt web.Time `json:"updated_at"`
	// Counts the changes of `transformation`; 0: it never had one.
	TransformationVersion int `json:"transformation_version" minimum:"0"`
	// When and by whom the newest versions were made, newest first.
	TransformationVersions []TransformationVersion `json:"transformation_versions" maxItems:"20"`
	Warnings               []Warning               `json:"warnings,omitempty" ref:"Warnings"`
}

// SourceStatus is how far the source of an endpoint is read.
type SourceStatus struct {
	// Records that are not read yet.
	Lag int64 `json:"lag" minimum:"0"`
	// What is wrong, in words that name what a person can change.
	Error *string  `json:"error"`
	At    web.Time `json:"at"`
}

// Reconciliation is how an endpoint is reconciled with its provider.
type Reconciliation struct {
	Object     string `json:"object" const:"reconciliation"`
	EndpointID string `json:"endpoint_id"`
	Provider   string `json:"provider"`
	// When the last look ended.
	At web.Time `json:"at" nullable:"true"`
	// When the next one begins.
	Next web.Time `json:"next_at" nullable:"true"`
	// How far back the last look went.
	Since web.Time        `json:"since" nullable:"true"`
	Last  ReconcileCounts `json:"last"`
	// The sums since the node began to look, at a restart or a change of the endpoint.
	Total ReconcileCounts `json:"total"`
	// Why the last look failed, in words that name what a person can change.
	Error *string `json:"error"`
	// Looks that failed in a row.
	FailedInARow int `json:"failed_in_a_row" minimum:"0"`
}

// ReconcileCounts are what looks have found.
type ReconcileCounts struct {
	// Events that the provider could not deliver. Those of Stripe may have failed at another webhook of the account.
	Found int `json:"found" minimum:"0"`
	// Of them fetched and stored as new events.
	Stored int `json:"stored" minimum:"0"`
	// Of them that the provider was asked to deliver again.
	Asked int `json:"asked" minimum:"0"`
	// Of them that it was asked for five times, and that failed again.
	GivenUp int `json:"given_up" minimum:"0"`
}

// Validation is the response to a body that the request for the change would accept. It does not say whether that would
// change anything: callers could guess secrets without leaving an audit entry.
type Validation struct {
	// "validation".
	Object   string    `json:"object" const:"validation"`
	Warnings []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// KeptTransformationVersion is a version with its operations. Sent back as the transformation of the endpoint, they
// become its newest version.
type KeptTransformationVersion struct {
	TransformationVersion
	// `null`: it had no operations, or they are not kept any more.
	Transformation *Transformation `json:"transformation"`
	// `false`: its operations are not kept any more.
	Restorable bool `json:"restorable"`
}

// PulledEvent is an event that a consumer has fetched, with the headers and the body of a delivery.
type PulledEvent struct {
	EventID string `json:"event_id" ref:"EventId"`
	// Names the lease. Acknowledge it.
	AttemptID  string   `json:"attempt_id" ref:"AttemptId"`
	EndpointID string   `json:"endpoint_id" ref:"EndpointId"`
	Type       *string  `json:"type"`
	ReceivedAt web.Time `json:"received_at"`
	// Number of the attempt, as the header `relay-attempt`.
	Attempt int `json:"attempt" minimum:"1"`
	// Until when to acknowledge it. Then it is delivered again.
	LeasedUntil web.Time `json:"leased_until"`
	// Those of a delivery, names in lower case. `webhook-signature` covers the bytes of the body.
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	// `base64` if the body is not UTF-8.
	BodyEncoding string `json:"body_encoding" ref:"BodyEncoding"`
}

// Pulled is the answer to a pull.
type Pulled struct {
	Data []PulledEvent `json:"data" maxItems:"1000"`
}

// Acknowledgement is what became of an attempt.
type Acknowledgement struct {
	AttemptID string `json:"attempt_id" example:"att_01m7w6h6kk00r00w2s1cbs4f8h"`
	// `acknowledged`: the event is delivered, now or before. `expired`: the lease had ended. `unknown`: the destination
	// has no such lease, or it ended when its node stopped. Expired and unknown ones are delivered again, unless
	// another attempt was acknowledged.
	Status string `json:"status" enum:"acknowledged,expired,unknown"`
}

// Acknowledged is the answer to acknowledgements, one for each, in their order.
type Acknowledged struct {
	Data []Acknowledgement `json:"data" maxItems:"1000"`
}

// Consumer is who pulls a destination.
type Consumer struct {
	Consumer   string   `json:"consumer" example:"worker-1"`
	LastPullAt web.Time `json:"last_pull_at"`
	// A pull waits for events.
	Pulling bool `json:"pulling"`
	// Number of events that it has and has not acknowledged.
	Leases int `json:"leases" minimum:"0"`
}

// Consumers are those of the last hour, up to 100 of each node that has events of the destination.
type Consumers struct {
	Data []Consumer `json:"data"`
}

// Change is one path that changed.
type Change struct {
	Change string `json:"change" enum:"added,removed,moved,replaced"`
	// JSON Pointer to where it is now or was removed.
	Pointer string `json:"pointer"`
	// JSON Pointer before the value moved, also when it replaced another value (`replaced`).
	From *string `json:"from"`
	// The first 200 bytes of the value as JSON.
	Before *string `json:"before"`
	// The first 200 bytes of the value as JSON.
	After *string `json:"after"`
}

// TransformationStep is what one operation did.
type TransformationStep struct {
	Index        int      `json:"index" minimum:"0" maximum:"31"`
	Op           string   `json:"op" enum:"rename,pick,drop,wrap,add,set,header,path,method,cancel"`
	Changed      []Change `json:"changed" maxItems:"50"`
	ChangedTotal int      `json:"changed_total" minimum:"0"`
	// What the event does not have.
	Warnings []string `json:"warnings" maxItems:"20"`
}

// Failure says which operation failed and where; index is null if the sample or the result is at fault.
type Failure struct {
	// The operation that failed; `null`: the sample or the result is at fault.
	Index *int `json:"index" minimum:"0" maximum:"31"`
	// JSON Pointer to the place; empty for the whole document.
	Pointer string `json:"pointer" maxLength:"1024"`
	Message string `json:"message"`
}

// TransformationPreview is what operations make of a sample.
type TransformationPreview struct {
	OK bool `json:"ok"`
	// The result; `null` if the operations fail, or if it has a number that JSON parsers cannot read, such as 1e400.
	Output json.RawMessage `json:"output"`
	// The bytes that a destination would get. They keep numbers that your JSON parser may change.
	OutputText *string `json:"output_text"`
	// Headers that operations set.
	Headers map[string]string `json:"headers,omitempty"`
	// What an operation appends to the path of the URL, escaped.
	Path   string `json:"path,omitempty"`
	Method string `json:"method,omitempty"`
	// Nothing would be sent: the delivery would end `skipped`, `cancelled_by_rule`.
	Cancelled bool `json:"cancelled,omitempty"`
	// What each operation did, up to one that failed.
	Steps    []TransformationStep `json:"steps" maxItems:"32"`
	Error    *Failure             `json:"error,omitempty"`
	BytesIn  int                  `json:"bytes_in" minimum:"0"`
	BytesOut int                  `json:"bytes_out" minimum:"0"`
	// How many credentials in the body of an event were masked before.
	Masked   int       `json:"masked" minimum:"0"`
	Warnings []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// FilteredEvent says whether an event passes a filter.
type FilteredEvent struct {
	EventID    string   `json:"event_id" ref:"EventId"`
	Type       *string  `json:"type"`
	ReceivedAt web.Time `json:"received_at"`
	Passes     bool     `json:"passes"`
	// Why the conditions have no value for it: its delivery would end `failed`, `transform_failed`.
	Error *string `json:"error"`
}

// FilterPreview says which of the newest events pass a filter.
type FilterPreview struct {
	// Newest first. Erased events are left out, and older ones if their bodies are too large or take too long to read.
	Data []FilteredEvent `json:"data" maxItems:"100"`
	// How many pass.
	Passed int `json:"passed" minimum:"0"`
	// How many have an `error`.
	Failed   int       `json:"failed" minimum:"0"`
	Warnings []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

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
	Reason  *event.Reason `json:"reason" enum:"signature_missing,signature_malformed,signature_mismatch,timestamp_outside_tolerance,certificate_expired"`
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
