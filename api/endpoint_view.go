package api

import (
	"fmt"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

// endpointView is an endpoint as it is read. Members of parts that this version does not have show their
// only value, so that what is read can be sent back.
type endpointView struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	Name           string            `json:"name"`
	Description    *string           `json:"description"`
	Provider       string            `json:"provider"`
	Verification   *verificationView `json:"verification"`
	TypeSource     *string           `json:"type_source"`
	Dedup          *struct{}         `json:"dedup"`
	Destinations   []destinationView `json:"destinations"`
	RetryPolicy    retryPolicyView   `json:"retry_policy"`
	Alerts         alertsView        `json:"alerts"`
	Transformation *struct{}         `json:"transformation"`
	Response       control.Response  `json:"response"`
	Enabled        bool              `json:"enabled"`
	Paused         bool              `json:"paused"`
	ScanPayloads   bool              `json:"scan_payloads"`
	Metadata       map[string]string `json:"metadata"`
	IngestURL      string            `json:"ingest_url"`
	CreatedAt      web.Time          `json:"created_at"`
	UpdatedAt      web.Time          `json:"updated_at"`
	Warnings       []warning         `json:"warnings,omitempty"`
}

type verificationView struct {
	Type             string `json:"type"`
	Mode             string `json:"mode"`
	ToleranceSeconds int    `json:"tolerance_seconds"`
	SecretSet        bool   `json:"secret_set"`
	SecretLast4      string `json:"secret_last4"`
	Header           string `json:"header,omitempty"`
	Algorithm        string `json:"algorithm,omitempty"`
	Encoding         string `json:"encoding,omitempty"`
	Prefix           string `json:"prefix,omitempty"`
	SignedContent    string `json:"signed_content,omitempty"`
}

type destinationView struct {
	ID             string            `json:"id"`
	Object         string            `json:"object"`
	Name           *string           `json:"name"`
	URL            string            `json:"url"`
	Enabled        bool              `json:"enabled"`
	Paused         bool              `json:"paused"`
	TimeoutSeconds int               `json:"timeout_seconds"`
	Headers        map[string]string `json:"headers"`
	RateLimit      *struct{}         `json:"rate_limit"`
	MaxInFlight    int               `json:"max_in_flight"`
	Filter         *control.Filter   `json:"filter"`
	Signing        signingView       `json:"signing"`
	State          string            `json:"state"`
	StateReason    *string           `json:"state_reason"`
	Warnings       []warning         `json:"warnings,omitempty"`
}

type signingView struct {
	Scheme      string `json:"scheme"`
	Secret      string `json:"secret,omitempty"` // only in the answer that made it
	SecretLast4 string `json:"secret_last4"`
}

// retryPolicyView shows the members of its strategy alone.
type retryPolicyView struct {
	Strategy             string   `json:"strategy"`
	ScheduleSeconds      []int    `json:"schedule_seconds,omitempty"`
	InitialSeconds       int      `json:"initial_seconds,omitempty"`
	Multiplier           float64  `json:"multiplier,omitempty"`
	MaxSeconds           int      `json:"max_seconds,omitempty"`
	IntervalSeconds      int      `json:"interval_seconds,omitempty"`
	MaxAttempts          int      `json:"max_attempts"`
	Jitter               float64  `json:"jitter"`
	RespectRetryAfter    bool     `json:"respect_retry_after"`
	MaxRetryAfterSeconds int      `json:"max_retry_after_seconds"`
	RetryOn              []string `json:"retry_on"`
}

type alertsView struct {
	Enabled             bool      `json:"enabled"`
	Channels            *struct{} `json:"channels"`
	ConsecutiveFailures *struct{} `json:"consecutive_failures"`
	FailureRatePercent  *struct{} `json:"failure_rate_percent"`
	MutedUntil          *struct{} `json:"muted_until"`
}

// endpointView shows e; revealed are the signing secrets that this very answer may show.
func (a *API) endpointView(e *control.Endpoint, revealed map[string]string) (*endpointView, error) {
	token, err := a.deps.Keyring.OpenString(e.ID, control.FieldToken, e.Token)
	if err != nil {
		return nil, fmt.Errorf("open ingest token of %s: %w", e.ID, err)
	}
	v := &endpointView{
		ID: e.ID, Object: "endpoint", Name: e.Name, Description: e.Description, Provider: e.Provider,
		TypeSource: e.TypeSource, RetryPolicy: retryPolicyView(e.RetryPolicy), Alerts: alertsView{Enabled: true},
		Response: e.Response, Enabled: e.Enabled, Metadata: e.Metadata, IngestURL: a.cfg.BaseURL + "/in/" + token,
		CreatedAt: web.Time(e.CreatedAt), UpdatedAt: web.Time(e.UpdatedAt),
		Destinations: make([]destinationView, len(e.Destinations)),
	}
	if x := e.Verification; x != nil {
		v.Verification = &verificationView{
			Type: x.Type, Mode: x.Mode, ToleranceSeconds: x.ToleranceSeconds, SecretSet: len(x.Secrets) > 0, SecretLast4: x.SecretLast4,
			Header: x.Header, Algorithm: x.Algorithm, Encoding: x.Encoding, Prefix: x.Prefix, SignedContent: x.SignedContent,
		}
	}
	for i := range e.Destinations {
		if v.Destinations[i], err = a.destinationView(&e.Destinations[i], revealed); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (a *API) destinationView(d *control.Destination, revealed map[string]string) (destinationView, error) {
	v := destinationView{
		ID: d.ID, Object: "destination", Name: d.Name, URL: d.URL, Enabled: d.Enabled, TimeoutSeconds: d.TimeoutSeconds,
		Headers: make(map[string]string, len(d.Headers)), MaxInFlight: d.MaxInFlight, Filter: d.Filter,
		Signing: signingView{Scheme: "standard_webhooks", Secret: revealed[d.ID], SecretLast4: d.Secrets[0].Last4},
		State:   "active",
	}
	if !d.Enabled {
		reason := "manual"
		if d.StateReason != "" {
			reason = d.StateReason
		}
		v.State, v.StateReason = "disabled", &reason
	}
	for name, sealed := range d.Headers {
		value, err := a.deps.Keyring.OpenString(d.ID, control.FieldHeader(name), sealed)
		if err != nil {
			return v, fmt.Errorf("open header of %s: %w", d.ID, err)
		}
		v.Headers[name] = shownHeader(name, value)
	}
	return v, nil
}
