package wire

import "github.com/eventrelay/relay/pkg/web"

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
	Meta
}
