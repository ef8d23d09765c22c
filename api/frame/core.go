// Package frame is what every resource of /v1 needs, and it knows none of them: the router with authentication, scopes,
// rates and errors; Idempotency-Keys; the reading of bodies, filters and cursors; masks; and Resource, which serves a
// kind of the configuration. Begin reading at Router.ServeFor, which has the order in which errors are checked.
//
// ToWebError turns what a handler returns into the error of the contract. Tokens and URLs that a key may not see are
// masked before an answer leaves the process.
package frame

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// DefaultPreparationWait is the default of Core.PreparationWait.
	DefaultPreparationWait = 2 * time.Second
	catchUpWait            = 2 * time.Second
)

// Core is shared by the handlers of all resources: the services that they ask, the clock, request bodies, and the
// lookup of what a path names.
type Core struct {
	Services
	BaseURL       string
	Version       string // of the program
	Portal        Portal
	MaxBody       int64
	RetentionDays int
	// PreparationWait is how long the answer to a new job waits for the job to become ready.
	PreparationWait time.Duration
	Clock           func() time.Time
	// Waiting is the room for repeats that wait for the first call with their Idempotency-Key, and for replays that wait
	// for another replay.
	Waiting *wait.Room
	// LeakScanner finds secrets in texts with the rules for leaks, ReceiptScanner with those for receipts.
	LeakScanner, ReceiptScanner *secrets.Scanner
	// EventEndpoint returns the endpoint of an event, or event.ErrNotFound.
	EventEndpoint func(ctx context.Context, account string, d id.ID) (string, error)
	// OwnEndpoint returns the endpoint that events sent to the tenant in the path go to. It creates it if there is none.
	OwnEndpoint func(r *http.Request, key *config.Key) (*config.Endpoint, error)
	// AnswerLarge sends what build returns as JSON when there is memory for it; maxBytes bounds its encoded size.
	AnswerLarge func(ctx context.Context, w http.ResponseWriter, maxBytes int, build func() any) error
}

// Services are what the handlers of several resources ask.
type Services struct {
	Log          *slog.Logger
	Config       Configuration
	Keyring      *seal.Keyring
	Events       EventReader
	Erasures     Erasures
	Limits       Limits
	LimiterStore LimiterStore
	Answers      Answers
	Egress       egress.Policy // zero: only public addresses
	IDs          *id.Generator
}

// Configuration is the configuration log as far as the API uses it: a config.Control, which documents the methods. A
// change returns after this node has applied it.
type Configuration interface {
	entity.Access             // for config.Get, List, Create, Update and Delete
	Account() *entity.Account // nil before there is one
	Sync(ctx context.Context) error

	Authenticate(key string) (*config.Key, error)
	PortalToken(token string) (*config.PortalSession, error)
	MarkUsedFromBrowser(k *config.Key)
	CreateKey(ctx context.Context, n config.NewKey) (text string, k *config.Key, err error)
	Keys(account string) []*config.Key
	RevokeKey(ctx context.Context, key string) error

	Endpoint(id string) (*config.Endpoint, entity.Presence)
	EndpointByToken(token string) *config.Endpoint
	Endpoints(account string, beforeSeq int64, limit int) ([]*config.Endpoint, bool)
	EndpointsWhere(account string, beforeSeq int64, limit int, match func(*config.Endpoint) (yes, stop bool),
	) ([]*config.Endpoint, bool)
	CreateEndpoint(ctx context.Context, e *config.Endpoint) (*config.Endpoint, error)
	UpdateEndpoint(ctx context.Context, id string, change func(*config.Endpoint) error) (*config.Endpoint, error)
	CheckCreate(e *config.Endpoint) error
	CheckUpdate(e *config.Endpoint, change func(*config.Endpoint) error) (*config.Endpoint, error)
	DeleteEndpoint(ctx context.Context, id string, rev int64) error

	Tenant(account, name string) *config.Tenant
	TenantEndpoints(account, name string) []*config.Endpoint
	PutTenant(ctx context.Context, account, name string, change func(*config.Tenant) error) (*config.Tenant, error)
	DeleteTenant(ctx context.Context, t *config.Tenant) error

	EventTypeAt(ep *config.Endpoint, name string) *config.EventType
	Mismatch(ep *config.Endpoint, kind string, data []byte, spent *int) *event.Mismatch

	AlertSettings() *alerting.AlertSettings
	UpdateAlertSettings(ctx context.Context, change func(*alerting.AlertSettings) error) (*alerting.AlertSettings, error)
	ChangeAlert(ctx context.Context, id string, alter func(*alerting.Alert) error) (*alerting.Alert, error)
	AlertPage(account string, beforeSeq int64, limit int, keep func(*alerting.Alert) bool) ([]*alerting.Alert, bool)

	Recovery(id string) (*jobs.Recovery, entity.Presence)
	Recoveries(account string, beforeSeq int64, limit int, keep func(*jobs.Recovery) bool) ([]*jobs.Recovery, bool)
	AddRecovery(ctx context.Context, j *jobs.Recovery) (*jobs.Recovery, error)
	UpdateRecovery(ctx context.Context, id string, change func(*jobs.Recovery) error) (*jobs.Recovery, error)
	RecoveriesChanged() <-chan struct{}
}

