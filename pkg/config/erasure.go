package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// erasures reads and changes the erased payloads.
type erasures struct{ *core }

// Erasure says that the payload of an event was erased. Its id is the event's, its creation the moment. It is part of
// the configuration because that is what every node knows at once and what outlives the log and the store: whoever
// reads, delivers or stores the event asks for it, so that no record that is read again can bring the payload back.
type Erasure struct {
	Meta
	// Gone is when the rows of the store were seen without the payload for good; zero: not yet.
	StoreErasedAt time.Time `json:"gone,omitzero"`
}

// MaxErasures bounds the erasures that are remembered, about 200 bytes each. Each is forgotten when its event ends.
const MaxErasures = 100_000

// ErrTooManyErasures means that as many payloads were erased as can be remembered.
var ErrTooManyErasures = errors.New("too many payloads were erased within the retention")

// ErasePayload erases the payload of an event and returns when it did: the first time counts. When it returns nil no
// node shows or sends the payload any more.
func (c erasures) ErasePayload(ctx context.Context, event id.ID) (time.Time, error) {
	if err := c.WaitReady(ctx); err != nil {
		return time.Time{}, err
	}
	name := event.Text(id.Event)
	res := c.CurrentPosition()
	if e, _ := findEntity[*Erasure](c.core, kindErasure, name); e == nil {
		if c.View().Len(kindErasure) >= MaxErasures {
			return time.Time{}, ErrTooManyErasures
		}
		v := &Erasure{Meta: Meta{ID: name, Account: c.Account().ID, CreatedAt: c.now().UTC()}}
		v.UpdatedAt = v.CreatedAt
		var err error
		if res, err = c.create(ctx, kindErasure, v); err != nil && !errors.Is(err, ErrConflict) {
			return time.Time{}, fmt.Errorf("erase the payload of %s: %w", name, err)
		}
		if err != nil { // another call was first, and what it wrote is applied here
			res = c.CurrentPosition()
		}
	}
	// A repeat waits as well: the answer to the first call may have been lost before every node knew.
	if err := c.Barrier(ctx, res); err != nil {
		return time.Time{}, err
	}
	return c.ErasedAt(event), nil
}

// ErasedAt is when the payload of an event was erased; zero when it was not, as far as this node knows.
func (c erasures) ErasedAt(event id.ID) time.Time {
	v := c.View()
	if v.Len(kindErasure) == 0 { // asked for every delivery and every row
		return time.Time{}
	}
	e := v.FindLiving(kindErasure, event.Text(id.Event))
	if e == nil {
		return time.Time{}
	}
	return c.value(e).(*Erasure).CreatedAt
}

// Erased reports whether the payload of an event was erased.
func (c erasures) Erased(event id.ID) bool { return !c.ErasedAt(event).IsZero() }

// UnfinishedErasures returns the erasures of which the store may still have the payload, the newest first.
func (c erasures) UnfinishedErasures() (all []*Erasure) {
	for e := range c.View().NewestFirst(kindErasure, 0) {
		if v := c.value(e).(*Erasure); v.StoreErasedAt.IsZero() {
			all = append(all, v)
		}
	}
	return all
}

// FinishErasure notes that the store does not have the payload any more.
func (c erasures) FinishErasure(ctx context.Context, name string) error {
	_, _, err := updateWithoutWait(ctx, c.core, kindErasure, name, func(e *Erasure) error {
		if e.StoreErasedAt.IsZero() {
			e.StoreErasedAt = c.now().UTC()
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) { // its event has ended meanwhile
		return nil
	}
	return err
}

// erasureEnd is when an erasure may be forgotten: a day after its event can no longer be read. An event is erased
// while it can be read, so that those which were erased first end first, or wait for no longer than the retention.
func (c *core) erasureEnd(v value) time.Time {
	e := v.(*Erasure)
	from := e.CreatedAt
	if event, err := id.Parse(id.Event, e.ID); err == nil {
		from = event.Time()
	}
	return from.AddDate(0, 0, cmp.Or(c.cfg.RetentionDays, maxRetentionDays)+1)
}

// maxRetentionDays is the highest that RELAY_RETENTION_DAYS may be.
const maxRetentionDays = 3650
