package config

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

func TestNormalizeEmail(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got, err := NormalizeEmail(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	f("ops@example.com", "ops@example.com")
	f("dev@localhost", "dev@localhost")
	f(" Ops+Relay@Example.COM\n", "ops+relay@example.com")
	f("", "")
	f("ops", "")
	f("ops@", "")
	f("a@b@example.com", "")
	f("ops@example.com, other@example.com", "")
	f("Ops <ops@example.com>", "")
	f("<ops@example.com>", "")
	f(`"o ps"@example.com`, "")
	f("öps@example.com", "")
	f("ops@example.com\r\nBcc: other@example.com", "")
	longest := strings.Repeat("x", 254-len("@example.com")) + "@example.com"
	f(longest, longest)
	f("x"+longest, "")
}

// addUser adds a user.
func addUser(t *testing.T, n *testNode, email string, scope Scope) *User {
	t.Helper()
	_, u, err := n.AddUser(t.Context(), email, scope)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUsers(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a := node(t, conf, Config{Node: "a"})
		b := node(t, conf, Config{Node: "b"})
		addUser(t, a, "first@example.com", ReadWrite)
		token, u, err := a.AddUser(ctx, " Ops@Example.com", ReadWrite)
		if err != nil || !strings.HasPrefix(u.ID, "usr_") || u.Account != a.Account().ID || len(token) != 43 ||
			u.Password != "" || u.Email != "ops@example.com" {
			t.Fatalf("%+v, %v", u, err)
		}
		if hash := entity.HashOf(token); string(u.Link.Hash) != string(hash[:]) ||
			u.Link.Expires.Sub(u.CreatedAt) != 10*time.Minute {
			t.Errorf("%+v", u.Link)
		}
		noError(t, b.Sync(ctx))
		if _, _, err := b.AddUser(ctx, "ops@example.com", Read); !errors.Is(err, ErrConflict) {
			t.Errorf("the same address twice: %v", err)
		}
		if _, _, err := b.ResetUser(ctx, u.ID, u.Rev+1); !errors.Is(err, ErrConflict) {
			t.Errorf("reset of another revision: %v", err)
		}
		again, r, err := b.ResetUser(ctx, u.ID, u.Rev)
		if err != nil || again == token || r.ID != u.ID || r.Epoch == u.Epoch || r.Password != "" {
			t.Errorf("%+v, %v", r, err)
		}
		// When a reset is answered, every node rejects the earlier sessions.
		if _, err := a.SessionUser(u.ID, "s", u.Epoch); !errors.Is(err, ErrSessionEnded) {
			t.Errorf("a session from before the reset: %v", err)
		}
		doc := string(exportOf(t, &testNode{Control: a.Control}))
		if !strings.Contains(doc, "ops@example.com") || strings.Contains(doc, token) || strings.Contains(doc, again) {
			t.Errorf("%s", doc)
		}
		if err := a.RemoveUser(ctx, u.ID); err != nil || len(b.Users()) != 1 {
			t.Errorf("%v, and the other node knows %+v", err, b.Users())
		}
		is.ErrorIs(t, a.RemoveUser(ctx, u.ID), ErrNotFound)
		if _, _, err := a.ResetUser(ctx, u.ID, 0); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		// Added again, it is the same user, whose earlier sessions stay ended.
		if n := addUser(t, a, "ops@example.com", Read); n.ID != u.ID || n.Epoch == u.Epoch || n.Epoch == r.Epoch {
			t.Errorf("%+v", n)
		}
	})
}

func TestInvalidUsersAreRefused(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	f := func(param string, err error) {
		t.Helper()
		if invalid, ok := errors.AsType[*entity.InvalidError](err); !ok || invalid.Param != param {
			t.Errorf("%v, want a fault of %s", err, param)
		}
	}
	_, _, err := n.AddUser(t.Context(), "ops", Read)
	f("email", err)
	_, _, err = n.AddUser(t.Context(), "ops@example.com", "admin")
	f("scope", err)
	_, err = n.SetUserScope(t.Context(), "usr_nope", "", 0)
	f("scope", err)
	if _, err := n.SetUserScope(t.Context(), "usr_nope", Read, 0); !errors.Is(err, ErrNotFound) || len(n.Users()) > 0 {
		t.Errorf("%v, %+v", err, n.Users())
	}
}