// Now is the time in milliseconds, as in ids and answers.
func (c *Core) Now() time.Time { return c.Clock().UTC().Truncate(time.Millisecond) }

// RequestTime returns the time of the request; for a repeat, that of the first call with its Idempotency-Key.
func (c *Core) RequestTime(r *http.Request) time.Time {
	if x := CallOf(r); x != nil {
		return x.claim.CreatedAt.UTC().Truncate(time.Millisecond)
	}
	return c.Now()
}

// TenantInPath returns the tenant that the path names, or the 404.
func (c *Core) TenantInPath(r *http.Request, key *config.Key) (*config.Tenant, error) {
	name := web.InfoOf(r).Vars["tenant"]
	find := func(name string) (*config.Tenant, entity.Presence) {
		if t := c.Config.Tenant(key.Account, name); t != nil {
			return t, entity.Present
		}
		return nil, entity.Unknown
	}
	t, err := Find(r.Context(), c, find, name)
	if err != nil {
		return nil, err
	}
	if t == nil || key.Tenant != "" && key.Tenant != name {
		return nil, web.Missing("there is no such tenant")
	}
	return t, nil
}

// Body validates Idempotency-Key and Content-Type of a write and reads its JSON body. An empty body is returned as {}.
func (c *Core) Body(r *http.Request) ([]byte, error) {
	if _, err := IdempotencyKey(r); err != nil {
		return nil, err
	}
	if err := web.CheckContentType(r); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	if err := web.ReadBody(r, &buf, c.MaxBody); err != nil {
		return nil, err
	}
	if buf.Len() == 0 {
		return []byte("{}"), nil
	}
	return buf.Bytes(), nil
}

// Find returns the entity with an id; nil if it does not exist. When this node does not know the id, it
// reads again after it has caught up: another node may have created it a moment ago. A node that cannot catch up does
// not know: that is a 503.
func Find[P any](ctx context.Context, c *Core, read func(id string) (P, entity.Presence), name string) (
	none P, err error) {
	x, presence := read(name)
	if presence == entity.Unknown {
		err = c.catchUp(ctx)
		x, presence = read(name)
	}
	switch {
	case presence == entity.Present:
		return x, nil
	case presence == entity.Unknown && err != nil:
		return none, web.ServiceUnavailable(err, "this node cannot read the newest configuration at the moment; try again")
	}
	return none, nil
}

// CreateOnce creates x. If its id exists, the first call with the Idempotency-Key has created it: that is returned.
func CreateOnce[P any](ctx context.Context, create func(context.Context, P) (P, error), x P,
	read func(id string) (P, entity.Presence), name string) (P, error) {
	created, err := create(ctx, x)
	if errors.Is(err, config.ErrConflict) {
		if earlier, presence := read(name); presence == entity.Present {
			return earlier, nil
		}
	}
	return created, err
}

// EndpointInPath returns the endpoint that the path names, or the 404.
func (c *Core) EndpointInPath(r *http.Request, key *config.Key) (*config.Endpoint, error) {
	e, err := Find(r.Context(), c, c.Config.Endpoint, web.InfoOf(r).Vars["endpoint"])
	if err != nil {
		return nil, err
	}
	if e == nil || !Owns(key, e) {
		return nil, web.Missing("there is no such endpoint")
	}
	return e, nil
}

