package config

import (
	"crypto/sha256"
	"regexp"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/conflog"
)

// Endpoint is the configuration of one endpoint as it stands in the log. Values read from a Control
// are shared: treat them as read-only. Secrets are sealed; see Keyring.
type Endpoint struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	// of the events accepted from now on; every record of an event goes where its id says
	Partition        int32          `json:"partition"`
	FormerPartitions []int32        `json:"former,omitempty"` // partitions of its earlier events, ascending
	Move             *PartitionMove `json:"moving,omitempty"` // while it is moved to another partition
	TokenHash        []byte         `json:"token_hash"`
	Token            Sealed         `json:"token"` // of the ingest URL
	FormerToken      *FormerToken   `json:"former_token,omitempty"`
	// Answer.Subject of the call that rotated to it, if it had an Idempotency-Key
	TokenRotatedBy string            `json:"token_by,omitempty"`
	Name           string            `json:"name"`
	Description    *string           `json:"description"`
	Provider       string            `json:"provider"`
	Verification   *Verification     `json:"verification"`
	TypeSource     *string           `json:"type_source"` // nil = none
	Destinations   []Destination     `json:"destinations"`
	RetryPolicy    RetryPolicy       `json:"retry_policy"`
	Response       Response          `json:"response"`
	Enabled        bool              `json:"enabled"`
	Paused         bool              `json:"paused,omitempty"` // accept and store, deliver later
	Dedup          *Dedup            `json:"dedup,omitempty"`
	IngestLimit    *IngestLimit      `json:"ingest_limit,omitempty"`
	Alerts         *EndpointAlerts   `json:"alerts,omitempty"` // nil = as the account
	Metadata       map[string]string `json:"metadata"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`

	// Rev is the sequence of the record that changed it last; set on reading, never written.
	Rev int64 `json:"-"`
	// Seq is the sequence of the record that created it; set on reading, never written.
	Seq int64 `json:"-"`
}

// Moving says that an endpoint was given another partition a moment ago, and that work of its earlier events is
// still open in the one before: until that is done, or Until, its new events wait, so that two nodes never
// deliver to one destination at once.
type PartitionMove struct {
	From  int32     `json:"from"`
	Until time.Time `json:"until"` // what waits goes on then, whatever became of who moves it
}

// Holds reports whether deliveries of events that were accepted in the partition wait for a move.
func (e *Endpoint) HoldsDeliveries(partition int32, now time.Time) bool {
	return e.Move != nil && partition == e.Partition && now.Before(e.Move.Until)
}

// Destination returns the destination with that id, or nil.
func (e *Endpoint) Destination(id string) *Destination {
	i := slices.IndexFunc(e.Destinations, func(d Destination) bool { return d.ID == id })
	if i < 0 {
		return nil
	}
	return &e.Destinations[i]
}

