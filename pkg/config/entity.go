package config

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/conflog"
)

// Meta holds the common members of all entities except accounts, endpoints and API keys. They embed it.
type Meta struct {
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

func (m *Meta) entityID() string   { return m.ID }
func (m *Meta) secretHash() []byte { return nil }
func (m *Meta) meta() *Meta        { return m }

// entityWithMeta is a pointer to a value with a Meta; T is the type behind it.
type entityWithMeta[T any] interface {
	*T
	value
	meta() *Meta
}

// findEntity returns the value with that id, shared and read-only; nil unless it is Present.
func findEntity[P interface {
	*T
	value
}, T any](c *core, k kind, id string) (P, Presence) {
	e := c.View().Find(k, id)
	switch {
	case e == nil:
		return nil, Unknown
	case !e.Living():
		return nil, Deleted
	default:
		return c.value(e).(P), Present
	}
}

// listEntities returns a page of at most limit values of an account, newest first: those for which keep returns true
// (nil = all), created before the one with beforeSeq (0 = from the newest). more reports whether there are more. It
// reads the entities of the kind one by one until the page is full.
func listEntities[P entityWithMeta[T], T any](
	c *core, k kind, account string, beforeSeq int64, limit int, keep func(P) bool) (
	page []P, more bool) {
	for e := range c.View().NewestFirst(k, beforeSeq) {
		v := c.value(e).(P)
		if v.meta().Account != account || keep != nil && !keep(v) {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, v)
	}
	return page, false
}

// addEntity creates an entity, which must have an id. Account and times are set where they are empty. It returns
// ErrConflict when the id exists: of several writers one wins, the same on every node.
func addEntity[P entityWithMeta[T], T any](ctx context.Context, c *core, k kind, v P) (P, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	filled := *v
	m := P(&filled).meta()
	m.Account = cmp.Or(m.Account, c.Account().ID)
	if m.CreatedAt.IsZero() {
		m.CreatedAt = c.now().UTC()
	}
	if m.UpdatedAt.IsZero() {
		m.UpdatedAt = m.CreatedAt
	}
	res, err := c.create(ctx, k, P(&filled))
	if err != nil {
		return nil, err
	}
	c.WaitForPeers(ctx, res)
	return c.value(res.Entity).(P), nil
}

// create writes a new entity without changes to the value.
func (c *core) create(ctx context.Context, k kind, v value) (conflog.WriteResult, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return conflog.WriteResult{}, fmt.Errorf("encode %s %s: %w", c.KindName(k), v.entityID(), err)
	}
	return c.CreateBeforeReady(ctx, k, v.entityID(), raw)
}

// change replaces the value of an entity by the result of next; nil leaves it unchanged. When a writer on another node
// wins, next is called again with the newer value. isExempt reports whether a change is allowed even when a bound
// is reached.
func (c *core) change(
	ctx context.Context, k kind, id string, isExempt func(old, new value) bool, next func(old value) (value, error),
) (before *conflog.Entity, res conflog.WriteResult, err error) {
	return c.Change(ctx, k, id, func(old *conflog.Entity) (conflog.NewValue, error) {
		was := c.value(old)
		v, err := next(was)
		if err != nil || v == nil {
			return conflog.NewValue{}, err
		}
		raw, err := c.encode(old, was, v)
		return conflog.NewValue{Value: raw, Exempt: isExempt(was, v)}, err
	})
}

// updateEntity changes an entity. alter gets a deep copy that it may modify. When another writer wins, alter is called
// again with a newer copy. Its error is returned unchanged. Id, account and creation time stay as they are. When alter
// modifies nothing, nothing is written.
func updateEntity[P entityWithMeta[T], T any](ctx context.Context, c *core, k kind, id string, alter func(P) error) (
	P, error) {
	v, wait, err := updateWithoutWait(ctx, c, k, id, alter)
	if err == nil {
		wait()
	}
	return v, err
}

// updateWithoutWait is updateEntity without the wait for the other nodes; the returned function waits.
func updateWithoutWait[P entityWithMeta[T], T any](
	ctx context.Context, c *core, k kind, id string, alter func(P) error) (
	v P, wait func(), err error) {
	before, res, err := c.change(ctx, k, id, isExempt, func(old value) (value, error) {
		return changedEntity(c, k, old.(P), alter)
	})
	if err != nil {
		return nil, nil, err
	}
	return c.value(res.Entity).(P), func() {
		if before != res.Entity {
			c.WaitForPeers(ctx, res)
		}
	}, nil
}

// changedEntity returns the entity after alter, or nil when it is the same.
func changedEntity[P entityWithMeta[T], T any](c *core, k kind, old P, alter func(P) error) (value, error) {
	had := *old.meta()
	return changedCopy(c, k, old, func(v P) error {
		v.meta().Rev, v.meta().Seq = had.Rev, had.Seq
		if err := alter(v); err != nil {
			return err
		}
		*v.meta() = had
		return nil
	}, func(v P) { v.meta().UpdatedAt = c.now().UTC() })
}

// changedCopy returns a deep copy of a value after alter and mark, or nil when alter has changed nothing.
func changedCopy[P interface {
	*T
	value
}, T any](c *core, k kind, old P, alter func(P) error, mark func(P)) (value, error) {
	was, err := json.Marshal(old)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", c.KindName(k), old.entityID(), err)
	}
	again, err := decodeValue(k, was)
	if err != nil {
		return nil, err
	}
	v := again.(P)
	if err := alter(v); err != nil {
		return nil, err
	}
	is, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", c.KindName(k), old.entityID(), err)
	}
	if bytes.Equal(was, is) {
		return nil, nil
	}
	mark(v)
	return v, nil
}