// DestinationInPath returns the endpoint and the id of the destination that the path names, or the 404.
func (c *Core) DestinationInPath(r *http.Request, key *config.Key) (*config.Endpoint, string, error) {
	e, err := c.EndpointInPath(r, key)
	if err != nil {
		return nil, "", err
	}
	name := web.InfoOf(r).Vars["destination"]
	if e.Destination(name) == nil {
		return nil, "", ErrNoDestination()
	}
	return e, name, nil
}

// PresentEndpoint returns the account's endpoint with that id, or nil if it does not exist or was deleted.
func (c *Core) PresentEndpoint(name, account string) *config.Endpoint {
	e, presence := c.Config.Endpoint(name)
	if presence != entity.Present || e.Account != account {
		return nil
	}
	return e
}

// CatchUp waits until this node has applied the configuration log up to now. A load balancer may send each request
// to another node, and a client must not see an older state than before. After 2 s the node
// answers with what it has.
func (c *Core) CatchUp(ctx context.Context) { _ = c.catchUp(ctx) }

func (c *Core) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpWait)
	defer cancel()
	return c.Config.Sync(ctx)
}

// EventInPath returns the id of the event that the path names, or the 404 when the id is malformed or the event's
// retention has ended. That the event exists is checked only for a key of a tenant, which must own it.
func (c *Core) EventInPath(r *http.Request, key *config.Key) (id.ID, error) {
	d, err := id.Parse(id.Event, web.InfoOf(r).Vars["event"])
	if err != nil || !c.Now().Before(c.Expiry(d)) {
		return d, ToWebError(event.ErrNotFound)
	}
	if key.Tenant == "" {
		return d, nil
	}
	endpoint, err := c.EventEndpoint(r.Context(), key.Account, d)
	if err != nil {
		return d, ToWebError(err)
	}
	e, err := Find(r.Context(), c, c.Config.Endpoint, endpoint)
	if err != nil {
		return d, err
	}
	if e == nil || !Owns(key, e) {
		return d, ToWebError(event.ErrNotFound)
	}
	return d, nil
}

// Expiry returns when the retention of an event ends.
func (c *Core) Expiry(d id.ID) time.Time { return d.Time().AddDate(0, 0, c.RetentionDays) }

// PastWindow reads the time window of a list. An end in the future means now, for which it has the zero time (no end).
func (c *Core) PastWindow(q *Query, sinceNames, untilNames []string) Window {
	w := ReadWindow(q, sinceNames, untilNames)
	if now := c.Now(); w.Until.After(now) {
		if !w.Since.Before(now) {
			q.Fail(w.UntilName, "is in the future, so it means now; send a since in the past")
		}
		w.Until = time.Time{}
	}
	return w
}

// RetryUntilDone calls try with growing pauses until it is done, for at most IdempotencyWait (5 s), and returns the
// error of the last call. When MaxWaitingRequests already wait, it does not wait.
func (c *Core) RetryUntilDone(ctx context.Context, try func() (done bool, err error)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, IdempotencyWait)
	defer cancel()
	c.Waiting.Retry(ctx, 1, ClaimBackoff, func() (done bool) {
		done, err = try()
		return done
	})
	return err
}

// ErrNoDestination is the 404 of a destination.
func ErrNoDestination() error { return web.Missing("there is no such destination") }

// KeyUses counts every request with a valid API key, for the audit log.
type KeyUses interface {
	RecordUse(account, key, name string, from netip.Addr)
}

// Refusals learns of every request with a wrong API key: it may be that of a tripwire.
type Refusals interface {
	// CheckKey does not wait, and takes as long for every key.
	CheckKey(text string, r *http.Request)
}

// EventReader reads events from the store.
type EventReader interface {
	Events(ctx context.Context, q event.Query) (event.Page, error)
	Event(ctx context.Context, account string, id id.ID) (*event.Detail, error)
	Attempts(ctx context.Context, account string, event, before id.ID, limit int) (event.AttemptPage, error)
	// Summaries returns the list rows of up to 1,000 events, by id, without those that are not stored.
	Summaries(ctx context.Context, account string, ids []id.ID) (map[id.ID]event.Summary, error)
}

