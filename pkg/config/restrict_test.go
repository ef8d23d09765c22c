package config

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
)

// TestRestrictionWaitsForEveryNode: changes that stop something wait for a frozen node, like deletions; others do not.
func TestRestrictionWaitsForEveryNode(t *testing.T) {
	e := func(name string, strict bool, change func(*Endpoint)) {
		testRestrictionWaits(t, name, strict, func(n *testNode) *Endpoint {
			e := endpoint(n.Keyring)
			e.Destinations = append(e.Destinations, e.Destinations[0])
			e.Destinations[1].ID = "dst_second"
			return e
		}, change)
	}
	e("rename", false, func(e *Endpoint) { e.Name = "x" })
	e("add a destination", false, func(e *Endpoint) {
		e.Destinations = append(e.Destinations, Destination{ID: "dst_third", URL: "https://example.com"})
	})
	e("disable the endpoint", true, func(e *Endpoint) { e.Enabled = false })
	e("disable a destination", true, func(e *Endpoint) { e.Destinations[1].Enabled = false })
	e("pause the endpoint", true, func(e *Endpoint) { e.Paused = true })
	e("pause a destination", true, func(e *Endpoint) { e.Destinations[1].Paused = true })
	e("purge a destination", true, func(e *Endpoint) { e.Destinations[1].PurgeBefore = time.Now() })
	e("remove a destination", true, func(e *Endpoint) { e.Destinations = e.Destinations[:1] })
	e("delete an endpoint", true, nil)

	newDrain := func(n *testNode) *leak.Drain { return drain(n.Keyring, "one", "token") }
	testRestrictionWaits(t, "rename a drain", false, newDrain, func(d *leak.Drain) { d.Name = "x" })
	testRestrictionWaits(t, "pause a drain", true, newDrain, func(d *leak.Drain) { d.Paused = true })
	testRestrictionWaits(t, "sign a drain", true, newDrain, func(d *leak.Drain) { d.Sealed.SigningSecret = "test:x" })
	testRestrictionWaits(t, "delete a drain", true, newDrain, nil)
	newDSN := func(n *testNode) *leak.DSN { return dsn(n.Keyring, "one", "key") }
	testRestrictionWaits(t, "rename a DSN", true, newDSN, func(d *leak.DSN) { d.Name = "x" })
	testRestrictionWaits(t, "delete a DSN", true, newDSN, nil)
	aDomain := func(*testNode) *leak.Domain { return newDomain("1", "a.example", time.Time{}) }
	testRestrictionWaits(t, "check a domain", false, aDomain, func(d *leak.Domain) { d.Checked.Seen = "x" })
	testRestrictionWaits(t, "delete a domain", true, aDomain, nil)
	aUser := func(*testNode) *User { return newUser("a@example.com", ReadWrite) }
	testRestrictionWaits(t, "record a sign-in", false, aUser, func(u *User) { u.LastSignInAt = time.Now() })
	testRestrictionWaits(t, "let a user only read", true, aUser, func(u *User) { u.Scope = Read })
	aFixture := func(*testNode) *Fixture { return testFixture(t, "one", time.Hour) }
	testRestrictionWaits(t, "rename a fixture", false, aFixture, func(f *Fixture) { f.Name = "x" })
	testRestrictionWaits(t, "delete a fixture", false, aFixture, nil)
}

// testRestrictionWaits changes a value of a kind, or deletes it if change is nil, while another node is frozen.
func testRestrictionWaits[T any, P entity.Pointer[T]](
	t *testing.T, name string, strict bool, create func(*testNode) P, change func(P)) {
	t.Run(name, func(t *testing.T) {
		bubble(t, func(t *testing.T, conf stream.Config) {
			var cold kit.Freezer
			a, _ := pair(t, conf, freezable(&cold, conf))
			v, err := entity.Create(t.Context(), a, create(a))
			if err != nil {
				t.Fatal(err)
			}
			cold.Freeze(t)
			began := time.Now()
			if change == nil {
				err = entity.Delete[T, P](t.Context(), a, entity.IDOf(v))
			} else {
				_, err = entity.Update(t.Context(), a, entity.IDOf(v), func(v P) error { change(v); return nil })
			}
			if took := time.Since(began); err != nil || (took > time.Second) != strict {
				t.Fatalf("took %s, %v", took, err)
			}
		})
	})
}
