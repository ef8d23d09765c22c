package config

import (
	"context"
	"errors"

	"github.com/eventrelay/relay/pkg/config/entity"
)

// DeleteTenant revokes the keys of a tenant and deletes its endpoints, then the tenant itself. A repeat continues what
// a crash has interrupted.
func (c tenants) DeleteTenant(ctx context.Context, t *Tenant) error {
	t, err := entity.Update(ctx, c, t.ID, func(t *Tenant) error {
		t.Deleting = true // no endpoint is added any more
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range callers(c).Keys(t.Account) {
		if k.Tenant == t.Tenant && k.RevokedAt.IsZero() {
			if err := callers(c).RevokeKey(ctx, k.ID); err != nil {
				return err
			}
		}
	}
	for s := range c.View().NewestFirst(entity.KindPortalSession, 0) {
		if x := c.Decoded(s).(*PortalSession); x.Account == t.Account && x.Tenant == t.Tenant {
			if err := c.EndPortalSession(ctx, x.ID); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
	}
	for _, name := range t.Endpoints {
		if _, presence := entity.Get[Endpoint](c, name); presence == entity.Present {
			if err := endpoints(c).DeleteEndpoint(ctx, name, 0); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
	}
	return entity.Delete[Tenant](ctx, c, t.ID)
}
