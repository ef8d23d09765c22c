package wire

import (
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

// UsedEvents counts accepted events and findings. Retries, replays, duplicates, rejected events and test events do
// not count.
type UsedEvents struct {
	// Events from providers.
	Received int64 `json:"received" minimum:"0"`
	// Events sent through the API.
	Sent int64 `json:"sent" minimum:"0"`
	// Findings of the leak scan.
	Findings int64 `json:"findings" minimum:"0"`
	Total    int64 `json:"total" minimum:"0"`
}

// Overage counts what exceeds the allowance.
type Overage struct {
	// Events above the allowance.
	Events int64 `json:"events" minimum:"0"`
}

// Projection is the expected usage at the end of the period.
type Projection struct {
	Events        int64 `json:"events" minimum:"0"`
	OverageEvents int64 `json:"overage_events" minimum:"0"`
	// `last_7_days`: the usage so far, plus the rate of the last seven days for the rest of the period.
	Method string `json:"method" enum:"last_7_days"`
	// `low` in the first 24 hours of a period, or of the account.
	Confidence string `json:"confidence" enum:"low,ok"`
	// In minor units of the currency; `null` if there is no price.
	OverageAmount *int64  `json:"overage_amount"`
	Currency      *string `json:"currency"`
}

// EndpointUsage is what one endpoint has used.
type EndpointUsage struct {
	EndpointID string `json:"endpoint_id" ref:"EndpointId"`
	Received   int64  `json:"received" minimum:"0"`
	Sent       int64  `json:"sent" minimum:"0"`
	Total      int64  `json:"total" minimum:"0"`
	Bytes      int64  `json:"bytes" minimum:"0"`
}

// UsageDay is the usage of a day.
type UsageDay struct {
	Date string `json:"date" format:"date"`
	UsedEvents
	Bytes int64 `json:"bytes" minimum:"0"`
}

// Usage is what the account has used in a month. Deliveries and attempts are counted at least once.
type Usage struct {
	PeriodStart web.Time `json:"period_start"`
	PeriodEnd   web.Time `json:"period_end"`
	// Everything that was acknowledged before this time is counted.
	AsOf   web.Time   `json:"as_of"`
	Events UsedEvents `json:"events"`
	// Successful requests to destinations. After a failure some may be counted twice, unlike events.
	Deliveries int64 `json:"deliveries" minimum:"0"`
	// All requests to destinations, counted like deliveries.
	Attempts int64 `json:"attempts" minimum:"0"`
	// Bytes of the bodies of the events.
	Bytes int64 `json:"bytes" minimum:"0"`
	// Agreed events per month, as of now; `null` if there is none.
	Allowance *int64  `json:"allowance" minimum:"1"`
	Remaining *int64  `json:"remaining" minimum:"0"`
	Overage   Overage `json:"overage"`
	// Expected usage at the end of the period.
	Projection Projection `json:"projection"`
	// The 20 endpoints with the most events, largest first.
	ByEndpoint []EndpointUsage `json:"by_endpoint" maxItems:"20"`
	// Every day of the period up to now, oldest first. The days add up to `events`.
	Daily []UsageDay `json:"daily" maxItems:"32"`
}

// EndpointDay is what an endpoint has used on a day.
type EndpointDay struct {
	Date     string `json:"date" format:"date"`
	Received int64  `json:"received" minimum:"0"`
	Sent     int64  `json:"sent" minimum:"0"`
	Total    int64  `json:"total" minimum:"0"`
	Bytes    int64  `json:"bytes" minimum:"0"`
}

// EndpointDays is the usage of one endpoint with its days.
type EndpointDays struct {
	EndpointUsage
	// The days with an event, oldest first.
	Daily []EndpointDay `json:"daily" maxItems:"31"`
}

// UsageDays is what the account has used on each day.
type UsageDays struct {
	Object string   `json:"object" const:"usage_days"`
	From   web.Time `json:"from"`
	// The end of today in UTC.
	To web.Time `json:"to"`
	// Everything that was acknowledged before this time is counted.
	AsOf web.Time `json:"as_of"`
	// Every day, oldest first.
	Daily []UsageDay `json:"daily" maxItems:"31"`
	// The 20 endpoints with the most events in these days, largest first.
	ByEndpoint []EndpointDays `json:"by_endpoint" maxItems:"20"`
}

// AlertSettings says what alerts are about, and where they go.
type AlertSettings struct {
	// Every kind; null where none is configured.
	Channels map[notify.Kind]any `json:"channels" in:"own" ref:"AlertChannels" inref:"AlertChannelsInput"`
	// Merged rule by rule; `null` resets one rule, or all of them, to the defaults.
	Rules alerting.AlertRules `json:"rules" in:"null"`
	// Shortest time between two messages about the same subject, in seconds.
	CooldownSeconds int       `json:"cooldown_seconds" in:"null" minimum:"0" maximum:"86400"`
	UpdatedAt       web.Time  `json:"updated_at" nullable:"true"`
	Warnings        []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// AlertTestOutcome is the outcome of the test of one channel.
type AlertTestOutcome struct {
	Channel notify.Kind `json:"channel" enum:"@channels"`
	// Masked.
	Target string `json:"target"`
	OK     bool   `json:"ok"`
	// `skipped`: the channel is disabled.
	Status     string `json:"status" enum:"sent,failed,skipped"`
	HTTPStatus *int   `json:"http_status"`
	// A value of an attempt's `error_code`, or one for mail such as `smtp_not_configured`.
	Error      *event.ErrorCode `json:"error"`
	Message    *string          `json:"message"`
	DurationMS int64            `json:"duration_ms" minimum:"0"`
}

// AlertTestResult is the response to a test of all channels.
type AlertTestResult struct {
	Sent     int                `json:"sent" minimum:"0"`
	Failed   int                `json:"failed" minimum:"0"`
	Results  []AlertTestOutcome `json:"results" maxItems:"3"`
	Warnings []Warning          `json:"warnings,omitempty" ref:"Warnings"`
}

// Alert is something that needs attention, or did.
type Alert struct {
	ID     string `json:"id" pattern:"^alrt_"`
	Object string `json:"object" const:"alert"`
	// The type of its messages, such as `alert.destination.held`.
	Type string `json:"type"`
	Rule string `json:"rule" enum:"delivery_failed,consecutive_failures,failure_rate,backlog_age,destination_state,verification_failed,usage,recovery,processing_missing,source_failing"`
	// `null` for alerts of the account.
	EndpointID    *string `json:"endpoint_id"`
	DestinationID *string `json:"destination_id"`
	// Only of the rule `recovery`.
	RecoveryID *string `json:"recovery_id"`
	State      string  `json:"state" enum:"firing,resolved"`
	// What the rule found when it fired last: a number, or a word such as `gone_410`.
	Value any `json:"value" ref:"AlertValue"`
	// What `value` was compared with; `null` for rules without a threshold.
	Threshold any `json:"threshold" ref:"AlertValue"`
	// When it fired last.
	FiredAt web.Time `json:"fired_at"`
	// `null` while it fires.
	ResolvedAt web.Time `json:"resolved_at" nullable:"true"`
}

// AuditActor is who made a change.
type AuditActor struct {
	// `portal` is a person of a tenant in the portal; `operator` is someone who ran a `relay` command on a node; `system`
	// is the service itself.
	Type audit.ActorType `json:"type" enum:"key,user,portal,operator,system"`
	// Id of the key, the user or the portal link.
	ID *string `json:"id"`
	// Name of the key, the user, or the part of the service, at that time.
	Name *string `json:"name"`
}

// Entity is what an audit entry is about.
type Entity struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

// KeyUse counts the requests with a key at one node.
type KeyUse struct {
	Count  uint64 `json:"count" minimum:"1"`
	LastAt string `json:"last_at" ref:"Time"`
	Node   string `json:"node"`
}

// AuditEntry is one change of the configuration.
type AuditEntry struct {
	ID     string     `json:"id" pattern:"^aud_[0-9a-hjkmnp-tv-z]{26}$"`
	Object string     `json:"object" const:"audit_entry"`
	At     string     `json:"at" ref:"Time"`
	Actor  AuditActor `json:"actor"`
	// What was done, such as `endpoint.created`, `endpoint.updated`, `key.revoked`, `key.used`, `tool.called`.
	Action string `json:"action"`
	Entity Entity `json:"entity"`
	// Paths of the members that an update changed, such as `destinations.dst_….enabled`. If there are too many, only the
	// first ones, followed by `…`.
	Changes []string `json:"changes" maxItems:"50"`
	// Id of a related entity. For an agent's request (`act_…`), the entity that it wants to change; for the change that
	// was then made, the `act_…`.
	RelatedID *string `json:"related_id"`
	// `X-Request-Id` of the request that made the change.
	RequestID *string `json:"request_id"`
	RemoteIP  *string `json:"remote_ip"`
	// Only for `key.used`: requests with the key at one node since `at`, over about an hour. Written once a minute.
	Use *KeyUse `json:"use"`
}

// Me is the API key of a request.
type Me struct {
	AccountID string       `json:"account_id"`
	KeyID     string       `json:"key_id" ref:"KeyId"`
	KeyName   string       `json:"key_name"`
	Scope     config.Scope `json:"scope" enum:"read,read_write"`
	// `true` for the key of an agent. It cannot make changes through the API; a person approves them in the dashboard.
	Agent bool `json:"agent"`
	// The tenant that the key is restricted to. Missing without one.
	Tenant string `json:"tenant,omitempty" ref:"TenantName"`
	// Version of the service.
	Version string `json:"version"`
}

// Issue is what failed at one destination for one cause.
type Issue struct {
	ID         string `json:"id" ref:"IssueId"`
	Object     string `json:"object" const:"issue"`
	EndpointID string `json:"endpoint_id" ref:"EndpointId"`
	// `null`: the endpoint was deleted.
	EndpointName    *string `json:"endpoint_name"`
	DestinationID   string  `json:"destination_id" ref:"DestinationId"`
	DestinationName *string `json:"destination_name"`
	// `http_` and the status of the answer, an `error_code` of an attempt, or the `reason` of deliveries without one. A
	// destination has at most 20 causes; the rest are counted as `other`.
	Cause string `json:"cause" example:"http_503"`
	// A resolved issue opens again with the next failure. One whose destination was deleted, or works again an hour after
	// the last failure, is resolved by the service.
	Status      string   `json:"status" in:"" enum:"open,acknowledged,resolved"`
	FirstSeenAt web.Time `json:"first_seen_at"`
	LastSeenAt  web.Time `json:"last_seen_at"`
	// Failed requests, and deliveries that failed without one. It is at most a minute behind.
	Count int `json:"count" minimum:"0"`
	// The newest events that it concerns, newest first.
	Events []string `json:"events" maxItems:"10"`
	// How often it was resolved and opened again.
	Reopened   int      `json:"reopened" minimum:"0"`
	ResolvedAt web.Time `json:"resolved_at" nullable:"true"`
	// When a request to the destination succeeded, if none has failed for this cause since; `null`: none has.
	WorksAgainAt web.Time `json:"works_again_at" nullable:"true"`
	// When the oldest event that failed was received.
	OldestEventAt web.Time `json:"oldest_event_at" nullable:"true"`
	// How many events since then have failed for good at the destination, at most 1,000. `null`: not counted, as in lists
	// and while the event store is late.
	FailedEvents *int `json:"failed_events" minimum:"0"`
	// Who takes care of it. Default: empty.
	Assignee  string    `json:"assignee" example:"ops@example.com" in:"name" maxLength:"100" pattern:"@text"`
	Note      string    `json:"note" in:"" maxLength:"2000"`
	CreatedAt web.Time  `json:"created_at"`
	UpdatedAt web.Time  `json:"updated_at"`
	Warnings  []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// SetWarnings sets the warnings of the answer to a change.
func (x *Issue) SetWarnings(all []Warning) { x.Warnings = all }

// Tenant is a customer of yours. Endpoints with its name, and keys that are restricted to it, belong to it.
type Tenant struct {
	Object string `json:"object" const:"tenant"`
	// Your name for it, such as the id of the customer in your database.
	Tenant string `json:"tenant" ref:"TenantName"`
	// Printable characters, for people. Default: empty.
	Name     string            `json:"name" in:"name" maxLength:"100" pattern:"@text"`
	Metadata map[string]string `json:"metadata" in:"own" inref:"MetadataInput" maxProperties:"20"`
	// What the tenant may use at most. Above a limit the answer is 429 and names it.
	Limits config.TenantLimits `json:"limits" in:"null"`
	// Agreed events of all its endpoints a month, for its usage. Events above it are accepted. `null`: none.
	AllowanceEvents *int `json:"allowance_events" in:"null" minimum:"1" maximum:"1000000000000"`
	// How its portal looks. `null`: the defaults.
	Portal *config.TenantPortal `json:"portal" in:"null"`
	// The endpoint that events sent to the tenant go to; `null` before the first one.
	EndpointID *string `json:"endpoint_id"`
	// Number of its endpoints.
	Endpoints int       `json:"endpoints" minimum:"0" maximum:"1000"`
	CreatedAt web.Time  `json:"created_at"`
	UpdatedAt web.Time  `json:"updated_at"`
	Warnings  []Warning `json:"warnings,omitempty" ref:"Warnings"`
}

// TenantKey is an API key of a tenant. It reaches the endpoints of the tenant, and nothing else of your account.
type TenantKey struct {
	ID     string       `json:"id" ref:"KeyId"`
	Object string       `json:"object" const:"key"`
	Tenant string       `json:"tenant" ref:"TenantName"`
	Name   string       `json:"name" in:"required,name" minLength:"1" maxLength:"100" pattern:"@text"`
	Scope  config.Scope `json:"scope" in:"required" enum:"read,read_write"`
	// `true`: for an agent, whose changes a person has to approve. Default `false`.
	Agent bool `json:"agent" in:""`
	// The key. Only in the answer that creates it.
	Key   string `json:"key,omitempty"`
	Last4 string `json:"last4"`
	// When the key ends; `null`: it does not.
	ExpiresAt web.Time `json:"expires_at" in:"null" nullable:"true"`
	RevokedAt web.Time `json:"revoked_at" nullable:"true"`
	CreatedAt web.Time `json:"created_at"`
}

// PortalLink is a link to the pages of a tenant, and then the session of who has opened it.
type PortalLink struct {
	ID     string `json:"id" ref:"LinkId"`
	Object string `json:"object" const:"portal_link"`
	Tenant string `json:"tenant" ref:"TenantName"`
	// Address to send the person's browser to. It can be opened once. Only in the answer that creates it.
	URL string `json:"url,omitempty" format:"uri"`
	// With `use` `api`, in place of `url`: the bearer token of the session. Only in the answer that creates it.
	Token string `json:"token,omitempty"`
	// `pages`: the link leads to the pages of the portal. `api`: the answer has a `token`, with which pages of
	// RELAY_PORTAL_ORIGINS call the API: as the pages of the portal would, with the same rights, for `session_seconds`.
	// Default `pages`.
	Use string `json:"use" in:"" enum:"pages,api"`
	// What the person may do: `view` destinations, events and attempts; change `destinations`; see and rotate signing
	// `secrets`; `replay` events; send `test` events. `view` is always included. Default `view`.
	Can []string `json:"can" in:"" maxItems:"5" uniqueItems:"true" items.enum:"view,destinations,secrets,replay,test"`
	// Page of your application that the portal leads back to. Its origin must be in RELAY_PORTAL_ORIGINS.
	ReturnURL *string `json:"return_url" in:"null" maxLength:"2000" format:"uri"`
	// Page of your application that creates the next link and leads to it. The portal opens it when the session has
	// ended. Its origin must be in RELAY_PORTAL_ORIGINS.
	RefreshURL *string `json:"refresh_url" in:"null" maxLength:"2000" format:"uri"`
	// Language of the pages. Default `null`: the first that the browser asks for and the portal has, else English.
	Lang *string `json:"lang" in:"null" enum:"en,de,fr,es,ja"`
	// `light` or `dark` pages; `auto`: as the browser prefers. `?theme=` at the end of `url` overrides it. Default `auto`.
	Theme string `json:"theme" in:"" enum:"auto,light,dark"`
	// How long the link can be opened. Default 600, ten minutes.
	ExpiresSeconds int `json:"expires_seconds,omitempty" in:"only" minimum:"10" maximum:"86400"`
	// How long the session lasts once the link is opened. Default 3600, an hour.
	SessionSeconds int `json:"session_seconds" in:"" minimum:"60" maximum:"86400"`
	// When the link was opened; `null`: it can still be.
	OpenedAt web.Time `json:"opened_at" nullable:"true"`
	// When the link ends; once it is opened, when the session does.
	EndsAt    web.Time `json:"ends_at"`
	CreatedAt web.Time `json:"created_at"`
}
