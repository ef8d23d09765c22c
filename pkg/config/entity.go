package config

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	plain
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

func (m *Meta) Common() commonFields {
	return commonFields{&m.ID, &m.Account, &m.CreatedAt, &m.UpdatedAt, &m.Rev, &m.Seq}
}

// commonFields points at the fields that most kinds have; nil: the kind does not have it.
type commonFields struct {
	ID, account        *string
	createdAt, updated *time.Time
	rev, seq           *int64
}

// assign copies a field that the kind may not have.
func assign[V any](to *V, from *V) {
	if to != nil {
		*to = *from
	}
}

// keep sets the fields to those of another version of the entity.
func (f commonFields) keep(other commonFields) {
	*f.ID = *other.ID
	assign(f.account, other.account)
	assign(f.createdAt, other.createdAt)
	assign(f.updated, other.updated)
	assign(f.rev, other.rev)
	assign(f.seq, other.seq)
}

func IDOf(v value) string { return *v.Common().ID }

// Pointer is a pointer to the value of a kind; T is the type behind it.
type Pointer[T any] interface {
	*T
	value
}

// Entity is a pointer to the value of a kind, for functions of other packages that are the same for all kinds.
type Entity[T any] interface {
	Pointer[T]
	Owner() (id, account string)
	CreationSeq() int64
}

// Core is a copy of the configuration log with the values of its entities.
type Core struct {
	*conflog.Log
	Keyring       *seal.Keyring
	Partitions    int32 // that new endpoints are distributed over
	RetentionDays int   // how long events can be read; 0 = unknown
	clock         func() time.Time
	table         *Table
	cache         cache
}

// Access is a Control, or a type that embeds one.
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
	v := c.decoded(e)
	if c.table.has(k, expiresInAnyOrder) && c.hasEnded(v) {
		return nil, Deleted
	}
	return v.(P), Present
}

func (c *Core) hasEnded(v value) bool { return !c.clock().Before(v.EndsAt(c)) }

// unlimited is a limit for List.
const unlimited = math.MaxInt

// List returns a page of at most limit entities of an account, newest first: those for which keep returns true (nil =
// all), created before the one with beforeSeq (0 = from the newest). more reports whether there are more. It reads the
// entities of the kind one by one until the page is full.
func List[T any, P Pointer[T]](from Access, account string, beforeSeq int64, limit int, keep func(P) bool) (
	page []P, more bool) {
	c, k := from.base(), P(nil).EntityKind()
	for e := range c.View().NewestFirst(k, beforeSeq) {
		v := c.decoded(e).(P)
		if *v.Common().account != account || c.table.has(k, expiresInAnyOrder) && c.hasEnded(v) || keep != nil && !keep(v) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, v)
	}
	return page, false
}

// valuesOf returns the values of those entities for which keep returns true; nil = all.
func valuesOf[T any, P Pointer[T]](c *Core, entities iter.Seq[*conflog.Entity], keep func(P) bool) (all []P) {
	for e := range entities {
		if v := c.decoded(e).(P); keep == nil || keep(v) {
			all = append(all, v)
		}
	}
	return all
}

// byHash returns the entity whose current or previous secret has that SHA-256; nil if none has it.
func byHash[T any, P Pointer[T]](c *Core, hash [conflog.HashLen]byte) P {
	if e := c.View().FindByHash(P(nil).EntityKind(), hash); e != nil {
		return c.decoded(e).(P)
	}
	return nil
}

// Create creates an entity, which must have an id. It sets the fields that follow from others, and account and times
// where they are empty. It returns conflog.ErrConflict when the id exists: of several writers one wins, the same on every node.
func Create[T any, P Pointer[T]](ctx context.Context, to Access, v P) (P, error) {
	c := to.base()
	created, w, err := createUnawaited(ctx, c, v)
	return awaited(ctx, c, created, w, err)
}

