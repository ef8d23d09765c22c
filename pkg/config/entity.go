package config

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Meta is what the entities other than account, endpoints and keys have in common; they embed it.
type Meta struct {
	ID        string    `json:"id"`
	Account   string    `json:"account"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	// Rev is the sequence of the record that changed it last; set on reading, never written.
	Rev int64 `json:"-"`
	// Seq is the sequence of the record that created it, the order of lists; set on reading, never written.
	Seq int64 `json:"-"`
}

func (m *Meta) entityID() string   { return m.ID }
func (m *Meta) secretHash() []byte { return nil }
func (m *Meta) meta() *Meta        { return m }

// described is a value with a Meta; T is the type behind it.
type described[T any] interface {
	*T
	value
	meta() *Meta
}

// find returns the entity of a kind with that id, shared and read-only; nil unless it is Present.
func find[P described[T], T any](c *Control, k kind, id string) (P, Presence) {
	e := c.view.Load().sets[k].find(id)
	switch {
	case e == nil:
		return nil, Unknown
	case e.packed == nil:
		return nil, Deleted
	default:
		return c.codec.value(e).(P), Present
	}
}

// list returns at most limit entities of an account that keep agrees to (nil = all) and that were created before
// the one with beforeSeq (0 = from the newest), the newest first, and whether there are more. It walks over all
// of the kind.
func list[P described[T], T any](c *Control, k kind, account string, beforeSeq int64, limit int, keep func(P) bool) (page []P, more bool) {
	before := uint64(beforeSeq)
	if beforeSeq <= 0 {
		before = math.MaxUint64
	}
	for e := range c.view.Load().sets[k].bySeq.below(before) {
		v := c.codec.value(e).(P)
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

// add writes a new entity, which must have an id; account and times are filled in where they are missing.
// ErrConflict means that there is one with this id: of several writers one wins, the same on every node.
func add[P described[T], T any](ctx context.Context, c *Control, k kind, v P) (P, error) {
	if err := c.running(ctx); err != nil {
		return nil, err
	}
	filled := *v
	m := P(&filled).meta()
	if m.Account == "" {
		m.Account = c.Account().ID
	}
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
	c.courtesy(ctx, res)
	return c.codec.value(res.entity).(P), nil
}

// update changes an entity. alter gets a deep copy, which it may alter freely; it is called again with a newer one
// when another writer came first, and its error is returned as it is. What identifies the entity stays. When
// nothing is altered nothing is written.
func update[P described[T], T any](ctx context.Context, c *Control, k kind, id string, alter func(P) error) (P, error) {
	v, told, err := quietly(ctx, c, k, id, alter)
	if err == nil {
		told()
	}
	return v, err
}

// quietly is update without the courtesy of waiting a moment for the other nodes; told is that.
func quietly[P described[T], T any](ctx context.Context, c *Control, k kind, id string, alter func(P) error) (v P, told func(), err error) {
	if err := c.running(ctx); err != nil {
		return nil, nil, err
	}
	before, after, res, err := c.change(ctx, k, id, func(old value) (value, error) { return altered(c, k, old.(P), alter) })
	if err != nil {
		return nil, nil, err
	}
	return c.codec.value(after).(P), func() {
		if before != after {
			c.courtesy(ctx, res)
		}
	}, nil
}

// altered returns the entity after alter, or nil when it is the same.
func altered[P described[T], T any](c *Control, k kind, old P, alter func(P) error) (value, error) {
	was, err := json.Marshal(old)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", k, old.entityID(), err)
	}
	again, err := decodeValue(k, was)
	if err != nil {
		return nil, err
	}
	v, had := again.(P), *old.meta()
	v.meta().Rev, v.meta().Seq = had.Rev, had.Seq
	if err := alter(v); err != nil {
		return nil, err
	}
	*v.meta() = had
	is, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", k, old.entityID(), err)
	}
	if bytes.Equal(was, is) {
		return nil, nil
	}
	v.meta().UpdatedAt = c.now().UTC()
	return v, nil
}

// forget removes what has ended by age, without a tombstone. Nothing to remove is no error.
func (c *Control) forget(ctx context.Context, k kind, id string) error {
	if err := c.running(ctx); err != nil {
		return err
	}
	s := c.view.Load().state
	if s.sets[k].living(id) == nil {
		return nil
	}
	_, err := c.write(ctx, c.newRecord(s, k, id, preExists, opForget), nil)
	if err != nil {
		return fmt.Errorf("forget %s %s: %w", k, id, err)
	}
	return nil
}

// forgetAt is forget for what nobody has changed since the revision; otherwise it does nothing.
func (c *Control) forgetAt(ctx context.Context, k kind, id string, rev int64) error {
	if err := c.running(ctx); err != nil {
		return err
	}
	r := c.newRecord(c.view.Load().state, k, id, preRev, opForget)
	r.Rev = rev
	if _, err := c.write(ctx, r, nil); err != nil {
		return fmt.Errorf("forget %s %s: %w", k, id, err)
	}
	return nil
}
