package wire

import (
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// CustomRule has the members of secrets.Custom, without its page.
type CustomRule struct {
	// Unique among your rules.
	ID string `json:"id" in:"own,required" pattern:"^custom:[a-z0-9-]{1,40}$"`
	// Printable. Shown with its findings.
	Name string `json:"name" in:"name,required" minLength:"1" maxLength:"100"`
	// Prefixes of the keys. All rules together have at most 150. A prefix begins with at most three other prefixes.
	Prefixes []string `json:"prefixes" in:"own,required" minItems:"1" maxItems:"10" items.minLength:"3" items.maxLength:"40" items.pattern:"^[A-Za-z0-9_.~-]{3,40}$"`
	// Characters after the prefix. Default `alnum`: ASCII letters and digits. `word` adds `_`, `urlsafe` adds `-` and
	// `_`, `base64` adds `+`, `/` and `=`.
	Charset string `json:"charset" in:"" enum:"@charsets"`
	// Minimum number of characters after the prefix. Default 16.
	Min int `json:"min" in:"" minimum:"8" maximum:"1024"`
	// Maximum number of characters after the prefix. Default 128, the highest for `base64`, `token68` and `value`.
	Max int `json:"max" in:"" minimum:"8" maximum:"1024"`
	// What must not precede the prefix. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset.
	Left string `json:"left" in:"" enum:"word,charset"`
	// What must not follow the key. Default `word`: a letter, a digit or `_`. `charset`: a character of the charset.
	// With `any` a longer key is found by its first `max` characters.
	Right string `json:"right" in:"" enum:"word,charset,any"`
	// Minimum Shannon entropy of the characters after the prefix, in bits per character. Default 0.
	Entropy float64 `json:"entropy" in:"" minimum:"0" maximum:"6"`
	// Severity of its findings, at most `high`. Default `medium`.
	Severity secrets.Severity `json:"severity" in:"" enum:"critical,high,medium,low"`
	Docs     string           `json:"-"`
}

// DetectionRule is one of the account's own rules.
type DetectionRule struct {
	CustomRule
	// URL (https) of a page with instructions for a leaked key.
	DocsURL *string `json:"docs_url" in:"null" maxLength:"300"`
}

// DetectionSettings are the account's own rules for secrets.
type DetectionSettings struct {
	Object string          `json:"object" const:"detection_settings"`
	Rules  []DetectionRule `json:"rules" in:"own,null" maxItems:"50"`
	// Counts the changes; 0 before the first one. A change with another version than the current one is refused.
	Version   int      `json:"version" in:"own" minimum:"0"`
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
