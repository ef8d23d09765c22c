package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/fixture"
	"github.com/eventrelay/relay/pkg/id"
)

// fixtures has the methods for test fixtures.
type fixtures struct{ *core }

// Fixture is a sanitised copy of an event with what its answer must be. It is removed when it expires, and is
// independent of the event, whose payload may end earlier.
type Fixture struct {
	Meta
	Name     string `json:"name"`
	Event    string `json:"event"`    // evt_…
	Endpoint string `json:"endpoint"` // of the event
	Type     string `json:"type,omitempty"`
	Method   string `json:"method"`
	Status   int    `json:"expected_status"`
	// Content is a packed fixture.Content. It is compressed, so that a body of fixture.MaxBody fits into an entity.
	Content []byte `json:"content"`
	Size    int    `json:"size"`    // bytes of the body
	Removed int    `json:"removed"` // number of redactions that are not kept
	// Edited says that the body is not the sanitised event, but what a user gave.
	Edited    bool      `json:"edited,omitempty"`
	ExpiresAt time.Time `json:"expires"`
	// Version counts the changes, from 1.
	Version   int    `json:"version"`
	CreatedBy string `json:"created_by"` // key_… or usr_…
}

// Bounds of fixtures.
const (
	// MaxFixtures is the maximum number of fixtures that have not expired.
	MaxFixtures = 1000
	// MaxFixturesBytes is the room for fixtures, compressed, in bytes.
	MaxFixturesBytes = 32 << 20
)

// Errors of the bounds.
var (
	// ErrTooManyFixtures means that there are MaxFixtures fixtures.
	ErrTooManyFixtures = fmt.Errorf("the maximum of %d fixtures is reached", MaxFixtures)
	// ErrFixturesFull means that the fixtures fill MaxFixturesBytes.
	ErrFixturesFull = fmt.Errorf("the room of %d MiB for fixtures is full", MaxFixturesBytes>>20)
)

// hasEnded reports whether a fixture has expired, or the payload of its event was erased: whoever asks for that means
// its copies too.
func (c *core) hasEnded(f *Fixture) bool {
	ev, err := id.Parse(id.Event, f.Event)
	return !f.ExpiresAt.After(c.now()) || err == nil && !c.erasedAt(ev).IsZero()
}

// Fixture returns the fixture with that id; nil unless it is Present. One that has expired, or whose event was erased,
// is Deleted.
func (c fixtures) Fixture(id string) (*Fixture, Presence) {
	f, presence := findEntity[*Fixture](c.core, kindFixture, id)
	if f != nil && c.hasEnded(f) {
		return nil, Deleted
	}
	return f, presence
}

// Fixtures returns at most limit fixtures of an account that have not expired, newest first, created before the one
// with beforeSeq (0 = from the newest), and whether there are more.
func (c fixtures) Fixtures(account string, beforeSeq int64, limit int) ([]*Fixture, bool) {
	return listEntities(c.core, kindFixture, account, beforeSeq, limit, func(f *Fixture) bool {
		return !c.hasEnded(f)
	})
}

// CreateFixture creates a fixture. Account, times and version are set where they are empty. It returns ErrConflict when
// the id exists.
func (c fixtures) CreateFixture(ctx context.Context, f *Fixture) (*Fixture, error) {
	filled := *f
	filled.Version = 1
	return addEntity(ctx, c.core, kindFixture, &filled)
}

// UpdateFixture changes a fixture that has not expired; see updateEntity.
func (c fixtures) UpdateFixture(ctx context.Context, id string, change func(*Fixture) error) (*Fixture, error) {
	before, res, err := c.change(ctx, kindFixture, id, isExempt, func(old value) (value, error) {
		was := old.(*Fixture)
		if c.hasEnded(was) {
			return nil, fmt.Errorf("change %s, which has expired or whose event was erased: %w", id, ErrNotFound)
		}
		next, err := changedEntity(c.core, kindFixture, was, func(f *Fixture) error {
			err := change(f)
			f.Version = was.Version
			return err
		})
		if f, changed := next.(*Fixture); changed && err == nil {
			f.Version++
		}
		return next, err
	})
	if err != nil {
		return nil, err
	}
	if res.Entity != before {
		c.WaitForPeers(ctx, res)
	}
	return c.value(res.Entity).(*Fixture), nil
}

// DeleteFixture deletes a fixture.
func (c fixtures) DeleteFixture(ctx context.Context, id string) error {
	res, err := c.Delete(ctx, kindFixture, id, 0)
	if err == nil {
		c.WaitForPeers(ctx, res)
	}
	return err
}

// sweepFixtures removes the fixtures that have expired, or whose events were erased.
func (c *core) sweepFixtures(ctx context.Context) error {
	for e := range c.View().NewestFirst(kindFixture, 0) {
		if !c.hasEnded(c.value(e).(*Fixture)) {
			continue
		}
		if err := c.ForgetIfUnchanged(ctx, kindFixture, e.ID, e.Rev); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fixture) validate() error {
	content, err := fixture.Unpack(f.Content)
	if err != nil {
		return err
	}
	var prefix error
	if _, err := id.Parse(id.Event, f.Event); err != nil {
		prefix = errors.New("event is not an event's id")
	}
	expect := fixture.Expect{Status: f.Status, Required: content.Required}
	return errors.Join(prefix, fixture.CheckName(f.Name), fixture.CheckMethod(f.Method), fixture.CheckBody(content.Body),
		expect.Check(), requireRange("size", f.Size, len(content.Body), len(content.Body)),
		requireRange("redactions", len(content.Redactions), 0, 2*fixture.MaxRedactions),
		requireRange("version", f.Version, 1, 1<<53))
}
