package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/fixture"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

// testFixture returns a fixture that lives that long, as the API would make it.
func testFixture(t *testing.T, name string, life time.Duration) *Fixture {
	t.Helper()
	content := fixture.Content{
		Body: json.RawMessage(`{"a":"<1>","email":"user1@example.com"}`),
		Redactions: []fixture.Redaction{
			{Pointer: "/email", Reason: fixture.Email, Type: "string"}},
		Required: []fixture.Required{{Pointer: "/ok", Equals: json.RawMessage("true")}},
	}
	packed := must(content.Pack())(t)
	now := time.Now().UTC()
	return &Fixture{
		Meta: entity.Meta{ID: id.Fixture + name, CreatedAt: now}, Name: name, Event: id.Lowest(now).Text(id.Event),
		Endpoint: "ep_1",
		Type:     "a.b", Method: "POST", Status: 200, Content: packed, Size: len(content.Body), Removed: 1,
		ExpiresAt: now.Add(life), CreatedBy: "key_1",
	}
}

// A fixture that has expired is gone at once, and removed soon, without an audit entry. Others stay, whatever the order
// in which they were created.
func TestExpiredFixturesAreRemoved(t *testing.T) {
	var later atomic.Int64 // how far the clock is ahead
	n := node(t, broker(t), Config{Node: "a"}, func(o *options) {
		o.deps.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	ctx := WithOrigin(t.Context(), Origin{Actor: "key_1"})
	for name, life := range map[string]time.Duration{"short": time.Hour, "long": 90 * time.Hour} {
		must(entity.Create(ctx, n, testFixture(t, name, life)))(t)
	}
	must(entity.Create(ctx, n, testFixture(t, "last", time.Hour)))(t)
	later.Store(int64(2 * time.Hour))
	if f, presence := entity.Get[Fixture](n, "fix_short"); f != nil || presence != entity.Deleted {
		t.Errorf("expired, but %v", presence)
	}
	if all, more := entity.List[Fixture](n, n.Account().ID, 0, 1, nil); len(all) != 1 || all[0].ID != "fix_long" || more {
		t.Errorf("listed: %v, %v", all, more)
	}
	if _, err := entity.Update(ctx, n, "fix_short", func(f *Fixture) error {
		f.ExpiresAt = f.ExpiresAt.Add(24 * time.Hour)
		return nil
	}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an expired fixture was changed: %v", err)
	}
	noError(t, n.sweepOnce(t.Context()))
	is.Equal(t, n.View().Len(entity.KindFixture), 1, "fixtures are left")
	for _, e := range n.Outbox(audit.Query{Account: n.Account().ID, Limit: 100}) {
		if strings.HasPrefix(e.Action, "fixture.") && e.Action != "fixture.created" {
			t.Errorf("audit entry %s", e.Action)
		}
	}
}

// The bytes of fixtures are bounded.
func TestFixturesAreBounded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	n.inject(entity.KindFixture, "bytes", MaxFixturesBytes)
	if _, err := entity.Create(t.Context(), n, testFixture(t, "more", time.Hour)); !errors.Is(err, ErrFixturesFull) {
		t.Errorf("more bytes than the maximum: %v", err)
	}
}

// The largest content fits into an entity.
func TestALargeFixtureFits(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	f := testFixture(t, "large", time.Hour)
	f.Name, f.Content = strings.Repeat("\u2028", fixture.MaxName), bytes.Repeat([]byte("x"), fixture.MaxPacked)
	if _, err := entity.Create(t.Context(), n, f); err != nil {
		t.Error(err)
	}
}