// EnabledDestinations are the ids of those that an event accepted now goes to.
func (e *Endpoint) EnabledDestinations() []string {
	var ids []string
	for _, d := range e.Destinations {
		if d.Enabled {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Dedup says when two requests of a provider are the same event.
type Dedup struct {
	// Key names what tells them apart: body:$.id or header:X-GitHub-Delivery, as in a type source.
	Key string `json:"key"`
	// WindowSeconds is how long an event is remembered, at most a day.
	WindowSeconds int `json:"window_seconds"`
}

// IngestLimit bounds what an endpoint accepts, on all nodes together; what is over it is answered 429. A nil member is
// no bound.
type IngestLimit struct {
	EventsPerSecond *int `json:"events_per_second"` // 1 to 100,000
	BytesPerSecond  *int `json:"bytes_per_second"`  // of bodies; 1 KiB to 1 GiB
}

// Verification says how a provider signs. At most three secrets live at once.
type Verification struct {
	Type             string   `json:"type"`
	Mode             string   `json:"mode"` // enforce or observe
	Secrets          []Sealed `json:"secrets"`
	SecretLast4      string   `json:"secret_last4"`
	ToleranceSeconds int      `json:"tolerance_seconds"`
	Header           string   `json:"header,omitempty"`
	Algorithm        string   `json:"algorithm,omitempty"`
	Encoding         string   `json:"encoding,omitempty"`
	Prefix           string   `json:"prefix,omitempty"`
	SignedContent    string   `json:"signed_content,omitempty"`
}

// Destination is where deliveries of an endpoint go.
type Destination struct {
	ID             string            `json:"id"`
	Name           *string           `json:"name"`
	URL            string            `json:"url"`
	Enabled        bool              `json:"enabled"`
	TimeoutSeconds int               `json:"timeout_seconds"`
	Headers        map[string]Sealed `json:"headers"`
	MaxInFlight    int               `json:"max_in_flight"`
	Filter         *Filter           `json:"filter"`
	Paused         bool              `json:"paused,omitempty"` // hold its deliveries
	RateLimit      *RateLimit        `json:"rate_limit,omitempty"`
	// PurgeBefore ends what is still open of events received, and of runs begun, before it.
	PurgeBefore time.Time `json:"purge_before,omitzero"`
	// Secrets sign deliveries, newest first.
	Secrets     []SigningSecret `json:"secrets"`
	StateReason string          `json:"state_reason,omitempty"` // why the service itself disabled it, e.g. gone_410
}

// RateLimit is a token bucket over the attempts at one destination.
type RateLimit struct {
	PerSecond float64 `json:"per_second"` // 0.1 to 10,000
	Burst     int     `json:"burst"`      // ≥ 1: how many tokens it holds
}

// credentialName finds the added headers whose value is not to be shown.
var credentialName = regexp.MustCompile(`(?i)auth|token|secret|key|passw|pass$|pwd|cookie|signature|credential|session`)

// CredentialHeader reports whether a header that a destination adds is shown masked, by its name.
func CredentialHeader(name string) bool { return credentialName.MatchString(name) }

// credentialParameter finds those of a URL besides: the names by which platforms sign the URLs of their hooks.
var credentialParameter = regexp.MustCompile(`(?i)^(sig|sign|code|hmac)$`)

// CredentialParameter reports whether the value of a parameter in a URL is shown masked, by its name.
func CredentialParameter(name string) bool {
	return credentialName.MatchString(name) || credentialParameter.MatchString(name)
}

// SigningSecret is one whsec_ secret; it signs until Until, or for ever when that is zero.
type SigningSecret struct {
	Secret Sealed    `json:"secret"`
	Last4  string    `json:"last4"`
	Until  time.Time `json:"until,omitzero"`
	// Answer.Subject of the call that rotated to it, if it had an Idempotency-Key
	RotatedBy string `json:"by,omitempty"`
}

// Filter lets through the events that match every part that is set.
type Filter struct {
	Types []string       `json:"types,omitempty"` // exact, or a prefix followed by ".*"
	Body  map[string]any `json:"body,omitempty"`  // dotted path → JSON scalar
}

// Response is what the provider gets after its event is durable.
type Response struct {
	Status      int    `json:"status"` // 200–299
	ContentType string `json:"content_type"`
	Body        string `json:"body"`
}

// Key is an API key. Only the SHA-256 of its text is kept.
type Key struct {
	ID        string    `json:"id"`
	Account   string    `json:"account"`
	Name      string    `json:"name"`
	Scope     Scope     `json:"scope"`
	Agent     bool      `json:"agent"`
	Hash      []byte    `json:"hash"`
	Last4     string    `json:"last4"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	// Bootstrap marks a key that lives only while the environment names it.
	Bootstrap bool `json:"bootstrap"`
}

// Scope is what a key may do.
type Scope string

// Scopes.
const (
	Read      Scope = "read"
	ReadWrite Scope = "read_write"
)

// Account owns everything else. There is one.
type Account struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
}

// hashOf is how tokens and keys are kept: they are random, so a plain SHA-256 cannot be searched back.
func hashOf(secret string) [conflog.HashLen]byte { return sha256.Sum256([]byte(secret)) }
