package config

import (
	"bytes"
	"context"
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
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// When an erasure is answered, every node knows it. It has the time of the first call, one audit entry, and is removed
// after its event has expired.
func TestErasure(t *testing.T) {
	conf := broker(t)
	var later atomic.Int64 // how far the clock of a is ahead
	a := node(t, conf, Config{Node: "a", RetentionDays: 7}, func(o *options) {
		o.deps.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	b := node(t, conf, Config{Node: "b"})
	ids := id.NewGenerator(nil)
	d := must(ids.New(0))(t)
	other := must(ids.New(0))(t)
	ctx := WithOrigin(t.Context(), Origin{Actor: "key_1"})
	at, err := a.ErasePayload(ctx, d, "")
	if err != nil || at.IsZero() {
		t.Fatal(at, err)
	}
	if !b.Erased(d) || !b.ErasedAt(d).Equal(at) {
		t.Errorf("another node has %v, want %v", b.ErasedAt(d), at)
	}
	if a.Erased(other) || !a.ErasedAt(other).IsZero() {
		t.Error("another event counts as erased")
	}
	for _, n := range []*testNode{a, b} {
		if again, err := n.ErasePayload(ctx, d, ""); err != nil || !again.Equal(at) {
			t.Errorf("again: %v, %v, want %v", again, err, at)
		}
	}
	auditCount := 0
	for _, e := range a.Outbox(audit.Query{Account: a.Account().ID, Limit: 100}) {
		if e.EntityType == "erasure" && e.Action == "erasure.created" && e.Entity == d.Text(id.Event) {
			auditCount++
		}
	}
	if auditCount > 1 {
		t.Errorf("%d audit entries, want 1", auditCount)
	}

	left := func() int { return len(a.UnfinishedErasures()) }
	if n := left(); n != 1 {
		t.Fatalf("%d unfinished", n)
	}
	noError(t, a.FinishErasure(t.Context(), d.Text(id.Event)))
	if n := left(); n != 0 || !a.Erased(d) {
		t.Errorf("%d unfinished after it is finished", n)
	}
	is.OK(t, a.FinishErasure(t.Context(), other.Text(id.Event)), "an erasure that was removed")

	e, _ := entity.Get[Erasure](a, d.Text(id.Event))
	if end := e.EndsAt(a.Core); !end.Equal(d.Time().AddDate(0, 0, 8)) {
		t.Errorf("ends at %v, its event came at %v", end, d.Time())
	}
	if end := e.EndsAt(b.Core); end.Before(d.Time().AddDate(9, 0, 0)) {
		t.Errorf("ends at %v where the retention is not known", end)
	}
	later.Store(int64(8*24*time.Hour + time.Second))
	noError(t, a.sweepOnce(t.Context()))
	if a.Erased(d) {
		t.Error("the erasure is never removed")
	}
}

// An erasure that not every node has confirmed is not answered: one that does not know of it may still send the
// payload. A call that repeats it waits as well.
func TestErasureWaitsForEveryNode(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold kit.Freezer
		a, _ := pair(t, conf, freezable(&cold, conf))
		d := id.NewGenerator(nil).NewUnbounded(0)
		cold.Freeze(t)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := a.ErasePayload(ctx, d, ""); !errors.Is(err, ErrUnavailable) {
				t.Errorf("while a node is frozen: %v", err)
			}
			cancel()
		}
		if _, err := a.ErasePayload(t.Context(), d, ""); err != nil { // the frozen node has lost its lease
			t.Error(err)
		}
	})
}

// testFixture returns a fixture that lives that long, as the API would make it.
func testFixture(t *testing.T, name string, life time.Duration) *Fixture {
	t.Helper()
	content := fixture.Content{
		Body: json.RawMessage(`{"a":"<1>","email":"user1@example.com"}`),
		Redactions: []fixture.Redaction{
			{Pointer: "/email", Reason: "email", Type: "string"}},
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
