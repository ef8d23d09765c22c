package config

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
)

// PortalRight is something that a person of a tenant may do in the portal. Each includes PortalView.
type PortalRight = string

// Rights in the portal.
const (
	PortalView         PortalRight = "view"         // see destinations, events and attempts
	PortalDestinations PortalRight = "destinations" // add, change and remove destinations
	PortalSecrets      PortalRight = "secrets"      // see signing secrets again, and rotate them
	PortalReplay       PortalRight = "replay"       // deliver events again
	PortalTest         PortalRight = "test"         // send test events
)

// PortalSession is a link to the portal of a tenant and, once a person has opened it, the session of that person. It is
// removed when it ends.
type PortalSession struct {
	entity.Meta
	Tenant string `json:"tenant"`
	// MadeFor is the tenant's entity: the session does not outlive it, although another one may get its name.
	MadeFor int64         `json:"made_for"` // Unix time in nanoseconds at which the tenant was created
	Can     []PortalRight `json:"can"`
	// ReturnURL is where a person goes on leaving the portal, RefreshURL where one gets a new link when the session has
	// ended; both may be empty.
	ReturnURL  string `json:"return_url,omitempty"`
	RefreshURL string `json:"refresh_url,omitempty"`
	// Lang and Theme are those of the pages; empty: as the browser prefers.
	Lang  string `json:"lang,omitempty"`
	Theme string `json:"theme,omitempty"`
	// API: the session is of calls of the API with its token. No page opens it.
	API bool `json:"api,omitempty"`
	// LinkHash is the SHA-256 of the link's token; empty: the link was opened. With API that of the token.
	LinkHash []byte        `json:"hash,omitempty"`
	Lasts    time.Duration `json:"lasts"` // length of the session, from when the link is opened
	OpenedAt time.Time     `json:"opened_at,omitzero"`
	// Until is when the link ends, and then the session.
	Until time.Time `json:"until"`
	// SecretShown is the destination whose signing secret was shown last. It is there for the audit log.
	SecretShown string    `json:"secret_shown,omitempty"`
	ShownAt     time.Time `json:"shown_at,omitzero"`
}

// Bounds of the portal.
const (
	// MaxPortalSessions bounds the links and sessions that have not ended, some 500 bytes each.
	MaxPortalSessions = 50_000
	// maxTenantSessions bounds those of one tenant: another link ends the oldest that nobody has opened.
	maxTenantSessions = 200
	// shownAgainAfter is how long showing a secret again leaves no further entry in the audit log.
	shownAgainAfter = 10 * time.Second
)

// ErrTooManyPortalSessions means that MaxPortalSessions is reached.
var ErrTooManyPortalSessions = entity.TooMany(MaxPortalSessions, "links and sessions of the portal")

// ErrTooManyTenantSessions means that a tenant has as many open sessions as it may.
var ErrTooManyTenantSessions = entity.TooMany(maxTenantSessions, "open portal sessions of a tenant")

func (s *PortalSession) Hashed() entity.HashedSecret   { return entity.HashedSecret{Hash: &s.LinkHash} }
func (s *PortalSession) EndsAt(*entity.Core) time.Time { return s.Until }

// Restricts: ending a session, and using its link up.
func (s *PortalSession) Restricts(next entity.Value) bool {
	return next == nil || s.LinkHash != nil && next.(*PortalSession).LinkHash == nil
}

// Has reports whether the session has a right.
func (s *PortalSession) Has(right PortalRight) bool {
	return right == PortalView || slices.Contains(s.Can, right)
}

// PrincipalFor returns the person of the session as a caller of the API. The rights of an operation are checked before;
// one that changes nothing may show the credentials of destinations if the person may change them.
func (s *PortalSession) PrincipalFor(changes bool) *Key {
	scope := Read
	if changes || s.Has(PortalDestinations) {
		scope = ReadWrite
	}
	return s.Principal(scope)
}

// Principal is PrincipalFor with a scope: rights are finer than scopes.
func (s *PortalSession) Principal(scope Scope) *Key {
	return &Key{ID: s.ID, Account: s.Account, Name: portalActor(s.Tenant), Scope: scope, Tenant: s.Tenant}
}

// Scope is what the person may do with calls of the API that no page bounds: change something, if any right says so.
func (s *PortalSession) Scope() Scope {
	if slices.ContainsFunc(s.Can, func(r PortalRight) bool { return r != PortalView }) {
		return ReadWrite
	}
	return Read
}

// portalActor is the name of the people of a tenant in the audit log.
func portalActor(tenant string) string { return "portal of " + tenant }

// PortalTokenPrefix begins the tokens of sessions of the API.
const PortalTokenPrefix = "rly_portal_"

