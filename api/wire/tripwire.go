package wire

import (
	"github.com/eventrelay/relay/pkg/web"
)

// TripwireFile is a file with the secrets of a tripwire, to serve at Path.
type TripwireFile struct {
	Path string `json:"path"`
	// The whole file. Serve it at the path.
	Content string `json:"content"`
}

// TripwireSnippet is a text with a secret of a tripwire that can be planted.
type TripwireSnippet struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Tripwire is a honeytoken: a fake key, URL or file. Counts are null while the event store is unavailable.
type Tripwire struct {
	ID       string `json:"id" ref:"TripwireId"`
	Object   string `json:"object" const:"tripwire"`
	DomainID string `json:"domain_id" ref:"DomainId" in:"required" pattern:"^dom_[0-9a-z]+$"`
	// `key` is an API key, `url` an ingest URL, `file` a file that has one of each.
	Kind string `json:"kind" enum:"key,url,file" in:"required"`
	// Which file, if `kind` is `file`. Default `/.env`.
	Path *string `json:"path" in:"own" enum:"/.env,/.git/config,/credentials.json"`
	// Printable. Default is the end of the id.
	Label string `json:"label" in:"name" minLength:"1" maxLength:"100"`
	// Where you put it. If it names a path of the website, leak scans ignore the tripwire there and report it elsewhere.
	Placement string `json:"placement" in:"" maxLength:"300"`
	// `tripped`: the present secrets were used, or seen in logs, reports, events or a scan.
	Status      string `json:"status" enum:"armed,tripped"`
	TokenMasked string `json:"token_masked"`
	// The API key, or the token of the URL. Only in the answers that create and rotate the tripwire; `null` in all
	// others, as are `url` and `file`.
	Token *string `json:"token"`
	// The ingest URL, of `url` and `file`.
	URL  *string       `json:"url"`
	File *TripwireFile `json:"file"`
	// Texts to plant. Empty whenever `token` is `null`, and for a file.
	Snippets []TripwireSnippet `json:"snippets" maxItems:"10"`
	// When the present secrets were made.
	IssuedAt      web.Time `json:"issued_at"`
	LastTrippedAt web.Time `json:"last_tripped_at" nullable:"true"`
	// Uses and sightings, of former secrets too, without tests. After 100 uses in a day, those in one minute count once.
	// `null` while the store does not answer.
	TripCount *int64 `json:"trip_count" minimum:"0"`
	// Until when the next use from the address that asked for it is a test.
	TestUntil web.Time `json:"test_until" nullable:"true"`
	// Its occurrences are the hits. `null` before the first one.
	FindingID *string `json:"finding_id"`
	// The same, of tests.
	TestFindingID *string `json:"test_finding_id"`
	Meta
}
