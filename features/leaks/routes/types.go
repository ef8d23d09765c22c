package routes

import (
	"embed"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// texts describe the operations in the OpenAPI document, sources the types.
var (
	//go:embed openapi
	texts embed.FS
	//go:embed types.go
	sources embed.FS
)

// Document is the part of the OpenAPI document.
func Document() wire.Part {
	return wire.Part{
		Texts: texts, Sources: sources,
		Answers: []any{
			Drain{}, wire.List[Drain]{}, DSN{}, wire.List[DSN]{}, wire.Domain{}, wire.List[wire.Domain]{}, Scan{},
			wire.List[Scan]{}, Tripwire{}, wire.List[Tripwire]{}, wire.Finding{}, wire.List[wire.Finding]{}, Occurrence{},
			wire.List[Occurrence]{}, FindingsUpdated{}, DetectionSettings{}, DetectionTry{},
		},
		Requests: []any{Drain{}, DSN{}, wire.Domain{}, Scan{}, Tripwire{}, DetectionSettings{}, FindingChange{}},
	}
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
	UpdatedBy *string        `json:"updated_by"`
	Warnings  []wire.Warning `json:"warnings,omitempty" ref:"Warnings"`
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
	Masked   string         `json:"masked"`
	Warnings []wire.Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// Drain is a log drain.
type Drain struct {
	ID     string `json:"id" ref:"DrainId"`
	Object string `json:"object" const:"drain"`
	// Printable. Default is the end of its id.
	Name string `json:"name" in:"name" minLength:"1" maxLength:"100"`
	// `auto`, the default, recognises the platform from each request and answers as it expects.
	Platform string `json:"platform" in:"" enum:"auto,vercel,heroku,firehose,cloudflare,generic"`
	Status   string `json:"status" in:"" enum:"active,paused"`
	// Anyone who knows it can send lines, so read-only keys and agent keys see its token as `****` and four characters.
	URL string `json:"url"`
	// The signature secret that Vercel shows. While it is set, the drain answers 403 to requests without a valid
	// `x-vercel-signature`. Only for `auto` and `vercel`. It is never shown again; `null` removes it.
	SigningSecret *string `json:"signing_secret,omitempty" in:"only" minLength:"1" maxLength:"256" pattern:"^[!-~]+$"`
	// The code with which Vercel verifies the URL. Every answer has it as `x-vercel-verify`. `null` removes it.
	VerifyCode       *string `json:"verify_code,omitempty" in:"only" minLength:"1" maxLength:"256" pattern:"^[!-~]+$"`
	SigningSecretSet bool    `json:"signing_secret_set"`
	VerifyCodeSet    bool    `json:"verify_code_set"`
	// That of the newest request of the last 24 hours that names one.
	DetectedPlatform *string `json:"detected_platform"`
	Received
	// After decompression.
	Bytes24h *int64 `json:"bytes_24h" minimum:"0"`
	Lines24h *int64 `json:"lines_24h" minimum:"0"`
	// Why the newest refused request of the last 24 hours was refused.
	LastError *string `json:"last_error" enum:"rate_limited,too_large,too_slow,unsupported_encoding,unreadable,bad_signature,unavailable,failed"`
	Versioned
}

// DSN is what an application with the SDK sends its reports to.
type DSN struct {
	ID     string `json:"id" ref:"DSNId"`
	Object string `json:"object" const:"dsn"`
	// Printable. Default is the end of its id.
	Name string `json:"name" in:"name" minLength:"1" maxLength:"100"`
	// Required for a new DSN, and then fixed. Use `browser` for whatever users can download.
	Platform string `json:"platform" in:"" enum:"server,browser"`
	// The DSN to configure in the application. For server DSNs, read-only keys see its key masked.
	DSN string `json:"dsn"`
	// Origins of the pages that may send reports, such as `https://app.example.com` or `https://*.example.com`. Only for
	// `browser`; without any (`[]` or `null`), all pages may. It keeps out mistakes only: programs can send any origin.
	AllowedOrigins []string `json:"allowed_origins" in:"null" maxItems:"20" items.maxLength:"300"`
	// Reports of a UTC day that are accepted; `null` for no limit.
	DailyQuota *int `json:"daily_quota" in:"null" minimum:"1" maximum:"10000000"`
	// Name and version in the newest request of the last 24 hours that names them.
	SDK *string `json:"sdk"`
	Received
	Reports24h *int64 `json:"reports_24h" minimum:"0"`
	// Why the newest refused request of the last 24 hours was refused. `masking_failed`: the application withheld lines
	// that it could not mask.
	LastError *string `json:"last_error" enum:"wrong_origin,rate_limited,too_large,unreadable,unavailable,failed,masking_failed"`
	Versioned
}

// Received is what a drain or a DSN has received in the last 24 hours; null while the store does not answer.
type Received struct {
	// Arrival of the newest request of the last 24 hours, a refused one included.
	LastReceivedAt web.Time `json:"last_received_at" nullable:"true"`
	// `null` while the store does not answer.
	Requests24h *int64 `json:"requests_24h" minimum:"0"`
	// Secrets, each as often as it occurred.
	Hits24h *int64 `json:"hits_24h" minimum:"0"`
	// Requests that were refused.
	Rejected24h *int64 `json:"rejected_24h" minimum:"0"`
}

// Versioned has the last members of resources that count their changes.
type Versioned struct {
	// Increases with each change. Send the version that you read: if it is outdated, the change is refused (`conflict`).
	Version int `json:"version" in:"update" minimum:"1"`
	wire.Meta
}

// Scan is one search of a website for leaked keys and exposed files.
type Scan struct {
	ID       string `json:"id" ref:"ScanId"`
	Object   string `json:"object" const:"scan"`
	DomainID string `json:"domain_id" ref:"DomainId" in:"required" pattern:"^dom_[0-9a-z]+$"`
	Hostname string `json:"hostname"`
	Status   string `json:"status" enum:"queued,running,completed,failed"`
	Trigger  string `json:"trigger" enum:"manual,weekly"`
	// At most 50.
	Pages int `json:"pages" minimum:"0"`
	// Other requests: scripts, source maps and probes. At most 300.
	Resources int `json:"resources" minimum:"0"`
	// After decompression.
	Bytes int64 `json:"bytes" minimum:"0"`
	// Findings that were not known before.
	FindingsNew int `json:"findings_new" minimum:"0"`
	// Findings that were known and are still there.
	FindingsSeen int `json:"findings_seen" minimum:"0"`
	// Paths that were skipped. `tripwire`: your own tripwire was found where you placed it.
	Skipped []ScanSkipped `json:"skipped" maxItems:"100"`
	// How many more were skipped.
	SkippedMore int `json:"skipped_more" minimum:"0"`
	// Other hosts whose scripts the pages load. They were not looked at.
	ThirdParty []string `json:"third_party" maxItems:"100"`
	// The website answers 200 to paths that it does not have.
	CatchAll bool `json:"catch_all"`
	// The first budget that ended.
	BudgetExhausted *string `json:"budget_exhausted" enum:"pages,resources,bytes,time"`
	// Why the scan failed.
	Error *string `json:"error" enum:"unreachable,blocked_address,verification_expired,interrupted"`
	// `null` for weekly scans.
	CreatedBy  *string        `json:"created_by"`
	CreatedAt  web.Time       `json:"created_at"`
	StartedAt  web.Time       `json:"started_at" nullable:"true"`
	FinishedAt web.Time       `json:"finished_at" nullable:"true"`
	Warnings   []wire.Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// ScanSkipped is something that a scan has not looked at.
type ScanSkipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason" enum:"budget,depth,query,file_type,redirect,status,refused,too_large,timeout,unreachable,unreadable,not_verified,tripwire"`
}

// SetWarnings adds the warnings about the request to its answer.
func (s *Scan) SetWarnings(all []wire.Warning) { s.Warnings = all }

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
	wire.Meta
}
