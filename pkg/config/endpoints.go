package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/verify"
)

// FakeEndpoint returns an endpoint that answers at the URL of a tripwire as a new one does. It is not stored.
func (c endpoints) FakeEndpoint(t *leak.Tripwire) *Endpoint {
	return &Endpoint{
		ID: t.ID, Account: t.Account, Partition: partitionOf(t.ID, c.Partitions), Provider: verify.Generic,
		EndpointSettings: EndpointSettings{Enabled: true, Response: DefaultResponse(verify.Generic)}, Rev: t.Rev,
	}
}

func (c *core) endpoint(e *conflog.Entity) *Endpoint { return c.Decoded(e).(*Endpoint) }

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

// TenantEndpoints returns the endpoints of a tenant that exist, oldest first.
func (c tenants) TenantEndpoints(account, name string) (all []*Endpoint) {
	t := c.Tenant(account, name)
	if t == nil {
		return nil
	}
	all = make([]*Endpoint, 0, len(t.Endpoints))
	for _, name := range t.Endpoints {
		if e, presence := entity.Get[Endpoint](c, name); presence == entity.Present && e.Tenant == t.Tenant {
			all = append(all, e)
		}
	}
	return all
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

// addEndpoint puts an endpoint that is about to be created on the list of its tenant.
func (c tenants) addEndpoint(ctx context.Context, e *Endpoint) error {
	_, err := entity.Update(ctx, c, TenantID(e.Account, e.Tenant), func(t *Tenant) error {
		if slices.Contains(t.Endpoints, e.ID) {
			return nil // by an earlier call
		}
		t.Endpoints = slices.DeleteFunc(slices.Clone(t.Endpoints), func(name string) bool {
			_, presence := entity.Get[Endpoint](c, name)
			return presence == entity.Deleted
		})
		if t.Deleting {
			return ErrNotFound
		}
		most := min(MaxTenantEndpoints, *cmp.Or(t.Limits.Endpoints, new(DefaultTenantEndpoints)))
		if len(t.Endpoints) >= most {
			return &LimitError{"limits.endpoints", most}
		}
		t.Endpoints = append(t.Endpoints, e.ID)
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return errNoTenant(e.Tenant)
	}
	return err
}

// dropEndpoint takes an endpoint that was not created off the list of its tenant.
func (c tenants) dropEndpoint(ctx context.Context, e *Endpoint) error {
	_, err := entity.Update(ctx, c, TenantID(e.Account, e.Tenant), func(t *Tenant) error {
		t.Endpoints = slices.DeleteFunc(slices.Clone(t.Endpoints), func(name string) bool { return name == e.ID })
		return nil
	})
	return err
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

// DeleteEndpoint deletes an endpoint and leaves a tombstone. It returns when no node acts on the endpoint. Unless rev
// is 0, it returns ErrConflict when the endpoint has another revision.
func (c endpoints) DeleteEndpoint(ctx context.Context, endpoint string, rev int64) error {
	return c.Remove(ctx, entity.KindEndpoint, endpoint, rev)
}
