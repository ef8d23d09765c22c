package wire

import (
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/web"
)

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
