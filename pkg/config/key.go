package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

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

// NewKey describes an API key that CreateKey creates.
type NewKey struct {
	Name      string    // 1 to 100 printable characters
	Scope     Scope     // Read or ReadWrite
	Agent     bool      // the key changes nothing by itself; see Key.Agent
	Tenant    string    // restricts the key; see Key.Tenant
	ExpiresAt time.Time // zero: never
	// Nonce makes a repeated call harmless: calls with the same nonce create one key. Empty = every call creates a key.
	// A caller draws it at random for each form.
	Nonce string
}

// ErrAlreadyCreated means that an earlier call with the same nonce has created the key.
var ErrAlreadyCreated = errors.New("the key was created before, and its text is not shown again")

// Validate returns an *entity.InvalidError for the first member that is wrong.
func (n *NewKey) Validate(now time.Time) error {
	length := utf8.RuneCountInString(n.Name)
	switch {
	case length < 1 || length > require.MaxName || !web.IsPrintable(n.Name): // relay keys list prints it, one key per line
		return &entity.InvalidError{Param: "name", Message: "must have 1 to 100 printable characters"}
	case n.Scope != Read && n.Scope != ReadWrite:
		return errScope()
	case !n.ExpiresAt.IsZero() && !n.ExpiresAt.After(now):
		return &entity.InvalidError{Param: "expires_at", Message: "must be in the future"}
	}
	return nil
}

// CreateKey creates an API key and returns its text, which is stored nowhere. It returns an *entity.InvalidError when n
// is invalid. When a call with the same nonce has created a key before, it returns that key and ErrAlreadyCreated,
// whatever else n says.
func (c callers) CreateKey(ctx context.Context, n NewKey) (text string, k *Key, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return "", nil, err
	}
	if err := n.Validate(c.Now()); err != nil {
		return "", nil, err
	}
	if n.Tenant != "" {
		if t := tenants(c).Tenant(c.Account().ID, n.Tenant); t == nil || t.Deleting {
			return "", nil, errNoTenant(n.Tenant)
		}
	}
	text = apikey.New()
	fingerprint, err := callers(c).KeyFingerprint(ctx, text)
	if err != nil {
		return "", nil, fmt.Errorf("create key: %w", err)
	}
	hash := entity.HashOf(text)
	key := &Key{
		ID: id.Random(id.Key), Account: c.Account().ID, Name: n.Name, Scope: n.Scope, Agent: n.Agent, Tenant: n.Tenant,
		Hash: hash[:], Last4: apikey.Last4(text), Fingerprint: fingerprint, CreatedAt: c.Clock().UTC(),
		ExpiresAt: n.ExpiresAt,
	}
	if n.Nonce != "" {
		key.ID = derivedID(id.Key, "key of nonce "+key.Account+" "+n.Nonce)
	}
	created, err := entity.Create(ctx, c, key)
	if n.Nonce != "" && errors.Is(err, ErrConflict) { // this node has applied the record of the earlier call
		if earlier, _ := entity.Get[Key](c, key.ID); earlier != nil {
			return "", earlier, ErrAlreadyCreated
		}
	}
	if err != nil {
		return "", nil, err
	}
	return text, created, nil
}

func (c *core) key(e *conflog.Entity) *Key { return c.Decoded(e).(*Key) }

// Keys returns the API keys of an account, newest first, revoked and expired keys included.
func (c callers) Keys(account string) []*Key {
	all, _ := entity.List[Key](c, account, 0, entity.Unlimited, nil)
	return all
}

// Authenticate returns the API key with that text. It returns ErrInvalidKey when the key is unknown, revoked, expired,
// or a bootstrap key that this node's environment does not name. It returns ErrLease when this node cannot authenticate
// anybody now. It does not check the form of the text.
func (c callers) Authenticate(text string) (*Key, error) {
	// Check the lease before loading the view: so the view has everything that the lease covers.
	if _, ok := c.Lease(); !ok {
		return nil, ErrLease
	}
	k, err := c.valid(entity.ByHash[Key](c.Core, entity.HashOf(text)))
	if err != nil {
		return nil, err
	}
	c.requestFingerprint(k.ID, text)
	return k, nil
}

// valid returns a key with the scope that it has now, or the key and ErrInvalidKey; see Authenticate.
func (c callers) valid(k *Key) (*Key, error) {
	if k == nil || !c.KeyWorks(k) {
		return k, ErrInvalidKey
	}
	scope := c.bootstrapScopes[[32]byte(k.Hash)]
	if !k.Bootstrap || scope == k.Scope {
		return k, nil
	}
	as := *k // the scope in the environment wins, even if it named the key with the other scope before
	as.Scope = scope
	return &as, nil
}

func (k *Key) isExpired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// checkKey returns the key with that id as Authenticate would now, with the same errors. A key that is known is
// returned with ErrInvalidKey too.
func (c callers) checkKey(id string) (*Key, error) {
	if _, ok := c.Lease(); !ok { // before loading the view; see Authenticate
		return nil, ErrLease
	}
	k, _ := entity.Get[Key](c, id)
	return c.valid(k)
}

// KeyWorks reports whether an API key would be accepted now.
func (c callers) KeyWorks(k *Key) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || !k.isExpired(c.Now())) && c.IsSet(k)
}

