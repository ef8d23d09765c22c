package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/fixture"
	"github.com/eventrelay/relay/pkg/id"
)

// Fixture is a sanitised copy of an event with what its answer must be. It is removed when it expires, and is
// independent of the event, whose payload may end earlier.
type Fixture struct {
	entity.Meta
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

// ErrFixturesFull means that the fixtures fill MaxFixturesBytes.
var ErrFixturesFull = fmt.Errorf("the room of %d MiB for fixtures is full", MaxFixturesBytes>>20)

// EndsAt: at once when the payload of its event was erased, because whoever asks for that means its copies too.
func (f *Fixture) EndsAt(c *entity.Core) time.Time {
	if ev, err := id.Parse(id.Event, f.Event); err == nil && !erasedAt(c, ev).IsZero() {
		return time.Time{}
	}
	return f.ExpiresAt
}

// CreateFixture creates a fixture; see Create.
func (c endpoints) CreateFixture(ctx context.Context, f *Fixture) (*Fixture, error) {
	return entity.Create(ctx, c, f)
}

func (f *Fixture) ChangeCount() *int { return &f.Version }

// Restricts: no node acts on a fixture.
func (f *Fixture) Restricts(entity.Value) bool { return false }

func (f *Fixture) Validate() error {
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
		expect.Check(), require.Range("size", f.Size, len(content.Body), len(content.Body)),
		require.Range("redactions", len(content.Redactions), 0, 2*fixture.MaxRedactions),
		require.Range("version", f.Version, 1, 1<<53))
}
