package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/id"
)

// CreateEndpoint writes a new endpoint. The caller has filled everything but the partition, the
// token's hash, and what may be left empty: account and times.
func (c endpoints) CreateEndpoint(ctx context.Context, e *Endpoint) (*Endpoint, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	token, err := c.keyring.OpenString(e.ID, FieldToken, e.Token)
	if err != nil {
		return nil, fmt.Errorf("create endpoint: %w", err)
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
	res, err := c.create(ctx, kindEndpoint, &v)
	if err != nil {
		return nil, err
	}
	c.WaitForPeers(ctx, res)
	return c.endpoint(res.Entity), nil
}

// UpdateEndpoint changes an endpoint. change gets a deep copy, which it may alter freely; it is called
// again with a newer copy when another writer came first, and its error is returned as it is. What
// identifies the endpoint (id, account, partition, creation) stays. When nothing is altered nothing is
// written. An update that takes something away (disables or pauses the endpoint or a destination, purges or
// removes one) is answered when no node acts on it any more.
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

// alter changes a copy of an endpoint, but for what ordinary changes leave alone.
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

// restricts reports whether something that was delivered to, or accepted from, no longer is.
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

// DeleteEndpoint deletes an endpoint and leaves a tombstone. It returns when no node acts on the
// endpoint any more.
func (c endpoints) DeleteEndpoint(ctx context.Context, endpoint string) error {
	res, err := c.Delete(ctx, kindEndpoint, endpoint)
	if err != nil {
		return err
	}
	return c.Barrier(ctx, res)
}

// CreateKey makes an API key and returns its text, which is kept nowhere. A zero expires means never.
func (c keys) CreateKey(ctx context.Context, name string, scope Scope, agent bool, expires time.Time) (
	text string, k *Key, err error) {
	if scope != Read && scope != ReadWrite {
		return "", nil, fmt.Errorf("create key: unknown scope %q", scope)
	}
	if err := c.WaitReady(ctx); err != nil {
		return "", nil, err
	}
	text = apikey.New()
	hash := hashOf(text)
	res, err := c.create(ctx, kindKey, &Key{
		ID: id.Random(id.Key), Account: c.Account().ID, Name: name, Scope: scope, Agent: agent,
		Hash: hash[:], Last4: apikey.Last4(text), CreatedAt: c.now().UTC(), ExpiresAt: expires,
	})
	if err != nil {
		return "", nil, err
	}
	c.WaitForPeers(ctx, res)
	return text, c.key(res.Entity), nil
}

// RevokeKey revokes a key for good. When it returns nil no node takes the key any more. Revoking a
// revoked key waits for the same, so that a repeat after a lost answer is as good as the first.
func (c keys) RevokeKey(ctx context.Context, key string) error {
	before, res, err := c.change(ctx, kindKey, key, isExempt, func(old value) (value, error) {
		k := *old.(*Key)
		if !k.RevokedAt.IsZero() {
			return nil, nil
		}
		k.RevokedAt = c.now().UTC()
		return &k, nil
	})
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	if before == res.Entity {
		res = c.CurrentPosition()
	}
	return c.Barrier(ctx, res)
}

// ensureAccount creates the account unless it is there.
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

// ensureBootstrapKeys enters the keys of the environment that were never entered before. A revoked one
// is still there, which is what keeps it revoked. Their ids derive from their hashes, so that nodes that
// start together do not enter one twice.
func (c *core) ensureBootstrapKeys(ctx context.Context) error {
	for _, b := range []struct {
		name, text string
		scope      Scope
	}{{"bootstrap", c.cfg.BootstrapKey, ReadWrite}, {"bootstrap read", c.cfg.BootstrapReadKey, Read}} {
		hash := hashOf(b.text)
		if b.text == "" || c.View().FindByHash(kindKey, hash) != nil {
			continue
		}
		derived := sha256.Sum256(append([]byte("bootstrap key "), hash[:]...))
		_, err := c.create(ctx, kindKey, &Key{
			ID: id.ID(derived[:16]).Text(id.Key), Account: c.Account().ID, Name: b.name, Scope: b.scope,
			Hash: hash[:], Last4: apikey.Last4(b.text), CreatedAt: c.now().UTC(), Bootstrap: true,
		})
		if err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return nil
}