// IsSet is false for a bootstrap key that this node's environment does not name, such as one of an import. It gets 401.
func (c callers) IsSet(k *Key) bool {
	if !k.Bootstrap {
		return true
	}
	_, named := c.bootstrapScopes[[32]byte(k.Hash)]
	return named
}

// RevokeKey revokes a key for good. When it returns nil, every node rejects the key. Revoking a revoked key waits in
// the same way, so that a client can repeat the call after a lost answer.
func (c callers) RevokeKey(ctx context.Context, key string) error {
	_, err := entity.UpdateEverywhere(ctx, c, key, func(k *Key) error {
		if k.RevokedAt.IsZero() {
			k.RevokedAt = c.Clock().UTC()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	return nil
}

func (c Config) bootstrapScopes() map[[conflog.HashLen]byte]Scope {
	m := make(map[[conflog.HashLen]byte]Scope)
	if c.BootstrapReadKey != "" {
		m[entity.HashOf(c.BootstrapReadKey)] = Read
	}
	if c.BootstrapKey != "" {
		m[entity.HashOf(c.BootstrapKey)] = ReadWrite
	}
	return m
}

// ensureBootstrapKeys creates the keys of the environment that have no entity yet. A revoked key keeps its entity, so
// it stays revoked. The ids derive from the hashes, so nodes that start together do not create a key twice.
func (c *core) ensureBootstrapKeys(ctx context.Context) error {
	for _, b := range []struct {
		name, text string
		scope      Scope
	}{{"bootstrap", c.cfg.BootstrapKey, ReadWrite}, {"bootstrap read", c.cfg.BootstrapReadKey, Read}} {
		hash := entity.HashOf(b.text)
		if b.text == "" || c.View().FindByHash(entity.KindKey, hash) != nil {
			continue
		}
		_, err := c.Insert(ctx, &Key{
			ID: derivedID(id.Key, "bootstrap key "+string(hash[:])), Account: c.Account().ID, Name: b.name, Scope: b.scope,
			Hash: hash[:], Last4: apikey.Last4(b.text), CreatedAt: c.Clock().UTC(), Bootstrap: true,
		})
		if err != nil && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return nil
}

// The fingerprint of an API key recognises the key where its text has leaked. Keys get it when they are created. Those
// that were created without one, and bootstrap keys, whose text only the environment has, get it at their next use.

// KeyByFingerprint returns the API key whose text has that fingerprint, revoked and expired ones included; nil if there
// is none.
func (c callers) KeyByFingerprint(fingerprint string) *Key {
	index := c.keyIndex.Load()
	if index == nil || isClosed(index.changed) {
		index = &keyIndex{c.Changed(entity.KindKey), make(map[string]string)}
		for e := range c.View().OldestFirst(entity.KindKey) {
			if k := c.key(e); k.Fingerprint != "" {
				index.byFingerprint[k.Fingerprint] = k.ID
			}
		}
		c.keyIndex.Store(index)
	}
	k, _ := entity.Get[Key](c, index.byFingerprint[fingerprint])
	return k
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// keyUsePause is the pause after a fingerprint could not be stored: uses ask again and again.
const keyUsePause = time.Second

// MarkUsedFromBrowser records that a browser has sent a key, with an entry in the audit log for the first time. It does
// not wait; if it cannot record it now, the next use does.
func (c callers) MarkUsedFromBrowser(k *Key) {
	if k.UsedFromBrowser {
		return
	}
	select {
	case c.usedKeys <- usedKey{id: k.ID, fromBrowser: true}:
	default:
	}
}

// requestFingerprint makes recordKeyUses set the fingerprint of a key, unless this node has done so before. An import
// brings another service secret, so each key is checked once under each. It never waits: a later use of the key asks
// again.
func (c *core) requestFingerprint(key, text string) {
	secret := c.View().FindLiving(entity.KindServiceSecret, serviceSecretID)
	if under, checked := c.fingerprintedKeys.Load(key); checked && under == secret {
		return
	}
	select {
	case c.usedKeys <- usedKey{id: key, text: text}:
	default:
	}
}

// recordKeyUses sets what requestFingerprint and MarkUsedFromBrowser ask for until ctx ends.
func (c *core) recordKeyUses(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-c.usedKeys:
			err := c.recordKeyUse(ctx, u)
			if err == nil || ctx.Err() != nil {
				continue
			}
			c.log.LogAttrs(ctx, slog.LevelWarn, "cannot store what the use of an API key says", slog.String("key", u.id),
				slog.Any("error", err))
			if wait.For(ctx, keyUsePause) != nil {
				return nil
			}
		}
	}
}

// recordKeyUse sets the fingerprint of a key, or that a browser has sent it.
func (c *core) recordKeyUse(ctx context.Context, u usedKey) error {
	if u.fromBrowser {
		_, _, err := entity.UpdateUnawaited(ctx, c.Core, u.id, func(k *Key) error {
			k.UsedFromBrowser = true
			return nil
		})
		return err
	}
	secret := c.View().FindLiving(entity.KindServiceSecret, serviceSecretID)
	fingerprint, err := callers{c}.KeyFingerprint(ctx, u.text)
	if err != nil {
		return err
	}
	_, _, err = entity.UpdateUnawaited(ctx, c.Core, u.id, func(k *Key) error {
		k.Fingerprint = fingerprint
		return nil
	})
	if err == nil {
		c.fingerprintedKeys.Store(u.id, secret)
	}
	return err
}