// createUnawaited is Create without the wait for the other nodes.
func createUnawaited[T any, P Pointer[T]](ctx context.Context, c *Core, v P) (created P, w written, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, w, err
	}
	if v, err = complete(c, v); err != nil {
		return nil, w, err
	}
	if w.WriteResult, err = c.insert(ctx, v); err != nil {
		return nil, w, err
	}
	return c.decoded(w.Entity).(P), w, nil
}

// complete returns a copy of a new value with the fields that Create sets.
func complete[T any, P Pointer[T]](c *Core, v P) (P, error) {
	again := *v
	filled := P(&again)
	f := filled.Common()
	*f.account = cmp.Or(*f.account, c.View().Newest(kindAccount).ID)
	if f.createdAt.IsZero() {
		*f.createdAt = c.clock().UTC()
	}
	if f.updated != nil && f.updated.IsZero() {
		*f.updated = *f.createdAt
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
func (c *Core) Derive(v, was value) error {
	h := v.Hashed()
	switch {
	case h.field == "":
	case was != nil && was.Hashed().sealed == h.sealed:
		*h.hash = *was.Hashed().hash
	default:
		secret, err := c.Keyring.OpenString(IDOf(v), h.field, h.sealed)
		if err != nil {
			return err
		}
		sum := hashOf(secret)
		*h.hash = sum[:]
	}
	return v.Derive(c, was)
}

// insert writes a new entity without changes to the value.
func (c *Core) insert(ctx context.Context, v value) (conflog.WriteResult, error) {
	raw, err := encodeValue(v)
	if err != nil {
		return conflog.WriteResult{}, err
	}
	return c.CreateBeforeReady(ctx, v.EntityKind(), IDOf(v), raw)
}

func encodeValue(v value) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T %s: %w", v, IDOf(v), err)
	}
	return raw, nil
}

// copyOf returns a deep copy of a value.
func copyOf[P value](c *Core, v P) (again P, err error) {
	raw, err := encodeValue(v)
	if err != nil {
		return again, err
	}
	x, err := c.table.decode(v.EntityKind(), raw)
	if err != nil {
		return again, err
	}
	x.Common().keep(v.Common())
	return x.(P), nil
}

// written is a record that this node has applied.
type written struct {
	conflog.WriteResult
	before *conflog.Entity // what it has replaced: nil if it is new, the present entity when nothing was written
}

func (w written) changed() bool { return w.before != w.Entity }

// Update changes an entity. change gets a deep copy that it may modify. When another writer wins, change is called
// again with a newer copy. Its error is returned unchanged. Id, account and creation time stay as they are. When change
// modifies nothing, nothing is written. An update that restricts something returns only when no node acts on the entity
// as it was; see value.restricts.
func Update[T any, P Pointer[T]](ctx context.Context, in Access, id string, change func(P) error) (P, error) {
	c := in.base()
	v, w, err := updateUnawaited(ctx, c, id, change)
	return awaited(ctx, c, v, w, err)
}

// awaited returns the results of a change after it has waited for the other nodes: until none acts on the value from
// before, if the change restricts something; otherwise only as long as is usual.
func awaited[P value](ctx context.Context, c *Core, v P, w written, err error) (P, error) {
	switch {
	case err != nil || !w.changed():
		return v, err
	case w.before != nil && c.decoded(w.before).Restricts(v):
		return v, c.Barrier(ctx, w.WriteResult)
	}
	c.WaitForPeers(ctx, w.WriteResult)
	return v, nil
}

// UpdateEverywhere is Update for a change after which no node may act on the entity as it was, also when an earlier
// call has made it: the answer to that may have been lost.
func UpdateEverywhere[T any, P Pointer[T]](ctx context.Context, in Access, id string, change func(P) error) (P, error) {
	c := in.base()
	v, _, err := updateUnawaited(ctx, c, id, change)
	if err != nil {
		return nil, err
	}
	return v, c.Barrier(ctx, c.CurrentPosition())
}

