package wire

import (
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/pkg/web"
)

// Verification is how the signatures of an endpoint's events are checked.
type Verification struct {
	Type             string `json:"type" enum:"@schemes"`
	Mode             string `json:"mode" enum:"enforce,observe"`
	ToleranceSeconds int    `json:"tolerance_seconds"`
	SecretSet        bool   `json:"secret_set"`
	SecretLast4      string `json:"secret_last4" maxLength:"4"`
	Header           string `json:"header,omitempty"`
	Algorithm        string `json:"algorithm,omitempty" enum:"sha256,sha1,sha512"`
	Encoding         string `json:"encoding,omitempty" enum:"hex,base64"`
	Prefix           string `json:"prefix,omitempty"`
	SignedContent    string `json:"signed_content,omitempty"`
}

// Signing is how the deliveries to a destination are signed.
type Signing struct {
	Scheme string `json:"scheme" enum:"standard_webhooks"`
	// Only in the response that created it.
	Secret      string `json:"secret,omitempty"`
	SecretLast4 string `json:"secret_last4"`
}

// Destination is where the events of an endpoint are delivered.
type Destination struct {
	ID             string  `json:"id" ref:"DestinationId"`
	Object         string  `json:"object" const:"destination"`
	Name           *string `json:"name"`
	URL            string  `json:"url"`
	Enabled        bool    `json:"enabled"`
	Paused         bool    `json:"paused"`
	TimeoutSeconds int     `json:"timeout_seconds" minimum:"1" maximum:"60"`
	// Headers that are added to each delivery. Credentials are masked.
	Headers     map[string]string `json:"headers" maxProperties:"20"`
	RateLimit   *config.RateLimit `json:"rate_limit"`
	MaxInFlight int               `json:"max_in_flight" minimum:"1" maximum:"1000"`
	Filter      *config.Filter    `json:"filter" ref:"Filter" nullable:"true"`
	Signing     Signing           `json:"signing"`
	// What happens to new deliveries. `active`: they are sent; `held`: they wait for the circuit breaker's next probe;
	// `paused`: they wait until the destination is unpaused; `disabled`: none are created.
	State       string    `json:"state" enum:"active,disabled,paused,held"`
	StateReason *string   `json:"state_reason" enum:"breaker_open,gone_410,manual,consecutive_failures"`
	Warnings    []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// EndpointAlerts are the settings in which an endpoint differs from the account; `null` means as in the account.
type EndpointAlerts struct {
	Enabled bool `json:"enabled"`
	// Null = all.
	Channels            []string `json:"channels" nullable:"true" items.enum:"@channels"`
	ConsecutiveFailures *int     `json:"consecutive_failures"`
	FailureRatePercent  *int     `json:"failure_rate_percent"`
	MutedUntil          web.Time `json:"muted_until" nullable:"true"`
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
}

// Endpoint receives the events of a provider or an application, and has the destinations to which they are delivered.
type Endpoint struct {
	ID           string              `json:"id" ref:"EndpointId"`
	Object       string              `json:"object" const:"endpoint"`
	Name         string              `json:"name"`
	Description  *string             `json:"description"`
	Provider     string              `json:"provider" enum:"@providers"`
	Verification *Verification       `json:"verification"`
	TypeSource   *string             `json:"type_source"`
	Dedup        *config.Dedup       `json:"dedup"`
	IngestLimit  *config.IngestLimit `json:"ingest_limit"`
	Destinations []Destination       `json:"destinations" minItems:"1" maxItems:"50"`
	RetryPolicy  config.RetryPolicy  `json:"retry_policy" ref:"RetryPolicy"`
	Alerts       EndpointAlerts      `json:"alerts"`
	// `null`: bodies are delivered as they are stored.
	Transformation *Transformation `json:"transformation"`
	Response       config.Response `json:"response"`
	// `false`: the ingest URL gets 404 and sends are refused. Stored events stay, and deliveries that wait go on:
	// `paused` holds them, and `enabled: false` of a destination ends them.
	Enabled bool `json:"enabled"`
	// `true`: events are stored and held until the endpoint is unpaused.
	Paused       bool              `json:"paused"`
	ScanPayloads bool              `json:"scan_payloads"`
	KeepMethod   bool              `json:"keep_method"`
	Metadata     map[string]string `json:"metadata" maxProperties:"20"`
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