// The first user has the scope read_write, whatever was asked for, and the last user with it keeps it.
func TestSomebodyMayAlwaysWrite(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	first := addUser(t, n, "first@example.com", Read)
	second := addUser(t, n, "second@example.com", Read)
	if first.Scope != ReadWrite || second.Scope != Read {
		t.Fatalf("%s, %s", first.Scope, second.Scope)
	}
	if _, err := n.SetUserScope(ctx, first.ID, Read, 0); !errors.Is(err, ErrLastWriter) {
		t.Errorf("demoting the last writer: %v", err)
	}
	is.ErrorIs(t, n.RemoveUser(ctx, first.ID), ErrLastWriter, "removing the last writer")
	if u, err := n.SetUserScope(ctx, second.ID, ReadWrite, 0); err != nil || u.Scope != ReadWrite {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err := n.SetUserScope(ctx, first.ID, Read, first.Rev+1); !errors.Is(err, ErrConflict) {
		t.Errorf("with another revision: %v", err)
	}
	if u, err := n.SetUserScope(ctx, first.ID, Read, first.Rev); err != nil || u.Scope != Read {
		t.Errorf("%+v, %v", u, err)
	}
	is.OK(t, n.RemoveUser(ctx, first.ID))
	if err := n.RemoveUser(ctx, second.ID); !errors.Is(err, ErrLastWriter) || len(n.Users()) != 1 {
		t.Errorf("removing the last user: %v", err)
	}
}

// racing starts two nodes, and returns a function that makes calls at once: each sees the configuration without the
// record of the other.
func racing(t *testing.T, conf stream.Config) (a, b *testNode, atOnce func(calls ...func())) {
	t.Helper()
	var cold kit.Freezer
	conf = freezable(&cold, conf)
	a, b = pair(t, conf, conf)
	return a, b, func(calls ...func()) {
		cold.Freeze(t)
		var wg sync.WaitGroup
		for _, call := range calls {
			wg.Go(call)
		}
		synctest.Wait() // until all wait for the log
		cold.Thaw()
		wg.Wait()
	}
}

// Two nodes that demote or remove the last two writers at once leave one.
func TestSomebodyMayAlwaysWriteWhicheverNodesRemove(t *testing.T) {
	remove := func(ctx context.Context, n *testNode, id string) error { return n.RemoveUser(ctx, id) }
	demote := func(ctx context.Context, n *testNode, id string) error {
		_, err := n.SetUserScope(ctx, id, Read, 0)
		return err
	}
	for name, take := range map[string][2]func(context.Context, *testNode, string) error{
		"remove": {remove, remove}, "demote": {demote, demote}, "both": {remove, demote},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, conf stream.Config) {
				a, b, atOnce := racing(t, conf)
				ids := [2]string{addUser(t, a, "1@example.com", ReadWrite).ID, addUser(t, a, "2@example.com", ReadWrite).ID}
				var errs [2]error
				atOnce(func() { errs[0] = take[0](t.Context(), a, ids[0]) },
					func() { errs[1] = take[1](t.Context(), b, ids[1]) })
				is.ErrorIs(t, errors.Join(errs[:]...), ErrLastWriter, errs)
				for _, n := range []*testNode{a, b} {
					if !n.hasWriter("") {
						t.Errorf("nobody may write: %+v", n.Users())
					}
				}
			})
		})
	}
}

// The number of users is bounded.
func TestNumberOfUsersIsBounded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	n.inject(entity.KindUser, "len", MaxUsers-1)
	addUser(t, n, "last@example.com", ReadWrite)
	if _, _, err := n.AddUser(t.Context(), "more@example.com", Read); !errors.Is(err, ErrTooManyUsers) {
		t.Error(err)
	}
}

