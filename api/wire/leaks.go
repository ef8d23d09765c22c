package wire

import (
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/web"
)

// FindingLocation is a place at which a finding was seen, with its hits.
type FindingLocation struct {
	finding.Location
	// The lines of this file and function at which an SDK saw it, ascending; of more than 20 the newest.
	Lines    []int    `json:"lines,omitempty" maxItems:"20"`
	Count    int64    `json:"count" minimum:"1"`
	LastSeen web.Time `json:"last_seen"`
}

// Finding is a leaked secret, an exposed file or a used tripwire, with where it was seen.
type Finding struct {
	ID     string       `json:"id" ref:"FindingId"`
	Object string       `json:"object" const:"finding"`
	Kind   finding.Kind `json:"kind" enum:"secret,exposed_file,tripwire"`
	// Id of the rule that found it; `flood` if a sender reports too many findings.
	Rule string `json:"rule"`
	// Name of the rule.
	Name string `json:"name"`
	// Whose key it is.
	Provider *string `json:"provider" example:"Stripe"`
	// Page of the provider about keys of this kind.
	DocsURL  *string        `json:"docs_url"`
	Severity string         `json:"severity" ref:"FindingSeverity"`
	Status   finding.Status `json:"status" enum:"open,acknowledged,resolved,ignored"`
	// The beginning and the end of the key.
	Masked *string `json:"masked" maxLength:"80"`
	// A keyed hash of the key. `null` if the key could be guessed.
	Fingerprint *string          `json:"fingerprint"`
	Sources     []finding.Source `json:"sources" minItems:"1" items.ref:"FindingSource"`
	FirstSeen   web.Time         `json:"first_seen"`
	LastSeen    web.Time         `json:"last_seen"`
	// How often it was seen.
	Occurrences int64 `json:"occurrences" minimum:"0"`
	// `true` if only browsers or events without a verified signature have reported it.
	Unverified bool `json:"unverified"`
	// `true` if only test keys were seen.
	Test bool `json:"test"`
	// Id of the API key of this service that was found.
	KeyID *string `json:"key_id"`
	// Of the newest occurrence.
	Environment *string `json:"environment"`
	// Of the newest occurrence.
	Release *string `json:"release"`
	// Where it was seen, the newest first.
	Locations []FindingLocation `json:"locations" maxItems:"20" items.ref:"FindingLocation"`
	// `revoked`, `removed` or `false_positive`.
	Resolution *string `json:"resolution"`
	// `false_positive`, `used_in_tests` or `accepted_risk`.
	IgnoreReason *string `json:"ignore_reason"`
	// When an ignored finding is opened again; `null` for never.
	IgnoreUntil web.Time `json:"ignore_until" nullable:"true"`
	ResolvedAt  web.Time `json:"resolved_at" nullable:"true"`
	// When the service last opened it again because the key was still seen.
	RegressedAt web.Time `json:"regressed_at" nullable:"true"`
	Note        *string  `json:"note" maxLength:"500"`
	// Id of the person or the API key that changed it last.
	UpdatedBy *string `json:"updated_by"`
	// Counts the changes.
	Version  int       `json:"version" minimum:"1"`
	Warnings []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// Domain is a host name that you own or claim to own.
type Domain struct {
	ID     string `json:"id" ref:"DomainId"`
	Object string `json:"object" const:"domain"`
	// The host name alone, such as `www.example.com`. It is stored in lower-case ASCII.
	Hostname string `json:"hostname" in:"required" minLength:"1" maxLength:"2048"`
	Status   string `json:"status" enum:"pending,verified,expired"`
	// The method that has verified the domain.
	Method *string `json:"method" enum:"dns,http"`
	// Proves the host name. It is no secret once it is published.
	Token string `json:"token"`
	// Name, type and value of the TXT record.
	DNSRecord string `json:"dns_record"`
	// URL of the file. Its content is the token alone, in at most 1 KiB.
	HTTPURL    string   `json:"http_url"`
	VerifiedAt web.Time `json:"verified_at" nullable:"true"`
	// When the proof was looked for last.
	CheckedAt web.Time `json:"checked_at" nullable:"true"`
	// Of the last check.
	LastMethod *string `json:"last_method" enum:"dns,http"`
	// Why the last check found no proof. `null` if it did.
	LastError *string `json:"last_error" enum:"not_found,mismatch,redirected,blocked,unreachable,tls"`
	// What was found instead, in at most 200 bytes. Secrets are masked.
	Seen *string `json:"seen"`
	// What to do about the last check.
	Advice *string `json:"advice"`
	// When the domain expires without a proof.
	ExpiresAt web.Time `json:"expires_at" nullable:"true"`
	Meta
}
