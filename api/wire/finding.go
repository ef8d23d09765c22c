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

// Occurrence is one hit, or several equal ones in one request.
type Occurrence struct {
	Object string   `json:"object" const:"occurrence"`
	At     web.Time `json:"at"`
	// The line's own time, at most `at`.
	ObservedAt web.Time `json:"observed_at"`
	// How often it was seen in the request.
	Count  int64          `json:"count" minimum:"1"`
	Source finding.Source `json:"source" ref:"FindingSource"`
	// Part of the source, such as `log`.
	Channel     *string          `json:"channel"`
	Severity    string           `json:"severity" ref:"FindingSeverity"`
	Unverified  bool             `json:"unverified"`
	Test        bool             `json:"test"`
	Location    finding.Location `json:"location" ref:"FindingPlace"`
	Environment *string          `json:"environment"`
	Release     *string          `json:"release"`
	// HTTP method of the request.
	Method    *string `json:"method"`
	UserAgent *string `json:"user_agent"`
	// Of the sender; `null` after 30 days.
	RemoteIP *string `json:"remote_ip"`
	// The /24 or /48 of the sender, which stays.
	RemoteNet *string `json:"remote_network"`
}

// FailedFinding is a finding that was not updated.
type FailedFinding struct {
	ID string `json:"id"`
	// The type of the error.
	Type    string `json:"type"`
	Message string `json:"message"`
}

// FindingsUpdated counts the findings that a bulk update has changed.
type FindingsUpdated struct {
	Object  string `json:"object" const:"findings_update"`
	Updated int    `json:"updated"`
	// Findings that already had the requested state.
	Unchanged int             `json:"unchanged"`
	Failed    []FailedFinding `json:"failed"`
	// There are more findings of the drain and rule. Send the call again.
	More bool `json:"more"`
}

// FindingChange is what a request changes of a finding; nil: nothing.
type FindingChange struct {
	Status *string `json:"status" in:"null" enum:"open,acknowledged,resolved,ignored"`
	// Required when the finding becomes `resolved`.
	Resolution *string `json:"resolution" in:"null" enum:"revoked,removed,false_positive"`
	// Required when the finding becomes `ignored`.
	IgnoreReason *string `json:"ignore_reason" in:"null" enum:"false_positive,used_in_tests,accepted_risk"`
	// Only for an ignored finding: when it is opened again. `null` for never; a finding without `fingerprint` may hold
	// several secrets and is opened again after a day at the latest.
	IgnoreUntil *web.Time `json:"ignore_until" in:"only" inref:"InputTime"`
	// Keys in it are masked.
	Note *string `json:"note" in:"only" maxLength:"500"`
	// The version that you have seen.
	Version *int `json:"version" in:"own,null" minimum:"1"`
}