// Erasures erases payloads on request.
type Erasures interface {
	// ErasePayload erases the payload of an event and returns when it was erased first. From then on no node shows
	// the payload, sends it or stores it again. tenant is that of the key that asks; empty: none.
	ErasePayload(ctx context.Context, d id.ID, tenant string) (time.Time, error)
	// ErasedAt returns when the payload of an event was erased, zero if it was not.
	ErasedAt(d id.ID) time.Time
}

// LimiterStore holds short-lived state that all nodes share (Redis). The state may be lost; no request fails because
// of that.
type LimiterStore interface {
	// HeldUntil returns, for those of up to 1,000 destinations that an open circuit breaker holds, until when.
	HeldUntil(ctx context.Context, dests []string) map[string]time.Time
	// SourceStatus returns the status of an endpoint's source in JSON, empty if it is not known. With
	// [kinds.ReconcileStatus] behind the id it is that of its reconciliation.
	SourceStatus(ctx context.Context, endpoint string) string
	claim.Store // of sends with an Idempotency-Key
}

// Answers stores the claims and answers of Idempotency-Keys in the configuration log.
type Answers interface {
	// ClaimAnswer creates the claim, or returns the existing claim or answer. optional marks a claim that the call can
	// do without; it gets config.ErrAnswersFull earlier.
	ClaimAnswer(ctx context.Context, claim *config.Answer, optional bool) (*config.Answer, error)
	ChangeAnswer(ctx context.Context, id string, alter func(*config.Answer) error) (*config.Answer, error)
	ReleaseClaim(ctx context.Context, claim *config.Answer) error
}

// OrNull returns nil for the empty text, and for 0.
func OrNull[T comparable](s T) *T {
	var none T
	if s == none {
		return nil
	}
	return &s
}

// SetAsOf sets Relay-Data-As-Of, the time up to which the answer is complete. t is zero when the answer is current.
func SetAsOf(w http.ResponseWriter, t time.Time) {
	if !t.IsZero() {
		w.Header().Set("Relay-Data-As-Of", t.UTC().Format(web.TimeFormat))
	}
}

// ViewsOf returns the view of each row.
func ViewsOf[T, V any](rows []T, view func(T) V) []V {
	out := make([]V, len(rows))
	for i, x := range rows {
		out[i] = view(x)
	}
	return out
}

// WriteDeleted answers that something is deleted.
func WriteDeleted(w http.ResponseWriter, name, object string) error {
	return web.Answer(w, http.StatusOK, wire.Deleted{ID: name, Object: object, Deleted: true})
}

// FailureViewOf shows why operations failed on a body.
func FailureViewOf(f *transform.Failure) *wire.Failure {
	view := &wire.Failure{Pointer: f.Pointer, Message: f.Message}
	if f.Op != transform.NoOp {
		view.Index = &f.Op
	}
	return view
}

// BodyText returns bytes as text if they are UTF-8, else in base64.
func BodyText(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), "utf8"
	}
	return base64.StdEncoding.EncodeToString(b), "base64"
}

// LoopHeader reports whether a header carries the delivery history of an event. A receiver that forwards the headers
// of a delivery is recognised by it, as at an ingest URL.
func LoopHeader(canonical string) bool {
	return canonical == event.HeaderHops || canonical == event.HeaderPath
}

// LoopHeaders returns the loop headers of a request as header lines of an event.
func LoopHeaders(h http.Header) (fields []event.Field) {
	for _, name := range []string{event.HeaderHops, event.HeaderPath} {
		for _, v := range h[name] {
			fields = append(fields, event.Field{Name: name, Value: v})
		}
	}
	return fields
}

// RefuseLoop refuses a replay or recovery that was requested by a delivery. A replayed event keeps the headers it
// was received with, so its hop count would not grow and the loop would never end.
func RefuseLoop(r *http.Request) error {
	if event.Hops(r.Header[event.HeaderHops]) == 0 {
		return nil
	}
	return web.WrongState(event.HeaderHops,
		"marks a request that a delivery caused, and a delivery may not replay events; send the request without "+
			"this header")
}
