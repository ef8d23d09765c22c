package config

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	leaks "github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/verify"
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

// Destination is a URL that the events of an endpoint are delivered to, or what [kinds.Settings] name.
type Destination struct {
	ID   string  `json:"id"`
	Name *string `json:"name"`
	URL  string  `json:"url"`
	DestinationSettings
	Headers   map[string]seal.Secret `json:"headers"`
	Filter    *filter.Filter         `json:"filter"`
	RateLimit *RateLimit             `json:"rate_limit,omitempty"`
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

// Response is the answer to the provider, sent when its event is durable.
type Response struct {
	Status      int    `json:"status" in:"" minimum:"200" maximum:"299" description:"Default 200."`
	ContentType string `json:"content_type" in:"" enum:"application/json,text/plain,text/xml,application/xml" description:"Default application/json."`
	Body        string `json:"body" in:"" maxLength:"16384" pattern:"^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$"`
}

// Key is an API key. Only the SHA-256 of its text is stored.
type Key struct {
	entity.Plain
	ID      string `json:"id"`
	Account string `json:"account"`
	Name    string `json:"name"`
	Scope   Scope  `json:"scope"`
	Agent   bool   `json:"agent"`
	Hash    []byte `json:"hash"`
	Last4   string `json:"last4"`
	// Fingerprint is that of the text; see KeyFingerprint. Empty: the key was stored without one, or is a bootstrap key.
	Fingerprint string    `json:"fingerprint,omitempty"`
	CreatedAt   time.Time `json:"created_at"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	RevokedAt   time.Time `json:"revoked_at,omitzero"`
	// Tenant restricts the key to the endpoints of a tenant; empty: it is for the whole account.
	Tenant string `json:"tenant,omitempty"`
	// Bootstrap marks a key that is valid only while the environment of the node names it.
	Bootstrap bool `json:"bootstrap"`
	// UsedFromBrowser: a page has called the API with it, so its text is in client code.
	UsedFromBrowser bool `json:"used_from_browser,omitempty"`

	// Seq is the sequence of the record that created it; set on reading, never written.
	Seq int64 `json:"-"`
}

// CreationSeq returns the position of the key in lists, which are in the order of creation.
func (k *Key) CreationSeq() int64 { return k.Seq }

func (k *Key) Common() entity.CommonFields {
	return entity.CommonFields{ID: &k.ID, Account: &k.Account, CreatedAt: &k.CreatedAt, Seq: &k.Seq}
}

func (k *Key) Hashed() entity.HashedSecret { return entity.HashedSecret{Hash: &k.Hash} }
func (k *Key) MadeAtStart() bool           { return k.Bootstrap }

// OnlyRestricts: the key was revoked.
func (k *Key) OnlyRestricts(next entity.Value) bool {
	return k.RevokedAt.IsZero() && !next.(*Key).RevokedAt.IsZero()
}

// Scope is what an API key or a user may do.
type Scope string

// Scopes.
const (
	Read      Scope = "read"
	ReadWrite Scope = "read_write"
)

// DefaultResponse is what a provider is answered unless the endpoint sets a response.
func DefaultResponse(provider string) Response {
	if a := verify.ByName(provider).Answer; a != nil {
		return Response{Status: cmp.Or(a.Status, 200), ContentType: a.ContentType, Body: a.Body}
	}
	return Response{Status: 200, ContentType: "application/json", Body: `{"received":true}`}
}

// FakeEndpoint returns an endpoint that answers at the URL of a tripwire as a new one does. It is not stored.
func (c endpoints) FakeEndpoint(t *leak.Tripwire) *Endpoint {
	return &Endpoint{
		ID: t.ID, Account: t.Account, Partition: partitionOf(t.ID, c.Partitions), Provider: verify.Generic,
		EndpointSettings: EndpointSettings{Enabled: true, Response: DefaultResponse(verify.Generic)}, Rev: t.Rev,
	}
}

// AlertsOrDefault returns the endpoint's alert settings, or the defaults when Alerts is nil.
func (e *Endpoint) AlertsOrDefault() alerting.EndpointAlerts {
	if e.Alerts == nil {
		return alerting.EndpointAlerts{Enabled: true}
	}
	return *e.Alerts
}

// BodyFilters returns the body conditions of the endpoint's destinations; nil if there are none.
func (e *Endpoint) BodyFilters() *filter.BodyFilters {
	filters, needed := make([]*filter.Filter, len(e.Destinations)), false
	for i := range e.Destinations {
		filters[i] = e.Destinations[i].Filter
		needed = needed || filters[i].NeedsBody()
	}
	if !needed {
		return nil
	}
	return filter.NewBodyFilters(filters)
}

// Endpoint returns the endpoint with that id; nil unless it is Present.
func (c endpoints) Endpoint(id string) (*Endpoint, entity.Presence) {
	return entity.Get[Endpoint](c, id)
}

// HasHadEndpoints reports whether there is an endpoint, or was one in the last 60 days. False before Ready.
func (c endpoints) HasHadEndpoints() bool {
	v := c.View()
	return v.Len(entity.KindEndpoint)+v.Tombstones(entity.KindEndpoint) > 0
}

// EndpointsWithInbound returns the enabled endpoints that read events from a source or from their provider.
func (c endpoints) EndpointsWithInbound() []*Endpoint {
	found, _ := c.EndpointsWhere(c.Account().ID, 0, 2*MaxSources, func(e *Endpoint) (yes, stop bool) {
		return e.HasInbound() && e.Enabled, false
	})
	return found
}

// EndpointsChanged returns a channel that is closed when an endpoint is created, changed or deleted after the call.
func (c endpoints) EndpointsChanged() <-chan struct{} { return c.Changed(entity.KindEndpoint) }

// Endpoints returns at most limit endpoints of an account, newest first: those created before the one with beforeSeq (0
// = from the newest). more reports whether there are more.
func (c endpoints) Endpoints(account string, beforeSeq int64, limit int) (page []*Endpoint, more bool) {
	return c.EndpointsWhere(account, beforeSeq, limit, func(*Endpoint) (yes, stop bool) { return true, false })
}

// EndpointsWhere is Endpoints for the endpoints that match. If match says stop, it returns what it has found so far,
// and more is false although more may match.
func (c endpoints) EndpointsWhere(account string, beforeSeq int64, limit int,
	match func(*Endpoint) (yes, stop bool)) (page []*Endpoint, more bool) {
	for e := range c.View().NewestFirst(entity.KindEndpoint, beforeSeq) {
		ep := c.Peek(e).(*Endpoint)
		if ep.Account != account {
			continue
		}
		yes, stop := match(ep)
		if stop {
			break
		}
		if !yes {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, ep)
	}
	return page, false
}

// CreateEndpoint creates an endpoint; see Create.
func (c endpoints) CreateEndpoint(ctx context.Context, e *Endpoint) (*Endpoint, error) {
	if e.Tenant == "" {
		return entity.Create(ctx, c, e)
	}
	of := tenants(c)
	if err := of.addEndpoint(ctx, e); err != nil {
		return nil, err
	}
	created, err := entity.Create(ctx, c, e)
	if errors.Is(err, ErrStateFull) || errors.Is(err, ErrTooManyEndpoints) || errors.Is(err, ErrEntityTooLarge) {
		return nil, errors.Join(err, of.dropEndpoint(ctx, e))
	}
	return created, err
}

// CheckCreate returns the error of the bound that CreateEndpoint would exceed, or nil. It writes nothing.
func (c endpoints) CheckCreate(e *Endpoint) error {
	v, err := entity.Complete(c.Core, e)
	if err != nil {
		return fmt.Errorf("check endpoint: %w", err)
	}
	return c.checkPut(v, false)
}

func (c endpoints) checkPut(e *Endpoint, exempt bool) error {
	raw, err := entity.EncodeValue(e)
	if err != nil {
		return err
	}
	return conflog.CheckPut(c.Log, entity.KindEndpoint, e.ID, raw, exempt)
}

// UpdateEndpoint changes an endpoint; see Update. The partition stays as it is.
func (c endpoints) UpdateEndpoint(ctx context.Context, endpoint string, change func(*Endpoint) error) (
	*Endpoint, error) {
	return entity.Update(ctx, c, endpoint, change)
}

// CheckUpdate returns what UpdateEndpoint would make of an endpoint: e itself if change modifies nothing. It returns
// the error of the bound that this would exceed, and writes nothing.
func (c endpoints) CheckUpdate(e *Endpoint, change func(*Endpoint) error) (*Endpoint, error) {
	after, err := entity.Altered(c.Core, e, change)
	if err != nil || after == nil {
		return e, err
	}
	after.UpdatedAt = e.UpdatedAt
	return after, c.checkPut(after, e.OnlyRestricts(after))
}

// Derive sets the partition, which only MoveEndpoint changes.
func (e *Endpoint) Derive(c *entity.Core, was entity.Value) error {
	if old, _ := was.(*Endpoint); old != nil {
		e.Partition, e.FormerPartitions, e.Move = old.Partition, old.FormerPartitions, old.Move
	} else {
		e.Partition = partitionOf(e.ID, c.Partitions)
	}
	return nil
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

// DeleteEndpoint deletes an endpoint and leaves a tombstone. It returns when no node acts on the endpoint. Unless rev
// is 0, it returns ErrConflict when the endpoint has another revision.
func (c endpoints) DeleteEndpoint(ctx context.Context, endpoint string, rev int64) error {
	return c.Remove(ctx, entity.KindEndpoint, endpoint, rev)
}

func (c *core) ensureAccount(ctx context.Context) error {
	if c.Account() != nil {
		return nil
	}
	_, err := c.Insert(ctx, &entity.Account{ID: id.Random(id.Account), CreatedAt: c.Clock().UTC()})
	if errors.Is(err, ErrConflict) {
		return nil // another node created it
	}
	return err
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

// EndpointByToken returns the endpoint with that ingest token, or nil. A former token counts until FormerToken.Until.
// It finds the endpoint by the SHA-256 of the token and compares the whole hash in constant time.
func (c endpoints) EndpointByToken(token string) *Endpoint {
	hash := entity.HashOf(token)
	e := c.View().FindByHash(entity.KindEndpoint, hash)
	if e == nil {
		return nil
	}
	ep := c.endpoint(e)
	if e.Hash != hash && !c.Now().Before(ep.FormerToken.Until) {
		return nil
	}
	return ep
}

func (e *Endpoint) FormerHash() []byte {
	if e.FormerToken == nil {
		return nil
	}
	return e.FormerToken.Hash
}
