package config

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"regexp"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	leaks "github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/transform"
)

// Endpoint is the configuration of one endpoint, as stored in the log. Values that Control returns are shared: treat
// them as read-only. Secrets are sealed; see Keyring.
type Endpoint struct {
	entity.Plain
	ID      string `json:"id"`
	Account string `json:"account"`
	// partition of the topic events for new events; the other records of an event go to the partition in its id
	Partition        int32   `json:"partition"`
	FormerPartitions []int32 `json:"former,omitempty"` // partitions of its earlier events, ascending
	// nil unless the endpoint is being moved to another partition
	Move        *PartitionMove `json:"moving,omitempty"`
	TokenHash   []byte         `json:"token_hash"`
	Token       seal.Secret    `json:"token"` // ingest token, part of the ingest URL
	FormerToken *FormerToken   `json:"former_token,omitempty"`
	// TokenRotatedBy is Answer.IDSeed of the call that rotated to this token, if it had an Idempotency-Key.
	TokenRotatedBy string        `json:"token_by,omitempty"`
	Name           string        `json:"name"`
	Description    *string       `json:"description"`
	Provider       string        `json:"provider"`
	Verification   *Verification `json:"verification"`
	TypeSource     *string       `json:"type_source"` // nil = none
	Destinations   []Destination `json:"destinations"`
	RetryPolicy    retry.Policy  `json:"retry_policy"`
	EndpointSettings
	Dedup          *Dedup                   `json:"dedup,omitempty"`
	IngestLimit    *IngestLimit             `json:"ingest_limit,omitempty"`
	Alerts         *alerting.EndpointAlerts `json:"alerts,omitempty"`         // nil = the settings of the account
	Transformation *Transformation          `json:"transformation,omitempty"` // nil: it never had one
	kinds.Inbound
	// PayloadsUnscanned: no secrets are looked for in the payloads of its events.
	PayloadsUnscanned bool              `json:"unscanned,omitempty"`
	Validation        string            `json:"validate,omitempty"` // ValidateOff, ValidateWarn or ValidateReject
	Metadata          map[string]string `json:"metadata"`
	Tenant            string            `json:"tenant,omitempty"` // see Tenant; it never changes
	CreatedAt         time.Time         `json:"created_at"`
	UpdatedAt         time.Time         `json:"updated_at"`

	// Rev is the sequence of the record that changed it last; set on reading, never written.
	Rev int64 `json:"-"`
	// Seq is the sequence of the record that created it; set on reading, never written.
	Seq int64 `json:"-"`
}

// CreationSeq returns the position of the endpoint in lists, which are in the order of creation.
func (e *Endpoint) CreationSeq() int64 { return e.Seq }

func (e *Endpoint) Common() entity.CommonFields {
	return entity.CommonFields{
		ID: &e.ID, Account: &e.Account, CreatedAt: &e.CreatedAt, Updated: &e.UpdatedAt, Rev: &e.Rev, Seq: &e.Seq}
}

func (e *Endpoint) Hashed() entity.HashedSecret {
	return entity.HashedSecret{Hash: &e.TokenHash, Field: seal.FieldToken, Sealed: e.Token}
}

// PartitionMove describes a move to another partition. Deliveries of earlier events may still be open in the old
// partition. Until they are done, or Until has passed, deliveries of new events wait, so that two nodes never deliver
// to one destination at the same time.
type PartitionMove struct {
	From  int32     `json:"from"`
	Until time.Time `json:"until"` // end of the wait, even if the node that moves the endpoint has failed
}

// HoldsDeliveries reports whether deliveries of events of that partition wait for the end of a move.
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

// FewestDestinations is how many destinations the endpoint must have. That of a tenant may wait for its first.
func (e *Endpoint) FewestDestinations() int {
	if e.Tenant != "" {
		return 0
	}
	return 1
}