// A user whom an earlier version stored has the scope read_write, and keeps the member that this version does not use.
func TestUsersOfEarlierVersions(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	id := UserID("ops@example.com")
	raw := `{"id":"` + id + `","account":"` + n.Account().ID + `","created_at":"2026-01-01T00:00:00Z",` +
		`"updated_at":"2026-01-01T00:00:00Z","email":"ops@example.com","sessions_since":"2026-01-02T00:00:00Z"}`
	must(n.Create(t.Context(), entity.KindUser, id, []byte(raw)))(t)
	if u, err := n.SessionUser(id, "s", 0); err != nil || u.Scope != ReadWrite {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, _, err := n.ResetUser(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	after := n.Value(n.View().FindLiving(entity.KindUser, id))
	for _, want := range []string{`"sessions_since":"2026-01-02T00:00:00Z"`, `"scope":"read_write"`, `"epoch":1`} {
		if !bytes.Contains(after, []byte(want)) {
			t.Errorf("%s lacks %s", after, want)
		}
	}
}

// The first user is created from the environment when there is none, and only once when nodes start together.
func TestFirstUser(t *testing.T) {
	conf := broker(t)
	admin := Config{Node: "a", AdminEmail: " Ops@Example.com", AdminPassword: "planted-password"}
	a := node(t, conf, admin)
	users := a.Users()
	if len(users) != 1 || users[0].Email != "ops@example.com" || !users[0].FromEnvironment ||
		users[0].Scope != ReadWrite || users[0].Epoch == 0 || users[0].CreatedAt.IsZero() {
		t.Fatalf("%+v", users)
	}
	if u, err := a.SignIn(t.Context(), "ops@example.com", "planted-password"); err != nil || u.ID != users[0].ID {
		t.Errorf("%+v, %v", u, err)
	}
	is.Lacks(t, string(exportOf(t, a)), "planted")
	admin.Node, admin.AdminPassword = "b", "another-password"
	noError(t, node(t, conf, admin).ensureAdmin(t.Context()))
	admin.Node, admin.AdminEmail = "c", "other@example.com"
	c := node(t, conf, admin)
	if again := c.Users(); len(again) != 1 || again[0].Password != users[0].Password {
		t.Errorf("%+v", again)
	}
}

// The user of the environment is created although another user exists only if that is the user of the first link, who
// has not used it.
func TestAdminBesideOthers(t *testing.T) {
	for name, c := range map[string]struct {
		user User
		want int
	}{
		"a link that was not used":  {User{FromEnvironment: true}, 2},
		"a link that was used":      {User{FromEnvironment: true, LastSignInAt: time.Unix(1, 0)}, 1},
		"a password":                {User{FromEnvironment: true, Password: "x"}, 1},
		"a user whom one has added": {User{}, 1},
	} {
		n := node(t, broker(t), Config{Node: "a"})
		cheapHashes(n)
		c.user.Meta, c.user.Email, c.user.Scope = entity.Meta{ID: UserID("a@example.com")}, "a@example.com", ReadWrite
		must(entity.Create(t.Context(), n, &c.user))(t)
		n.cfg.AdminEmail, n.cfg.AdminPassword = "ops@example.com", "planted-password"
		if err := n.ensureAdmin(t.Context()); err != nil || len(n.Users()) != c.want {
			t.Errorf("%s: %d users, want %d: %v", name, len(n.Users()), c.want, err)
		}
	}
}

// The last user who may make changes has no sessions after it is restored.
func TestRestoredUserHasNoSessions(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	u := addUser(t, n, "ops@example.com", ReadWrite)
	if same, err := n.SetUserScope(t.Context(), u.ID, ReadWrite, 0); err != nil || same.Scope != ReadWrite {
		t.Errorf("%+v, %v", same, err)
	}
	must(n.Delete(t.Context(), entity.KindUser, u.ID, 0))(t)
	if err := (callers{n.core}).restoreUser(t.Context(), u); !errors.Is(err, ErrLastWriter) || len(n.Users()) != 1 {
		t.Errorf("%v, users %v", err, n.Users())
	}
	if _, err := n.SessionUser(u.ID, "s", u.Epoch); !errors.Is(err, ErrSessionEnded) {
		t.Errorf("a session from before: %v", err)
	}
}

// While nobody has a password, each call of FirstLink returns a new link for the first user, and the one before no
// longer works.
func TestFirstLink(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	link := func() string {
		t.Helper()
		token := must(n.FirstLink(ctx, "dev@localhost"))(t)
		return token
	}
	unused := link()
	token := link()
	if _, err := n.RedeemLink(ctx, unused); !errors.Is(err, ErrLink) {
		t.Errorf("an earlier link: %v", err)
	}
	u, err := n.RedeemLink(ctx, token)
	if err != nil || u.Email != "dev@localhost" || u.Scope != ReadWrite || u.Epoch == 0 || len(n.Users()) != 1 {
		t.Fatalf("%+v, %v", u, err)
	}
	token = link() // redeemed, but no password chosen
	if _, err := n.SessionUser(u.ID, "s", u.Epoch); err != nil {
		t.Errorf("the session of the link before: %v", err)
	}
	if u, err = n.RedeemLink(ctx, token); err != nil {
		t.Fatal(err)
	}
	must(n.SetPassword(ctx, u.ID, "a long password"))(t)
	is.Equal(t, link(), "", "a link although somebody has a password")
	other := node(t, broker(t), Config{Node: "a"})
	must(other.FirstLink(ctx, "dev@localhost"))(t)
	other.cfg.AdminEmail, other.cfg.AdminPassword = "ops@example.com", goodPassword // set at a later start
	for range 2 {
		if err := other.ensureAdmin(ctx); err != nil || len(other.Users()) != 2 {
			t.Errorf("the user of the environment, beside one who was never here: %v, %+v", err, other.Users())
		}
	}
	if token, err := other.FirstLink(ctx, "dev@localhost"); token != "" || err != nil {
		t.Errorf("somebody has a password: %q, %v", token, err)
	}
	n.cfg.AdminEmail, n.cfg.AdminPassword = "ops@example.com", goodPassword
	if err := n.ensureAdmin(ctx); err != nil || len(n.Users()) != 1 {
		t.Errorf("the user of the environment, beside one with a password: %v, %+v", err, n.Users())
	}
	other = node(t, broker(t), Config{Node: "a"})
	addUser(t, other, "ops@example.com", ReadWrite)
	if token, err := other.FirstLink(ctx, "dev@localhost"); token != "" || err != nil || len(other.Users()) != 1 {
		t.Errorf("somebody else is there: %q, %v", token, err)
	}
}

// A member that only restricts a user is exempt from the bounds, and nothing else is.
func TestOnlyRestrictionsOfUsersAreExempt(t *testing.T) {
	base := User{Email: "ops@example.com", Scope: ReadWrite, Password: "hash", Epoch: 7}
	f := func(what string, want bool, alter func(*User)) {
		t.Helper()
		after := base
		alter(&after)
		is.Equal(t, base.OnlyRestricts(&after), want, what)
	}
	f("sessions ended", true, func(u *User) { u.Epoch++ })
	f("sessions revived", false, func(u *User) { u.Epoch-- })
	f("reset", true, func(u *User) { u.Password, u.Link, u.Epoch = "", &Link{}, 8 })
	f("a link beside the password", false, func(u *User) { u.Link = &Link{} })
	f("another password", false, func(u *User) { u.Password = "other" })
	f("demoted", true, func(u *User) { u.Scope = Read })
	f("a sign-in", false, func(u *User) { u.LastSignInAt = time.Now() })
	base.Scope = Read
	f("promoted", false, func(u *User) { u.Scope = ReadWrite })
}