// updateUnawaited is Update without the wait for the other nodes.
func updateUnawaited[T any, P Pointer[T]](ctx context.Context, c *Core, id string, change func(P) error) (
	v P, w written, err error) {
	w.before, w.WriteResult, err = c.replace(ctx, P(nil).EntityKind(), id, func(old value) (value, error) {
		if c.table.has(old.EntityKind(), expiresInAnyOrder) && c.hasEnded(old) {
			return nil, fmt.Errorf("change %s, which has expired or whose event was erased: %w", id, conflog.ErrNotFound)
		}
		next, err := altered(c, old.(P), change)
		if next == nil {
			return nil, err
		}
		return next, err
	})
	if err != nil {
		return nil, w, err
	}
	return c.decoded(w.Entity).(P), w, nil
}

// updateOrCreate is updateUnawaited, and creates the entity from what first returns if there is none.
func updateOrCreate[T any, P Pointer[T]](ctx context.Context, c *Core, first func() P, change func(P) error) (
	v P, w written, err error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, w, err
	}
	for {
		fresh := first()
		if v, w, err = updateUnawaited(ctx, c, IDOf(fresh), change); !errors.Is(err, conflog.ErrNotFound) {
			return v, w, err
		}
		if err := change(fresh); err != nil {
			return nil, w, err
		}
		now := c.clock().UTC()
		assign(fresh.Common().updated, &now)
		if v, w, err = createUnawaited(ctx, c, fresh); !errors.Is(err, conflog.ErrConflict) {
			return v, w, err
		}
	}
}

// altered returns a deep copy of a value after change, or nil when that has modified nothing.
func altered[T any, P Pointer[T]](c *Core, was P, change func(P) error) (P, error) {
	v, err := copyOf(c, was)
	if err != nil {
		return nil, err
	}
	if err := change(v); err != nil {
		return nil, err
	}
	v.Common().keep(was.Common())
	count := v.ChangeCount()
	assign(count, was.ChangeCount())
	if err := c.Derive(v, was); err != nil || sameJSON(was, v) {
		return nil, err
	}
	if count != nil {
		*count++
	}
	now := c.clock().UTC()
	assign(v.Common().updated, &now)
	return v, nil
}

// replace replaces the value of an entity by the result of next; nil leaves it unchanged. When a writer on another node
// wins, next is called again with the newer value.
func (c *Core) replace(ctx context.Context, k kind, id string, next func(old value) (value, error)) (
	before *conflog.Entity, res conflog.WriteResult, err error) {
	return c.Change(ctx, k, id, func(old *conflog.Entity) (conflog.NewValue, error) {
		was := c.decoded(old)
		v, err := next(was)
		if err != nil || v == nil {
			return conflog.NewValue{}, err
		}
		raw, err := c.encode(old, v)
		return conflog.NewValue{Value: raw, Exempt: was.OnlyRestricts(v)}, err
	})
}

// Delete deletes an entity and leaves a tombstone. A deletion that restricts something returns only when no node acts
// on the entity.
func Delete[T any, P Pointer[T]](ctx context.Context, from Access, id string) error {
	return from.base().remove(ctx, P(nil).EntityKind(), id, 0)
}

// remove is Delete. Unless rev is 0, it returns conflog.ErrConflict when the entity has another revision.
func (c *Core) remove(ctx context.Context, k kind, id string, rev int64) error {
	res, err := c.Delete(ctx, k, id, rev)
	if err != nil {
		return err
	}
	if c.table[k].empty().Restricts(nil) {
		return c.Barrier(ctx, res)
	}
	c.WaitForPeers(ctx, res)
	return nil
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// hashOf returns the hash by which a token or key is stored. They are random, so a plain SHA-256 cannot be reversed by
// guessing.
func hashOf(secret string) [conflog.HashLen]byte { return sha256.Sum256([]byte(secret)) }