// EnabledDestinations returns the ids of the destinations that a new event goes to: the enabled ones, and those that
// are disabled because they are gone, which may hold it (HeldAsGone).
func (e *Endpoint) EnabledDestinations() []string {
	var ids []string
	for _, d := range e.Destinations {
		if d.Enabled || d.isGone() {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// HasInbound reports whether the endpoint gets events otherwise than by its ingest URL.
func (e *Endpoint) HasInbound() bool { return e.Source != nil || e.Reconcile != nil }

// DedupWindow is how long an event is remembered; 0 = not at all. What the provider may be asked for is remembered as
// long as it keeps that, and a day more.
func (e *Endpoint) DedupWindow() time.Duration {
	if e.Dedup == nil {
		return 0
	}
	window := time.Duration(e.Dedup.WindowSeconds) * time.Second
	if e.Reconcile != nil {
		window = max(window, kinds.Horizon(e.Provider)+24*time.Hour)
	}
	return window
}

// Dedup defines which requests of a provider are duplicates of one event.
type Dedup struct {
	// Key selects the value that identifies an event: body:$.id or header:X-GitHub-Delivery, as in a type source.
	Key string `json:"key" in:"required" minLength:"1" maxLength:"512" pattern:"^(body:[$]|header:)[^|]+$" description:"What identifies the event: a path in the JSON body, or a header." example:"body:$.id"`
	// WindowSeconds is how long an event is remembered, at most a day.
	WindowSeconds int `json:"window_seconds" in:"" minimum:"1" maximum:"86400" description:"How long a key is remembered, in seconds. Default: a day."`
}

// IngestLimit is the maximum rate of accepted events of an endpoint, over all nodes. Requests beyond it are answered
// with 429. nil = unlimited.
type IngestLimit struct {
	EventsPerSecond *int `json:"events_per_second" in:"null" minimum:"1" maximum:"100000"`
	BytesPerSecond  *int `json:"bytes_per_second" in:"null" minimum:"1024" maximum:"1073741824" description:"Bytes of bodies per second. A body above the limit is accepted after a second without other events."`
}

// Verification defines how a provider signs its requests. At most three secrets are valid at once.
type Verification struct {
	Type             string        `json:"type"`
	Mode             string        `json:"mode"` // enforce or observe
	Secrets          []seal.Secret `json:"secrets"`
	SecretLast4      string        `json:"secret_last4"`
	ToleranceSeconds int           `json:"tolerance_seconds"`
	Header           string        `json:"header,omitempty"`
	Algorithm        string        `json:"algorithm,omitempty"`
	Encoding         string        `json:"encoding,omitempty"`
	Prefix           string        `json:"prefix,omitempty"`
	SignedContent    string        `json:"signed_content,omitempty"`
}

// Transformation changes the deliveries of an endpoint, or of one destination. It stays when it has no operations any
// more, so that versions are never counted twice.
type Transformation struct {
	// Inherits: the destination had one of its own, and now has the endpoint's again.
	Inherits bool           `json:"inherits,omitempty"`
	Version  int            `json:"version"`       // counts changes
	Ops      []transform.Op `json:"ops,omitempty"` // none: bodies are delivered as they are stored
	// Versions has the newest MaxTransformationVersions, newest first.
	Versions []TransformationVersion `json:"versions,omitempty"`
}

// TransformationVersion says when and by whom a version was made, and which operations it had.
type TransformationVersion struct {
	Version    int       `json:"version"`
	At         time.Time `json:"at"`
	By         string    `json:"by"`             // id of the key or user
	Name       string    `json:"name,omitempty"` // of the key or user, then
	Operations int       `json:"operations"`
	Inherits   bool      `json:"inherits,omitempty"`
	// Ops are those of an earlier version, as long as there is room for them. The newest has them in Transformation.
	Ops []transform.Op `json:"ops,omitempty"`
}

// Destination is a URL that the events of an endpoint are delivered to, or what [kinds.Settings] name.
type Destination struct {
	ID   string  `json:"id"`
	Name *string `json:"name"`
	URL  string  `json:"url"`
	DestinationSettings
	Headers   map[string]seal.Secret `json:"headers"`
	Filter    *filter.Filter         `json:"filter"`
	RateLimit *RateLimit             `json:"rate_limit,omitempty"`
	// RetryPolicy is in place of the endpoint's; nil: there is none.
	RetryPolicy *retry.Policy `json:"retry_policy,omitempty"`
	// Transformation is in place of the endpoint's; nil: there never was one.
	Transformation *Transformation `json:"transformation,omitempty"`
	// PurgeBefore ends open deliveries of events received before it, and of replay runs created before it.
	PurgeBefore time.Time `json:"purge_before,omitzero"`
	// Secrets sign the deliveries, newest first.
	Secrets []SigningSecret `json:"secrets"`
	// why the service disabled the destination, for example gone_410
	StateReason string `json:"state_reason,omitempty"`
	// GoneAt is when it was disabled because it has answered 410.
	GoneAt time.Time `json:"gone_at,omitzero"`
	kinds.Settings
}

// GoneHold is how long the deliveries of a destination wait after it was disabled because it has answered 410. If it is
// enabled in that time, none is lost.
const GoneHold = 24 * time.Hour

func (d *Destination) isGone() bool {
	return !d.Enabled && d.StateReason == string(event.Gone410) && !d.GoneAt.IsZero()
}

// HeldAsGone reports whether its deliveries wait because it was disabled less than GoneHold ago.
func (d *Destination) HeldAsGone(now time.Time) bool {
	return d.isGone() && now.Sub(d.GoneAt) < GoneHold
}

// BlocksAfterFailure reports whether a delivery that has failed for good holds up those behind it.
func (d *Destination) BlocksAfterFailure() bool {
	return d.Ordering != nil && d.Ordering.WhenFailed != kinds.SkipFailure
}

// RateLimit is a token bucket for the attempts at one destination.
type RateLimit struct {
	PerSecond float64 `json:"per_second" in:"" minimum:"0.1" maximum:"10000" description:"Deliveries per second. Required if there is no limit yet."`
	Burst     int     `json:"burst" in:"" minimum:"1" maximum:"10000" description:"Deliveries that may be made at once after a pause. Default: the deliveries of one second, at least 1."`
}

// credentialName matches names of headers and URL parameters whose values are masked.
var credentialName = regexp.MustCompile(`(?i)auth|token|secret|key|passw|pass$|pwd|cookie|signature|credential|session`)

// CredentialHeader reports whether the value of an added header with that name is shown masked.
func CredentialHeader(name string) bool { return credentialName.MatchString(name) }

// credentialParameter matches further URL parameters: names with which platforms sign the URLs of their webhooks.
var credentialParameter = regexp.MustCompile(`(?i)^(sig|sign|code|hmac)$`)

// CredentialParameter reports whether the value of a URL parameter with that name is shown masked.
func CredentialParameter(name string) bool {
	return credentialName.MatchString(name) || credentialParameter.MatchString(name) || leaks.NamesCredential(name)
}

// SigningSecret is one whsec_ secret of Standard Webhooks. It signs until Until; zero means for ever.
type SigningSecret struct {
	Secret seal.Secret `json:"secret"`
	Last4  string      `json:"last4"`
	Until  time.Time   `json:"until,omitzero"`
	// RotatedBy is Answer.IDSeed of the call that rotated to this secret, if it had an Idempotency-Key.
	RotatedBy string `json:"by,omitempty"`
}

// AlertsOrDefault returns the endpoint's alert settings, or the defaults when Alerts is nil.
func (e *Endpoint) AlertsOrDefault() alerting.EndpointAlerts {
	if e.Alerts == nil {
		return alerting.EndpointAlerts{Enabled: true}
	}
	return *e.Alerts
}

// RetriesOf returns the retry policy of a destination.
func (e *Endpoint) RetriesOf(dest string) retry.Policy {
	if d := e.Destination(dest); d != nil && d.RetryPolicy != nil {
		return *d.RetryPolicy
	}
	return e.RetryPolicy
}

// Conditions returns the conditions of the endpoint's destinations beside the types; nil if there are none.
func (e *Endpoint) Conditions() *filter.Conditions {
	filters, needed := make([]*filter.Filter, len(e.Destinations)), false
	for i := range e.Destinations {
		filters[i] = e.Destinations[i].Filter
		needed = needed || filters[i].HasConditions()
	}
	if !needed {
		return nil
	}
	return filter.NewConditions(filters)
}

// Upgrade sets the lists and formats that earlier versions left out.
func (e *Endpoint) Upgrade() {
	if e.AllowHeaders == nil {
		e.AllowHeaders = []string{}
	}
	for i := range e.Destinations {
		e.Destinations[i].Format = cmp.Or(e.Destinations[i].Format, FormatStandard)
	}
}

// Derive sets the partition, which only MoveEndpoint changes, and bounds the versions of transformations.
func (e *Endpoint) Derive(c *entity.Core, was entity.Value) error {
	e.trimTransformations()
	if old, _ := was.(*Endpoint); old != nil {
		e.Partition, e.FormerPartitions, e.Move = old.Partition, old.FormerPartitions, old.Move
	} else {
		e.Partition = partitionOf(e.ID, c.Partitions)
	}
	return nil
}

// partitionOf returns the partition of a key among n, like Kafka's default partitioner (murmur2). It is computed once,
// when an endpoint is created, and stored, so n may grow.
func partitionOf(key string, n int32) int32 {
	return int32(murmur2([]byte(key))&0x7fffffff) % n
}

// murmur2 is MurmurHash2 (Austin Appleby, public domain) with the seed that Kafka uses.
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
	)
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// Restricts: the endpoint or a destination was disabled or paused, a destination was purged or removed, or the ingest
// token was replaced.
func (e *Endpoint) Restricts(next entity.Value) bool {
	after, _ := next.(*Endpoint)
	if after == nil || e.Enabled && !after.Enabled || !e.Paused && after.Paused ||
		!bytes.Equal(e.TokenHash, after.TokenHash) {
		return true
	}
	for _, d := range e.Destinations {
		now := after.Destination(d.ID)
		if now == nil || d.Enabled && !now.Enabled || !d.Paused && now.Paused || now.PurgeBefore.After(d.PurgeBefore) {
			return true
		}
	}
	return false
}

// OnlyRestricts: something was disabled, paused, purged or removed, or tokens and signing secrets were replaced.
func (e *Endpoint) OnlyRestricts(next entity.Value) bool {
	want, after := *e, next.(*Endpoint)
	want.UpdatedAt = after.UpdatedAt
	want.Enabled, want.Paused = e.Enabled && after.Enabled, e.Paused || after.Paused
	want.Token, want.TokenHash, want.FormerToken, want.TokenRotatedBy = after.Token, after.TokenHash, after.FormerToken,
		after.TokenRotatedBy
	want.Destinations = nil
	for _, d := range e.Destinations {
		now := after.Destination(d.ID)
		if now == nil {
			continue
		}
		d.Enabled, d.Paused = d.Enabled && now.Enabled, d.Paused || now.Paused
		if now.PurgeBefore.After(d.PurgeBefore) {
			d.PurgeBefore = now.PurgeBefore
		}
		if !now.Enabled {
			d.StateReason, d.GoneAt = now.StateReason, now.GoneAt
		}
		d.Secrets = now.Secrets
		want.Destinations = append(want.Destinations, d)
	}
	return entity.SameJSON(&want, after)
}

// FormerToken is the ingest token before the last rotation. It is accepted, together with the current one, until Until.
type FormerToken struct {
	Hash      []byte      `json:"hash"`
	Token     seal.Secret `json:"token"`
	Until     time.Time   `json:"until"`
	RotatedBy string      `json:"by,omitempty"` // see Endpoint.TokenRotatedBy
}

// RotateToken sets another token. Call it in the change function of UpdateEndpoint. The current token stays valid until
// the given time, zero for not at all; an earlier former token ends at once. by is Answer.IDSeed of the call, if it has
// an Idempotency-Key.
func (e *Endpoint) RotateToken(token seal.Secret, by string, until time.Time) {
	e.FormerToken = nil
	if !until.IsZero() {
		e.FormerToken = &FormerToken{Hash: e.TokenHash, Token: e.Token, Until: until, RotatedBy: e.TokenRotatedBy}
	}
	e.Token, e.TokenRotatedBy = token, by
}

func (e *Endpoint) FormerHash() []byte {
	if e.FormerToken == nil {
		return nil
	}
	return e.FormerToken.Hash
}