// CreatePortalLink creates a link, or a session of the API, and returns its token, which is not stored. The caller sets
// Account, Tenant, Can, API, what the pages show, and Lasts. life is how long the link can be opened.
func (c tenants) CreatePortalLink(ctx context.Context, s *PortalSession, life time.Duration) (token string,
	created *PortalSession, err error) {
	t := c.Tenant(s.Account, s.Tenant)
	if t == nil || t.Deleting {
		return "", nil, ErrNotFound
	}
	if err := c.makeRoom(ctx, s); err != nil {
		return "", nil, err
	}
	token = base64.RawURLEncoding.EncodeToString(entity.RandomBytes(32))
	if s.API {
		token = PortalTokenPrefix + token
	}
	hash := entity.HashOf(token)
	s.LinkHash, s.MadeFor, s.Until = hash[:], t.CreatedAt.UnixNano(), c.Now().UTC().Add(life)
	if s.API {
		s.OpenedAt = c.Now().UTC()
		s.Until = s.OpenedAt.Add(s.Lasts)
	}
	s.ID = cmp.Or(s.ID, id.Random(id.PortalSession))
	created, err = entity.Create(ctx, c, s)
	return token, created, err
}

// makeRoom ends the oldest link of a tenant that nobody has opened, if the tenant has as many as it may.
func (c tenants) makeRoom(ctx context.Context, s *PortalSession) error {
	var unopened string
	n := 0
	for e := range c.View().NewestFirst(entity.KindPortalSession, 0) {
		x := c.Decoded(e).(*PortalSession)
		if x.Account != s.Account || x.Tenant != s.Tenant || c.portalEnded(x) {
			continue
		}
		if n++; x.LinkHash != nil && !x.API {
			unopened = x.ID
		}
	}
	switch {
	case n < maxTenantSessions:
		return nil
	case unopened == "":
		return ErrTooManyTenantSessions
	}
	if err := c.EndPortalSession(ctx, unopened); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// OpenPortalLink uses a link up and returns its session. A link works once, whichever nodes it is sent to. It returns
// ErrLink for any other token, and ErrLease while this node cannot know.
func (c tenants) OpenPortalLink(ctx context.Context, token string) (*PortalSession, error) {
	if _, ok := c.Lease(); !ok {
		return nil, ErrLease
	}
	s := entity.ByHash[PortalSession](c.Core, entity.HashOf(token))
	if s == nil || s.API || c.portalEnded(s) {
		return nil, ErrLink
	}
	opened, err := entity.Update(actingAs(ctx, s.ID), c, s.ID, func(s *PortalSession) error {
		if s.LinkHash == nil || c.portalEnded(s) {
			return ErrLink
		}
		s.OpenedAt, s.LinkHash = c.Now().UTC(), nil
		s.Until = s.OpenedAt.Add(s.Lasts)
		return nil
	})
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) { // it has ended, or another request was first
		return nil, ErrLink
	}
	return opened, err
}

// portalEnded reports whether a link or session has ended, by its time or with its tenant.
func (c tenants) portalEnded(s *PortalSession) bool {
	t := c.Tenant(s.Account, s.Tenant)
	return t == nil || t.Deleting || t.CreatedAt.UnixNano() != s.MadeFor || !c.Now().Before(s.Until)
}

// PortalSession returns an open session, ErrSessionEnded, or ErrLease while this node cannot know.
func (c tenants) PortalSession(id string) (*PortalSession, error) {
	if _, ok := c.Lease(); !ok { // before loading the view; see Authenticate
		return nil, ErrLease
	}
	s, _ := entity.Get[PortalSession](c, id)
	if s == nil || s.LinkHash != nil || c.portalEnded(s) {
		return nil, ErrSessionEnded
	}
	return s, nil
}

// PortalToken returns the session of the API with a token, or the errors of PortalSession.
func (c tenants) PortalToken(token string) (*PortalSession, error) {
	if _, ok := c.Lease(); !ok { // before loading the view; see Authenticate
		return nil, ErrLease
	}
	s := entity.ByHash[PortalSession](c.Core, entity.HashOf(token))
	if s == nil || !s.API || c.portalEnded(s) {
		return nil, ErrSessionEnded
	}
	return s, nil
}

// EndPortalSession ends a link or a session. When it returns nil, no node accepts it.
func (c tenants) EndPortalSession(ctx context.Context, id string) error {
	return entity.Delete[PortalSession](ctx, c, id)
}

// PortalSecret returns the newest signing secret of a destination of the session's tenant, after the audit log has got
// an entry about it. It returns ErrNotFound for any other destination, and "" for one that signs with a private key.
func (c tenants) PortalSecret(ctx context.Context, s *PortalSession, endpoint, destination string) (string, error) {
	e, presence := entity.Get[Endpoint](c, endpoint)
	if presence != entity.Present || e.Account != s.Account || e.Tenant != s.Tenant || e.Destination(destination) == nil {
		return "", ErrNotFound
	}
	text, err := c.Keyring.OpenString(destination, seal.FieldSecret, e.Destination(destination).Secrets[0].Secret)
	if err != nil {
		return "", fmt.Errorf("open the signing secret of %s: %w", destination, err)
	}
	if secret, err := sign.ParseSecret(text); err != nil || secret.Algorithm() != sign.HMAC {
		return "", err
	}
	if s.SecretShown == destination && c.Now().Sub(s.ShownAt) < shownAgainAfter {
		return text, nil
	}
	ctx = WithOrigin(ctx, conflog.Origin{Actor: s.ID, Related: destination, RequestID: OriginOf(ctx).RequestID,
		RemoteIP: OriginOf(ctx).RemoteIP})
	_, err = entity.Update(ctx, c, s.ID, func(s *PortalSession) error {
		s.SecretShown, s.ShownAt = destination, c.Now().UTC()
		return nil
	})
	return text, err
}
