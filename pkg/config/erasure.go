package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/id"
)

// Erasure records that the payload of an event was erased. Its id is that of the event, its creation time that of the
// erasure. Erasures are part of the configuration because every node has that at once, and it outlives the events in
// Kafka and ClickHouse. Everything that reads, delivers or stores an event checks for an erasure, so that a record that
// is read again cannot restore the payload.
type Erasure struct {
	entity.Meta
	// StoreErasedAt is when the payload was found to be permanently gone from the store; zero: not yet.
	StoreErasedAt time.Time `json:"gone,omitzero"`
	Tenant        string    `json:"tenant,omitempty"` // of the key that asked; empty: a key of the account
}

// Bounds of erasures, about 200 bytes each. An erasure is removed a day after its event has expired. Calls that run at
// the same time may exceed the shares of tenants by their number.
const (
	MaxErasures        = 100_000
	MaxTenantErasures  = 10_000          // that the keys of one tenant asked for
	maxTenantsErasures = MaxErasures / 2 // that the keys of all tenants asked for
)

// ErrTooManyErasures means that one of the bounds is reached.
var ErrTooManyErasures = errors.New("too many payloads were erased within the retention")

// ErasePayload erases the payload of an event and returns the time of the first erasure. When it returns nil, no node
// shows or sends the payload. tenant is that of the key that asks; empty: none.
func (c endpoints) ErasePayload(ctx context.Context, event id.ID, tenant string) (time.Time, error) {
	if err := c.WaitReady(ctx); err != nil {
		return time.Time{}, err
	}
	name := event.Text(id.Event)
	if e, _ := entity.Get[Erasure](c, name); e == nil {
		if tenant != "" && !c.mayErase(tenant) {
			return time.Time{}, ErrTooManyErasures
		}
		_, _, err := entity.CreateUnawaited(ctx, c.Core, &Erasure{Meta: entity.Meta{ID: name}, Tenant: tenant})
		if err != nil && !errors.Is(err, ErrConflict) { // with a conflict this node has applied the record of another call
			return time.Time{}, fmt.Errorf("erase the payload of %s: %w", name, err)
		}
	}
	// A repeated call waits as well: the answer to the first one may have been lost before every node knew.
	if err := c.Barrier(ctx, c.CurrentPosition()); err != nil {
		return time.Time{}, err
	}
	return c.ErasedAt(event), nil
}

// mayErase reports whether a tenant has a share of the erasures left. It counts new erasures only, and all of them once
// a minute: some may have been removed, and a walk over 100,000 takes tens of milliseconds.
func (c *core) mayErase(tenant string) bool {
	n := &c.erasures
	n.mu.Lock()
	defer n.mu.Unlock()
	v, now := c.View(), c.Clock()
	if v.Len(entity.KindErasure) < MaxTenantErasures {
		return true
	}
	if now.Sub(n.since).Abs() > time.Minute {
		n.since, n.seq, n.all, n.byTenant = now, 0, 0, map[uint64]int{}
	}
	counted := n.seq
	for e := range v.NewestFirst(entity.KindErasure, 0) {
		if e.Seq <= counted {
			break
		}
		n.seq = max(n.seq, e.Seq)
		n.byTenant[e.Attributes]++
		if e.Attributes != 0 {
			n.all++
		}
	}
	return n.byTenant[entity.TenantAttribute(tenant)] < MaxTenantErasures && n.all < maxTenantsErasures
}

// ErasedAt returns when the payload of an event was erased; zero if this node knows of no erasure.
func (c *core) ErasedAt(event id.ID) time.Time { return erasedAt(c.Core, event) }

func erasedAt(c *entity.Core, event id.ID) time.Time {
	v := c.View()
	if v.Len(entity.KindErasure) == 0 { // fast path: called for every delivery and every row
		return time.Time{}
	}
	e := v.FindLiving(entity.KindErasure, event.Text(id.Event))
	if e == nil {
		return time.Time{}
	}
	return c.Decoded(e).(*Erasure).CreatedAt
}

// Erased reports whether the payload of an event was erased.
func (c endpoints) Erased(event id.ID) bool { return !c.ErasedAt(event).IsZero() }

// UnfinishedErasures returns the erasures whose payload may still be in the store, newest first.
func (c endpoints) UnfinishedErasures() []*Erasure {
	return entity.ValuesOf(c.Core, c.View().NewestFirst(entity.KindErasure, 0), func(e *Erasure) bool {
		return e.StoreErasedAt.IsZero()
	})
}

// FinishErasure records that the payload is gone from the store.
func (c endpoints) FinishErasure(ctx context.Context, name string) error {
	_, _, err := entity.UpdateUnawaited(ctx, c.Core, name, func(e *Erasure) error {
		if e.StoreErasedAt.IsZero() {
			e.StoreErasedAt = c.Clock().UTC()
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) { // its event has expired meanwhile
		return nil
	}
	return err
}

// Attributes let the erasures of tenants be counted without decoding them.
func (e *Erasure) Attributes() uint64 { return entity.TenantAttribute(e.Tenant) }

func (e *Erasure) Validate() error {
	_, err := id.Parse(id.Event, e.ID)
	return err
}

// EndsAt: a day after its event expired. Only events that can be read are erased, so erasures expire in about the order
// of their creation.
func (e *Erasure) EndsAt(c *entity.Core) time.Time {
	from := e.CreatedAt
	if event, err := id.Parse(id.Event, e.ID); err == nil {
		from = event.Time()
	}
	return from.AddDate(0, 0, cmp.Or(c.RetentionDays, maxRetentionDays)+1)
}

// maxRetentionDays is the maximum of RELAY_RETENTION_DAYS.
const maxRetentionDays = 3650
