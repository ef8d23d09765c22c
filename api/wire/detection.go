package wire

import (
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// DetectionRule is one of the account's own rules.
type DetectionRule struct {
	secrets.Custom
	DocsURL *string `json:"docs_url"`
}

// DetectionSettings are the account's own rules for secrets.
type DetectionSettings struct {
	Object string          `json:"object" const:"detection_settings"`
	Rules  []DetectionRule `json:"rules" maxItems:"50" items.ref:"DetectionRule"`
	// Counts the changes; 0 before the first one.
	Version   int      `json:"version" minimum:"0"`
	UpdatedAt web.Time `json:"updated_at" nullable:"true"`
	// The API key or person that changed the rules last.
	UpdatedBy *string   `json:"updated_by"`
	Warnings  []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// TryMatch is one secret in the text.
type TryMatch struct {
	Rule string `json:"rule"`
	Name string `json:"name"`
	// In a log line.
	Severity string `json:"severity" enum:"critical,high,medium,low"`
	Masked   string `json:"masked"`
	// From 1 on.
	Line int `json:"line" minimum:"1"`
}

// DetectionTry is what rules have found in a text.
type DetectionTry struct {
	Object  string     `json:"object" const:"detection_try"`
	Matches []TryMatch `json:"matches" maxItems:"50"`
	// Number of secrets, also of those that `matches` lacks.
	Total int `json:"total" minimum:"0"`
	// The text with a mask in place of each secret.
	Masked   string    `json:"masked"`
	Warnings []Warning `json:"warnings,omitempty" ref:"Warnings"`
}
