package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
)

// CreateEndpoint creates an endpoint. The caller sets everything except partition and token hash; account and times are
// set where they are empty.
func (c endpoints) CreateEndpoint(ctx context.Context, e *Endpoint) (*Endpoint, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	v, err := c.complete(e)
	if err != nil {
		return nil, fmt.Errorf("create endpoint: %w", err)
	}
	res, err := c.create(ctx, kindEndpoint, v)
	if err != nil {
		return nil, err
	}
	c.WaitForPeers(ctx, res)
	return c.endpoint(res.Entity), nil
}

// CheckCreate returns the error of the bound that CreateEndpoint would exceed, or nil. It writes nothing.
func (c endpoints) CheckCreate(e *Endpoint) error {
	v, err := c.complete(e)
	if err != nil {
		return fmt.Errorf("check endpoint: %w", err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode endpoint %s: %w", v.ID, err)
	}
	return conflog.CheckPut(c.Log, kindEndpoint, v.ID, raw, false)
}

// complete returns a new endpoint with the members that CreateEndpoint sets.
func (c endpoints) complete(e *Endpoint) (*Endpoint, error) {
	token, err := c.keyring.OpenString(e.ID, FieldToken, e.Token)
	if err != nil {
		return nil, err
	}
	v := *e
	hash := hashOf(token)
	v.TokenHash = hash[:]
	v.Partition = partitionOf(v.ID, c.cfg.Partitions)
	if v.Account == "" {
		v.Account = c.Account().ID
	}
	if v.CreatedAt.IsZero() {
		v.CreatedAt = c.now().UTC()
	}
	if v.UpdatedAt.IsZero() {
		v.UpdatedAt = v.CreatedAt
	}
	return &v, nil
}

// UpdateEndpoint changes an endpoint. change gets a deep copy that it may modify. When another writer wins, change is
// called again with a newer copy. Its error is returned unchanged. id, account, partition and creation time stay as
// they are. When change modifies nothing, nothing is written. An update that restricts the endpoint (disables or pauses
// the endpoint or a destination, purges or removes a destination, replaces the ingest token) returns only when no node
// acts on the old configuration.
func (c endpoints) UpdateEndpoint(ctx context.Context, endpoint string, change func(*Endpoint) error) (
	*Endpoint, error) {
	before, res, err := c.change(ctx, kindEndpoint, endpoint, isExempt, func(old value) (value, error) {
		return changedCopy(c.core, kindEndpoint, old.(*Endpoint), func(e *Endpoint) error {
			return c.alter(e, *old.(*Endpoint), change)
		}, func(e *Endpoint) { e.UpdatedAt = c.now().UTC() })
	})
	if err != nil {
		return nil, err
	}
	switch e := c.endpoint(res.Entity); {
	case res.Entity == before:
		return e, nil
	case restricts(c.endpoint(before), e):
		return e, c.Barrier(ctx, res)
	default:
		c.WaitForPeers(ctx, res)
		return e, nil
	}
}

// CheckUpdate returns what UpdateEndpoint would make of an endpoint: e itself if change modifies nothing. It returns
// the error of the bound that this would exceed, and writes nothing.
func (c endpoints) CheckUpdate(e *Endpoint, change func(*Endpoint) error) (*Endpoint, error) {
	after, err := changedCopy(c.core, kindEndpoint, e, func(v *Endpoint) error {
		return c.alter(v, *e, change)
	}, func(*Endpoint) {})
	if err != nil || after == nil {
		return e, err
	}
	raw, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encode endpoint %s: %w", e.ID, err)
	}
	return after.(*Endpoint), conflog.CheckPut(c.Log, kindEndpoint, e.ID, raw, isExempt(e, after))
}

// alter calls change with a copy of an endpoint, and restores the members that ordinary updates must not change.
func (c endpoints) alter(e *Endpoint, old Endpoint, change func(*Endpoint) error) error {
	e.Rev, e.Seq = old.Rev, old.Seq
	if err := change(e); err != nil {
		return err
	}
	e.ID, e.Account, e.CreatedAt, e.UpdatedAt = old.ID, old.Account, old.CreatedAt, old.UpdatedAt
	e.Partition, e.FormerPartitions, e.Move = old.Partition, old.FormerPartitions, old.Move
	if e.Token == old.Token {
		return nil
	}
	token, err := c.keyring.OpenString(e.ID, FieldToken, e.Token)
	hash := hashOf(token)
	e.TokenHash = hash[:]
	return err
}

// restricts reports whether an update stops something that was accepted or delivered before.
func restricts(before, after *Endpoint) bool {
	if before.Enabled && !after.Enabled || !before.Paused && after.Paused ||
		!bytes.Equal(before.TokenHash, after.TokenHash) {
		return true
	}
	for _, d := range before.Destinations {
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
	res, err := c.Delete(ctx, kindEndpoint, endpoint, rev)
	if err != nil {
		return err
	}
	return c.Barrier(ctx, res)
}

// ensureAccount creates the account if there is none.
func (c *core) ensureAccount(ctx context.Context) error {
	if c.Account() != nil {
		return nil
	}
	_, err := c.create(ctx, kindAccount, &Account{ID: id.Random(id.Account), CreatedAt: c.now().UTC()})
	if errors.Is(err, ErrConflict) {
		return nil // another node created it
	}
	return err
}
