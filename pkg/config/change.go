package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
)

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
