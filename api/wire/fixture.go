package wire

import (
	"encoding/json"

	"github.com/eventrelay/relay/pkg/fixture"
	"github.com/eventrelay/relay/pkg/web"
)

// FixtureSummary is a fixture in a list.
type FixtureSummary struct {
	ID            string `json:"id" ref:"FixtureId"`
	Object        string `json:"object" const:"fixture"`
	Name          string `json:"name"`
	SourceEventID string `json:"source_event_id" ref:"EventId"`
	// That of the event, which may have been deleted.
	EndpointID string `json:"endpoint_id"`
	// Without secrets and personal data.
	EventType      *string `json:"event_type"`
	Method         string  `json:"method" enum:"POST,PUT,PATCH,DELETE"`
	ExpectedStatus int     `json:"expected_status" minimum:"100" maximum:"599"`
	// Of the body.
	SizeBytes int `json:"size_bytes" minimum:"0"`
	// Values of the event that are redacted and not kept.
	Removed int `json:"removed" minimum:"0"`
	// Whether the body was given, and is not that of the event.
	Edited    bool     `json:"edited"`
	ExpiresAt web.Time `json:"expires_at"`
	// Counts the changes.
	Version   int      `json:"version" minimum:"1"`
	CreatedBy string   `json:"created_by"`
	CreatedAt web.Time `json:"created_at"`
	UpdatedAt web.Time `json:"updated_at"`
}

// Fixture is an event without secrets and personal data, for tests, with the answer that is expected.
type Fixture struct {
	FixtureSummary
	// The sanitised JSON.
	Body json.RawMessage `json:"body"`
	// What the sanitiser replaces in the event, with what is kept.
	Redactions []fixture.Redaction `json:"redactions" items.ref:"Redaction"`
	Keep       []string            `json:"keep"`
	Required   []fixture.Required  `json:"required" items.ref:"RequiredField"`
	Warnings   []Warning           `json:"warnings,omitempty" ref:"Warnings"`
}

// SetWarnings does nothing: no list has warnings.
func (f *FixtureSummary) SetWarnings([]Warning) {}

// FixtureChange is what a request says of a fixture; nil: nothing.
type FixtureChange struct {
	EventID *string `json:"event_id" in:"required" minLength:"1" ref:"EventId"`
	// Printable characters.
	Name *string `json:"name" in:"" minLength:"1" maxLength:"100"`
	// Any JSON of at most 256 KiB and 64 levels, instead of the sanitised event.
	Body json.RawMessage `json:"body" in:"own"`
	// Pointers of `redactions` whose values stay as they are in the event. Not those of secrets, and not together with
	// `body`.
	Keep []string `json:"keep" in:"own,null" maxItems:"5000"`
	// Default 200.
	ExpectedStatus *int `json:"expected_status" in:"" minimum:"100" maximum:"599"`
	// What the JSON of the answer must have.
	Required []fixture.Required `json:"required" in:"own,null" maxItems:"20" items.ref:"RequiredField"`
	// One hour to 90 days from now, 14 days by default.
	ExpiresAt *web.Time `json:"expires_at" in:"" inref:"FixtureExpiry"`
	// The version that was read.
	Version *int `json:"version" in:"own,update" minimum:"1"`
}
