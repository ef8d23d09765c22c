// Package entity has what all kinds of entities of the configuration log share: reading, listing, creating, changing
// and deleting them (entity.go), their table and the methods of their values (kind.go), the cache of decoded values,
// the members that a newer version has written (members.go), and the removal of expired ones.
//
// A change is conditional: of several writers one wins, the same on every node, and the others try again. One that
// restricts something returns when no node acts on the entity as it was. The kinds themselves are in package config.
package entity

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

// Meta holds the common fields of all entities except accounts, endpoints and API keys. They embed it.
type Meta struct {
	Plain
	ID        string    `json:"id"`
	Account   string    `json:"account"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	// Rev is the sequence of the record that changed the entity last. Set when it is read, never written.
	Rev int64 `json:"-"`
	// Seq is the sequence of the record that created the entity; lists are in this order. Set when it is read, never
	// written.
	Seq int64 `json:"-"`
}

// CreationSeq returns the position of the entity in lists, which are in the order of creation.
func (m *Meta) CreationSeq() int64 { return m.Seq }

// Owner returns the id of the entity and of the account that it belongs to.
func (m *Meta) Owner() (id, account string) { return m.ID, m.Account }

// Common returns the fields.
func (m *Meta) Common() CommonFields {
	return CommonFields{&m.ID, &m.Account, &m.CreatedAt, &m.UpdatedAt, &m.Rev, &m.Seq}
}

// CommonFields points at the fields that most kinds have; nil: the kind does not have it.
type CommonFields struct {
	ID, Account        *string
	CreatedAt, Updated *time.Time
	Rev, Seq           *int64
}

// assign copies a field that the kind may not have.
func assign[V any](to *V, from *V) {
	if to != nil {
		*to = *from
	}
}

// Keep sets the fields to those of another version of the entity.
func (f CommonFields) Keep(other CommonFields) {
	*f.ID = *other.ID
	assign(f.Account, other.Account)
	assign(f.CreatedAt, other.CreatedAt)
	assign(f.Updated, other.Updated)
	assign(f.Rev, other.Rev)
	assign(f.Seq, other.Seq)
}

// IDOf returns the id of an entity.
func IDOf(v Value) string { return *v.Common().ID }

// Pointer is a pointer to the value of a kind; T is the type behind it.
type Pointer[T any] interface {
	*T
	Value
}

// Entity is a pointer to the value of a kind, for functions of other packages that are the same for all kinds.
type Entity[T any] interface {
	Pointer[T]
	Owner() (id, account string)
	CreationSeq() int64
}

// InvalidError says what is wrong with a value that a person has given.
type InvalidError struct {
	Param   string // name of the value, such as scope
	Message string // a predicate, such as "must be read or read_write"
}

func (e *InvalidError) Error() string { return e.Param + " " + e.Message }

// Core is a copy of the configuration log with the values of its entities.
type Core struct {
	*conflog.Log
	Table         *Table
	Keyring       *seal.Keyring    // opens the secrets of values
	Clock         func() time.Time // of this node
	Partitions    int32            // that new endpoints are distributed over
	RetentionDays int              // how long events can be read; 0 = unknown
	cache         cache
}

// Access is a Core, or a type that embeds one, such as config.Control.
type Access interface{ base() *Core }

func (c *Core) base() *Core { return c }

// Presence is what this node knows about an id.
type Presence uint8

// Values of Presence.
const (
	Unknown Presence = iota // never created, as far as this node has read the log
	Present
	Deleted // for 60 days, less when there are over 200,000 tombstones; then Unknown
)

// Get returns the entity with that id, shared and read-only; nil unless it is Present.
func Get[T any, P Pointer[T]](from Access, id string) (P, Presence) {
	c, k := from.base(), P(nil).EntityKind()
	e := c.View().Find(k, id)
	switch {
	case e == nil:
		return nil, Unknown
	case !e.Living():
		return nil, Deleted
	}
	v := c.Decoded(e)
	if c.Table.Has(k, ExpiresInAnyOrder) && c.hasEnded(v) {
		return nil, Deleted
	}
	return v.(P), Present
}

func (c *Core) hasEnded(v Value) bool { return !c.Clock().Before(v.EndsAt(c)) }

// Unlimited is a limit for List.
const Unlimited = math.MaxInt

// List returns a page of at most limit entities of an account, newest first: those for which keep returns true (nil =
// all), created before the one with beforeSeq (0 = from the newest). more reports whether there are more. It reads the
// entities of the kind one by one until the page is full.
func List[T any, P Pointer[T]](from Access, account string, beforeSeq int64, limit int, keep func(P) bool) (
	page []P, more bool) {
	c, k := from.base(), P(nil).EntityKind()
	for e := range c.View().NewestFirst(k, beforeSeq) {
		v := c.Decoded(e).(P)
		if *v.Common().Account != account || c.Table.Has(k, ExpiresInAnyOrder) && c.hasEnded(v) || keep != nil && !keep(v) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, v)
	}
	return page, false
}

// ValuesOf returns the values of those entities for which keep returns true; nil = all.
func ValuesOf[T any, P Pointer[T]](c *Core, entities iter.Seq[*conflog.Entity], keep func(P) bool) (all []P) {
	for e := range entities {
		if v := c.Decoded(e).(P); keep == nil || keep(v) {
			all = append(all, v)
		}
	}
	return all
}

// ByHash returns the entity whose current or previous secret has that SHA-256; nil if none has it.
func ByHash[T any, P Pointer[T]](c *Core, hash [conflog.HashLen]byte) P {
	if e := c.View().FindByHash(P(nil).EntityKind(), hash); e != nil {
		return c.Decoded(e).(P)
	}
	return nil
}

// Create creates an entity, which must have an id. It sets the fields that follow from others, and account and times
// where they are empty. It returns conflog.ErrConflict when the id exists: of several writers one wins, the same on
// every node.
func Create[T any, P Pointer[T]](ctx context.Context, to Access, v P) (P, error) {
	c := to.base()
	created, w, err := CreateUnawaited(ctx, c, v)
	return Awaited(ctx, c, created, w, err)
}

// CreateUnawaited is Create without the wait for the other nodes.
func CreateUnawaited[T any, P Pointer[T]](ctx context.Context, c *Core, v P) (created P, w written, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, w, err
	}
	if v, err = Complete(c, v); err != nil {
		return nil, w, err
	}
	if w.WriteResult, err = c.Insert(ctx, v); err != nil {
		return nil, w, err
	}
	return c.Decoded(w.Entity).(P), w, nil
}

// Complete returns a copy of a new value with the fields that Create sets.
func Complete[T any, P Pointer[T]](c *Core, v P) (P, error) {
	again := *v
	filled := P(&again)
	f := filled.Common()
	*f.Account = cmp.Or(*f.Account, c.View().Newest(KindAccount).ID)
	if f.CreatedAt.IsZero() {
		*f.CreatedAt = c.Clock().UTC()
	}
	if f.Updated != nil && f.Updated.IsZero() {
		*f.Updated = *f.CreatedAt
	}
	if n := filled.ChangeCount(); n != nil {
		*n = 1
	}
	if err := c.Derive(filled, nil); err != nil {
		return nil, fmt.Errorf("create %s %s: %w", c.KindName(v.EntityKind()), *f.ID, err)
	}
	return filled, nil
}

// Derive sets the hash of a value's secret, and what else follows from its fields. was is the value before; nil: none.
func (c *Core) Derive(v, was Value) error {
	h := v.Hashed()
	switch {
	case h.Field == "":
	case was != nil && was.Hashed().Sealed == h.Sealed:
		*h.Hash = *was.Hashed().Hash
	default:
		secret, err := c.Keyring.OpenString(IDOf(v), h.Field, h.Sealed)
		if err != nil {
			return err
		}
		sum := HashOf(secret)
		*h.Hash = sum[:]
	}
	return v.Derive(c, was)
}

// Insert writes a new entity without changes to the value.
func (c *Core) Insert(ctx context.Context, v Value) (conflog.WriteResult, error) {
	raw, err := EncodeValue(v)
	if err != nil {
		return conflog.WriteResult{}, err
	}
	return c.CreateBeforeReady(ctx, v.EntityKind(), IDOf(v), raw)
}

// EncodeValue returns the JSON of a value.
func EncodeValue(v Value) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T %s: %w", v, IDOf(v), err)
	}
	return raw, nil
}

// CopyOf returns a deep copy of a value.
func CopyOf[P Value](c *Core, v P) (again P, err error) {
	raw, err := EncodeValue(v)
	if err != nil {
		return again, err
	}
	x, err := c.Table.Decode(v.EntityKind(), raw)
	if err != nil {
		return again, err
	}
	x.Common().Keep(v.Common())
	return x.(P), nil
}

// written is a record that this node has applied.
type written struct {
	conflog.WriteResult
	before *conflog.Entity // what it has replaced: nil if it is new, the present entity when nothing was written
}

func (w written) Changed() bool { return w.before != w.Entity }

// Update changes an entity. change gets a deep copy that it may modify. When another writer wins, change is called
// again with a newer copy. Its error is returned unchanged. Id, account and creation time stay as they are. When change
// modifies nothing, nothing is written. An update that restricts something returns only when no node acts on the entity
// as it was; see Value.Restricts.
func Update[T any, P Pointer[T]](ctx context.Context, in Access, id string, change func(P) error) (P, error) {
	c := in.base()
	v, w, err := UpdateUnawaited(ctx, c, id, change)
	return Awaited(ctx, c, v, w, err)
}

// Awaited returns the results of a change after it has waited for the other nodes: until none acts on the value from
// before, if the change restricts something; otherwise only as long as is usual.
func Awaited[P Value](ctx context.Context, c *Core, v P, w written, err error) (P, error) {
	switch {
	case err != nil || !w.Changed():
		return v, err
	case w.before != nil && c.Decoded(w.before).Restricts(v):
		return v, c.Barrier(ctx, w.WriteResult)
	}
	c.WaitForPeers(ctx, w.WriteResult)
	return v, nil
}

// UpdateEverywhere is Update for a change after which no node may act on the entity as it was, also when an earlier
// call has made it: the answer to that may have been lost.
func UpdateEverywhere[T any, P Pointer[T]](ctx context.Context, in Access, id string, change func(P) error) (P, error) {
	c := in.base()
	v, _, err := UpdateUnawaited(ctx, c, id, change)
	if err != nil {
		return nil, err
	}
	return v, c.Barrier(ctx, c.CurrentPosition())
}

// UpdateUnawaited is Update without the wait for the other nodes.
func UpdateUnawaited[T any, P Pointer[T]](ctx context.Context, c *Core, id string, change func(P) error) (
	v P, w written, err error) {
	w.before, w.WriteResult, err = c.Replace(ctx, P(nil).EntityKind(), id, func(old Value) (Value, error) {
		if c.Table.Has(old.EntityKind(), ExpiresInAnyOrder) && c.hasEnded(old) {
			return nil, fmt.Errorf("change %s, which has expired or whose event was erased: %w", id, conflog.ErrNotFound)
		}
		next, err := Altered(c, old.(P), change)
		if next == nil {
			return nil, err
		}
		return next, err
	})
	if err != nil {
		return nil, w, err
	}
	return c.Decoded(w.Entity).(P), w, nil
}

// UpdateOrCreate is UpdateUnawaited, and creates the entity from what first returns if there is none.
func UpdateOrCreate[T any, P Pointer[T]](ctx context.Context, c *Core, first func() P, change func(P) error) (
	v P, w written, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, w, err
	}
	for {
		fresh := first()
		if v, w, err = UpdateUnawaited(ctx, c, IDOf(fresh), change); !errors.Is(err, conflog.ErrNotFound) {
			return v, w, err
		}
		if err := change(fresh); err != nil {
			return nil, w, err
		}
		now := c.Clock().UTC()
		assign(fresh.Common().Updated, &now)
		if v, w, err = CreateUnawaited(ctx, c, fresh); !errors.Is(err, conflog.ErrConflict) {
			return v, w, err
		}
	}
}

// Altered returns a deep copy of a value after change, or nil when that has modified nothing.
func Altered[T any, P Pointer[T]](c *Core, was P, change func(P) error) (P, error) {
	v, err := CopyOf(c, was)
	if err != nil {
		return nil, err
	}
	if err := change(v); err != nil {
		return nil, err
	}
	v.Common().Keep(was.Common())
	count := v.ChangeCount()
	assign(count, was.ChangeCount())
	if err := c.Derive(v, was); err != nil || SameJSON(was, v) {
		return nil, err
	}
	if count != nil {
		*count++
	}
	now := c.Clock().UTC()
	assign(v.Common().Updated, &now)
	return v, nil
}

// Replace replaces the value of an entity by the result of next; nil leaves it unchanged. When a writer on another node
// wins, next is called again with the newer value.
func (c *Core) Replace(ctx context.Context, k Kind, id string, next func(old Value) (Value, error)) (
	before *conflog.Entity, res conflog.WriteResult, err error) {
	return c.Change(ctx, k, id, func(old *conflog.Entity) (conflog.NewValue, error) {
		was := c.Decoded(old)
		v, err := next(was)
		if err != nil || v == nil {
			return conflog.NewValue{}, err
		}
		raw, err := c.Encode(old, v)
		return conflog.NewValue{Value: raw, Exempt: was.OnlyRestricts(v)}, err
	})
}

// Delete deletes an entity and leaves a tombstone. A deletion that restricts something returns only when no node acts
// on the entity.
func Delete[T any, P Pointer[T]](ctx context.Context, from Access, id string) error {
	return from.base().Remove(ctx, P(nil).EntityKind(), id, 0)
}

// Remove is Delete. Unless rev is 0, it returns conflog.ErrConflict when the entity has another revision.
func (c *Core) Remove(ctx context.Context, k Kind, id string, rev int64) error {
	res, err := c.Delete(ctx, k, id, rev)
	if err != nil {
		return err
	}
	if c.Table[k].Empty().Restricts(nil) {
		return c.Barrier(ctx, res)
	}
	c.WaitForPeers(ctx, res)
	return nil
}

// SameJSON reports whether two values are equal in the log.
func SameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// WithoutOrigin is for what the service does by itself within a request: only creating and cancelling are audited.
func WithoutOrigin(ctx context.Context) context.Context {
	return conflog.WithOrigin(ctx, conflog.Origin{})
}

// Account owns all other entities. There is exactly one.
type Account struct {
	Plain
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	// FPSalt has 16 random bytes, which distinguish the fingerprints of this account from those of others. It is created
	// when it is needed for the first time, and is no secret.
	FPSalt []byte `json:"fp_salt,omitempty"`
}

// Common returns the fields.
func (a *Account) Common() CommonFields {
	return CommonFields{ID: &a.ID, CreatedAt: &a.CreatedAt}
}

// Validate validates the account of an import.
func (a *Account) Validate() error {
	if n := len(a.FPSalt); n != 0 && n != FPSaltBytes {
		return fmt.Errorf("fp_salt must have %d bytes, not %d", FPSaltBytes, n)
	}
	return nil
}

func (*Account) EntityKind() Kind { return KindAccount }

// Account returns the account; nil before Ready.
func (c *Core) Account() *Account {
	if e := c.View().Newest(KindAccount); e != nil {
		return c.Decoded(e).(*Account)
	}
	return nil
}

// FPSaltBytes is the length of Account.FPSalt.
const FPSaltBytes = 16

// AccountWithSalt returns the account, and sets its FPSalt if it has none.
func (c *Core) AccountWithSalt(ctx context.Context) (*Account, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	account := c.Account()
	if len(account.FPSalt) > 0 {
		return account, nil
	}
	_, res, err := c.Replace(ctx, KindAccount, account.ID, func(old Value) (Value, error) {
		a := *old.(*Account)
		if len(a.FPSalt) > 0 {
			return nil, nil // another node was first
		}
		a.FPSalt = RandomBytes(FPSaltBytes)
		return &a, nil
	})
	if err != nil {
		return nil, fmt.Errorf("set the salt of the fingerprints: %w", err)
	}
	c.WaitForPeers(ctx, res)
	return c.Decoded(res.Entity).(*Account), nil
}

// IsHashOf reports whether a hash is that of a secret, in a time that does not depend on either.
func IsHashOf(hash []byte, secret string) bool {
	sum := HashOf(secret)
	return subtle.ConstantTimeCompare(sum[:], hash) == 1
}

// RandomBytes returns n random bytes.
func RandomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}

// HashOf returns the hash by which a token or key is stored. They are random, so a plain SHA-256 cannot be reversed by
// guessing.
func HashOf(secret string) [conflog.HashLen]byte { return sha256.Sum256([]byte(secret)) }

// TenantAttribute returns what the attributes of an entity have of the tenant to which it belongs: a hash, 0 for none.
func TenantAttribute(tenant string) uint64 {
	if tenant == "" {
		return 0
	}
	hash := HashOf(tenant)
	return binary.BigEndian.Uint64(hash[:])
}

// maxSwept is the maximum number of entities of a kind that one pass removes, with one record each.
const maxSwept = 2000

// SweepExpired removes what has expired.
func (c *Core) SweepExpired(ctx context.Context) error {
	for k := range NumKinds {
		if !c.Table.Has(k, Expires|ExpiresInAnyOrder) {
			continue
		}
		if err := c.sweepKind(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// sweepKind removes the expired entities of a kind, at most maxSwept: the oldest up to the first that has not expired,
// if they expire in the order of their creation.
func (c *Core) sweepKind(ctx context.Context, k Kind) error {
	swept := 0
	for e := range c.View().OldestFirst(k) {
		if !c.hasEnded(c.Decoded(e)) {
			if c.Table.Has(k, ExpiresInAnyOrder) {
				continue
			}
			return nil
		}
		if swept == maxSwept {
			return nil
		}
		if err := c.ForgetIfUnchanged(ctx, k, e.ID, e.Rev); err != nil {
			return err
		}
		swept++
	}
	return nil
}
