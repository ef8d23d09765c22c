package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config/document"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// cheapHashes replaces argon2id on nodes, and returns the number of hashes that they have computed.
func cheapHashes(nodes ...*testNode) *atomic.Int64 {
	var n atomic.Int64
	for _, node := range nodes {
		node.passwords.Sum = func(password, salt []byte, _, _ uint32, _ uint8, length uint32) []byte {
			n.Add(1)
			return document.MAC(salt, password)[:length]
		}
	}
	return &n
}

// withPassword adds a user who has chosen a password.
func withPassword(t *testing.T, n *testNode, email, password string) *User {
	t.Helper()
	token, _, err := n.AddUser(t.Context(), email, ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	u, err := n.RedeemLink(t.Context(), token)
	if err == nil {
		u, err = n.SetPassword(t.Context(), u.ID, password)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

const goodPassword = "a good password"

func TestSignIn(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		hashes := cheapHashes(a, b)
		u := withPassword(t, a, "ops@example.com", goodPassword)
		time.Sleep(2 * signInPrecision)
		before := b.View().Sequence()
		signedIn, err := b.SignIn(ctx, " OPS@example.com ", goodPassword)
		if err != nil || signedIn.ID != u.ID || signedIn.Epoch != u.Epoch || time.Since(signedIn.LastSignInAt) > time.Second {
			t.Fatalf("%+v, %v", signedIn, err)
		}
		is.Equal(t, b.View().Sequence()-before, 1, "a sign-in wrote … records")
		if again, err := b.SignIn(ctx, "ops@example.com", goodPassword); err != nil ||
			again.LastSignInAt != signedIn.LastSignInAt || b.View().Sequence()-before != 1 {
			t.Errorf("a second sign-in within the minute wrote a record: %+v, %v", again, err)
		}
		if got, err := a.SessionUser(u.ID, "s", signedIn.Epoch); err != nil || got.ID != u.ID {
			t.Errorf("its session: %+v, %v", got, err)
		}
		addUser(t, a, "link@example.com", Read)
		noError(t, b.Sync(ctx))
		// Every failure takes one hash, whether or not the user exists: the time does not tell.
		f := func(email, password string, want int64) {
			t.Helper()
			was := hashes.Load()
			if u, err := b.SignIn(ctx, email, password); !errors.Is(err, ErrSignIn) || u != nil {
				t.Errorf("%s: %+v, %v", email, u, err)
			}
			is.Equal(t, hashes.Load()-was, want, "%s: hashes", email)
		}
		f("ops@example.com", goodPassword+"x", 1)
		f("ops@example.com", "", 1)
		f("unknown@example.com", goodPassword, 1)
		f("no address", goodPassword, 1)
		f("link@example.com", "", 1)
		f("ops@example.com", strings.Repeat("x", MaxPassword+1), 0)
		f("unknown@example.com", strings.Repeat("x", MaxPassword+1), 0)
	})
}

// Whoever knows the password may replace it. All sessions end, on every node, and nothing happens with a wrong one.
func TestChangePassword(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		hashes := cheapHashes(a, b)
		u := withPassword(t, a, "ops@example.com", goodPassword)
		for _, wrong := range []string{"", goodPassword + "x", strings.Repeat("x", MaxPassword+1)} {
			if _, err := a.ChangePassword(ctx, u.ID, wrong, "another password"); !errors.Is(err, ErrSignIn) {
				t.Errorf("with a wrong password: %v", err)
			}
		}
		before := hashes.Load()
		if _, err := a.ChangePassword(ctx, u.ID, goodPassword, "short"); !errors.As(err, new(*entity.InvalidError)) {
			t.Errorf("a short password: %v", err)
		}
		is.Equal(t, hashes.Load(), before, "a password that is too short costs a hash")
		if _, err := b.SessionUser(u.ID, "s", u.Epoch); err != nil {
			t.Errorf("the session ended by a refused change: %v", err)
		}
		changed := must(a.ChangePassword(ctx, u.ID, goodPassword, "another password"))(t)
		if _, err := b.SessionUser(u.ID, "s", u.Epoch); !errors.Is(err, ErrSessionEnded) {
			t.Errorf("a session from before: %v", err)
		}
		if _, err := b.SessionUser(u.ID, "s", changed.Epoch); err != nil {
			t.Errorf("the new session: %v", err)
		}
		if _, err := b.SignIn(ctx, u.Email, goodPassword); !errors.Is(err, ErrSignIn) {
			t.Errorf("the old password: %v", err)
		}
		if _, err := b.SignIn(ctx, u.Email, "another password"); err != nil {
			t.Error(err)
		}
	})
}

// A password that changes while it is verified signs nobody in, and is not replaced.
func TestSignInWithAPasswordThatChanges(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	cheapHashes(n)
	u := withPassword(t, n, "ops@example.com", goodPassword)
	addUser(t, n, "other@example.com", ReadWrite)
	sum := n.passwords.Sum
	signIn := func() error {
		_, err := n.SignIn(t.Context(), "ops@example.com", goodPassword)
		return err
	}
	during := func(verify, change func() error) error {
		n.passwords.Sum = func(password, salt []byte, passes, memory uint32, threads uint8, length uint32) []byte {
			n.passwords.Sum = sum
			is.OK(t, change())
			return sum(password, salt, passes, memory, threads, length)
		}
		return verify()
	}
	reset := func() error {
		_, _, err := n.ResetUser(t.Context(), u.ID, 0)
		return err
	}
	err := during(signIn, reset)
	is.ErrorIs(t, err, ErrSignIn, "reset")
	noError(t, n.RemoveUser(t.Context(), u.ID))
	withPassword(t, n, "ops@example.com", goodPassword)
	is.ErrorIs(t, during(signIn, func() error { return n.RemoveUser(t.Context(), u.ID) }), ErrSignIn, "removed")
	withPassword(t, n, "ops@example.com", goodPassword)
	err = during(func() error {
		_, err := n.ChangePassword(t.Context(), u.ID, goodPassword, "another password")
		return err
	}, reset)
	is.ErrorIs(t, err, ErrConflict, "reset while it is changed")
}

// A sign-in that cannot be recorded because the configuration is full succeeds.
func TestSignInWhileTheConfigurationIsFull(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	cheapHashes(n)
	u := withPassword(t, n, "ops@example.com", goodPassword)
	_, _, err := n.Replace(t.Context(), entity.KindUser, u.ID, func(old entity.Value) (entity.Value, error) {
		never := *old.(*User)
		never.LastSignInAt = time.Time{}
		return &never, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.inject(entity.KindAlertSettings, "bytes", conflog.MaxStateBytes)
	if got, err := n.SignIn(t.Context(), "ops@example.com", goodPassword); err != nil || got.ID != u.ID ||
		!got.LastSignInAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRedeemLink(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b, atOnce := racing(t, conf)
		cheapHashes(a, b)
		token, added, err := a.AddUser(ctx, "ops@example.com", ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{"", "x", token + "x", token[:42]} {
			if u, err := b.RedeemLink(ctx, wrong); !errors.Is(err, ErrLink) || u != nil {
				t.Errorf("%q: %+v, %v", wrong, u, err)
			}
		}
		if _, err := a.SetPassword(ctx, added.ID, goodPassword); !errors.Is(err, ErrNoPasswordChoice) {
			t.Errorf("a password before the link was used: %v", err)
		}
		// Two nodes redeem it at once: one wins.
		var users [2]*User
		var errs [2]error
		atOnce(func() { users[0], errs[0] = a.RedeemLink(ctx, token) },
			func() { users[1], errs[1] = b.RedeemLink(ctx, token) })
		u := users[0]
		if u == nil {
			u = users[1]
		}
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), ErrLink) || !u.ChoosePassword ||
			u.Link != nil || u.Epoch != added.Epoch || u.LastSignInAt.IsZero() {
			t.Fatalf("%+v, %v", users, errs)
		}
		for _, n := range []*testNode{a, b} {
			if _, err := n.RedeemLink(ctx, token); !errors.Is(err, ErrLink) {
				t.Errorf("once more: %v", err)
			}
		}
		// The password ends the sessions from before it, and may be chosen once.
		for _, wrong := range []string{"", "eleven byte", strings.Repeat("x", MaxPassword+1)} {
			if _, err := a.SetPassword(ctx, u.ID, wrong); !errors.As(err, new(*entity.InvalidError)) {
				t.Errorf("a password of %d bytes: %v", len(wrong), err)
			}
		}
		set, err := a.SetPassword(ctx, u.ID, goodPassword)
		if err != nil || set.ChoosePassword || set.Epoch == u.Epoch {
			t.Fatalf("%+v, %v", set, err)
		}
		if _, err := b.SessionUser(u.ID, "s", u.Epoch); !errors.Is(err, ErrSessionEnded) {
			t.Errorf("a session from before the password: %v", err)
		}
		if _, err := b.SessionUser(u.ID, "s", set.Epoch); err != nil {
			t.Error(err)
		}
		if _, err := a.SetPassword(ctx, u.ID, "another password"); !errors.Is(err, ErrNoPasswordChoice) {
			t.Errorf("a second password: %v", err)
		}
		if _, err := b.SignIn(ctx, "ops@example.com", goodPassword); err != nil {
			t.Error(err)
		}
		if _, err := a.SetPassword(ctx, "usr_nope", goodPassword); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestLinkExpires(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		token := must(n.FirstLink(t.Context(), "dev@localhost"))(t)
		time.Sleep(linkLife)
		if _, err := n.RedeemLink(t.Context(), token); !errors.Is(err, ErrLink) {
			t.Error(err)
		}
		at := time.Now()
		if l := (&Link{hash32("x"), at}); !l.opensWith(entity.HashOf("x"), at.Add(-1)) || l.opensWith(entity.HashOf("x"),
			at) ||
			l.opensWith(entity.HashOf("y"), at.Add(-1)) {
			t.Error("a link opens after its end, not before it, or with another token")
		}
	})
}

// hash32 returns the hash of a text as Link has it.
func hash32(text string) []byte {
	h := entity.HashOf(text)
	return h[:]
}

// The audit log says who signed in, and from where.
func TestSignInsAreAudited(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		token, u, err := n.AddUser(t.Context(), "ops@example.com", ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		from := Origin{RequestID: "req_1", RemoteIP: netip.MustParseAddr("192.0.2.1")}
		must(n.RedeemLink(WithOrigin(t.Context(), from), token))(t)
		var signIn audit.Entry
		for _, e := range n.Outbox(audit.Query{Account: u.Account, Limit: 10}) {
			if e.Action == "user.updated" {
				signIn = e
			}
		}
		if signIn.Actor.ID != u.ID || signIn.Actor.Name != u.Email || signIn.RemoteIP != from.RemoteIP ||
			!slices.Contains(signIn.Changes, "last_sign_in_at") {
			t.Errorf("%+v", signIn)
		}
	})
}

// EndSessions ends sessions on every node when it returns, although one node's clock is 20 s ahead, and a node that is
// cut off accepts none.
func TestSessionsEndEverywhere(t *testing.T) {
	ahead := func(o *options) { o.deps.Now = func() time.Time { return time.Now().Add(20 * time.Second) } }
	f := func(name string, end func(t *testing.T, n *testNode, u *User) error) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, conf stream.Config) {
				var cold kit.Freezer
				a, b := pair(t, conf, conf)
				c := node(t, freezable(&cold, conf), Config{Node: "c"}, ahead)
				nodes := []*testNode{a, b, c}
				time.Sleep(2 * time.Second)
				cheapHashes(nodes...)
				u := withPassword(t, a, "ops@example.com", goodPassword)
				addUser(t, a, "other@example.com", ReadWrite)
				key, k, err := a.CreateKey(t.Context(), NewKey{Name: "ci", Scope: Read})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Authenticate(key); err != nil { // CreateKey has waited for this node
					t.Error(err)
				}
				for i, by := range nodes {
					for _, n := range nodes {
						if _, err := n.SessionUser(u.ID, "s", u.Epoch); err != nil {
							t.Fatalf("before: %v", err)
						}
					}
					began := time.Now()
					if i == len(nodes)-1 { // the last time the node with the wrong clock is cut off
						cold.Freeze(t)
						by = a
					}
					noError(t, end(t, by, u))
					if took := time.Since(began); took > 6*time.Second || i < len(nodes)-1 && took > time.Second {
						t.Errorf("node %s took %s", by.cfg.Node, took)
					}
					for _, n := range nodes {
						if _, err := n.SessionUser(u.ID, "s", u.Epoch); !errors.Is(err, ErrSessionEnded) && !errors.Is(err, ErrLease) {
							t.Errorf("ended by %s, node %s: %v", by.cfg.Node, n.cfg.Node, err)
						}
					}
					if i < len(nodes)-1 {
						u, _ = entity.Get[User](a, u.ID)
						if u == nil {
							u = withPassword(t, a, "ops@example.com", goodPassword)
						}
						time.Sleep(time.Second)
					}
				}
				if _, err := c.SignIn(t.Context(), "ops@example.com", goodPassword); !errors.Is(err, ErrLease) {
					t.Errorf("a sign-in on the node that is cut off: %v", err)
				}
				if _, err := c.RedeemLink(t.Context(), "x"); !errors.Is(err, ErrLease) {
					t.Errorf("a link on the node that is cut off: %v", err)
				}
				_, err = c.ChangePassword(t.Context(), u.ID, goodPassword, goodPassword+"2")
				is.ErrorIs(t, err, ErrLease, "a new password on the node that is cut off")
				if _, err := c.Authenticate(key); !errors.Is(err, ErrLease) {
					t.Errorf("a key on the node that is cut off: %v", err)
				}
				if why, err := c.RefusalOf(&Action{Key: k.ID}); !errors.Is(err, ErrLease) || why != (ActionRefusal{}) {
					t.Errorf("the key of an act on the node that is cut off: %+v, %v", why, err)
				}
			})
		})
	}
	f("log out everywhere", func(t *testing.T, n *testNode, u *User) error { return n.EndSessions(t.Context(), u.ID) })
	f("reset", func(t *testing.T, n *testNode, u *User) error {
		_, _, err := n.ResetUser(t.Context(), u.ID, 0)
		return err
	})
	f("remove", func(t *testing.T, n *testNode, u *User) error { return n.RemoveUser(t.Context(), u.ID) })
}

// Signing out ends one session on every node, and no other; when there are too many of them, all of the user's end.
func TestOneSessionEnds(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		u := addUser(t, a, "ops@example.com", ReadWrite)
		end := func(session string, life time.Duration) {
			t.Helper()
			noError(t, a.EndSession(t.Context(), u.ID, session, time.Now().Add(life)))
		}
		ended := func(session string) bool {
			t.Helper()
			_, err := b.SessionUser(u.ID, session, u.Epoch)
			if err != nil && !errors.Is(err, ErrSessionEnded) {
				t.Fatal(err)
			}
			return err != nil
		}
		end("one", time.Minute)
		end("one", time.Minute)
		if !ended("one") || ended("two") {
			t.Error("another session ended, or none")
		}
		time.Sleep(2 * time.Minute)
		for i := range maxEndedSessions {
			end(fmt.Sprint(i), time.Hour)
		}
		if ended("one") { // by its age it has ended long ago; its place is used again
			t.Error("a session is remembered for ever")
		}
		if ended("two") || !ended("0") {
			t.Error("all sessions ended too early")
		}
		end("more", time.Hour)
		if !ended("two") || !ended("0") {
			t.Error("a session that was ended is valid again")
		}
	})
}

// A user who may no longer write may write on no node.
func TestScopeIsTakenEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		u := addUser(t, a, "ops@example.com", ReadWrite)
		addUser(t, a, "other@example.com", ReadWrite)
		must(a.SetUserScope(t.Context(), u.ID, Read, 0))(t)
		if got, err := b.SessionUser(u.ID, "s", u.Epoch); err != nil || got.Scope != Read {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// An import does not revive sessions that were ended since the export.
func TestImportKeepsSessionsEnded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	u := addUser(t, n, "ops@example.com", ReadWrite)
	doc := exportOf(t, n)
	noError(t, n.EndSession(t.Context(), u.ID, "signed out", time.Now().Add(time.Hour)))
	if im, err := importInto(t, n, doc, true); err != nil || im.Warnings != nil {
		t.Fatalf("%+v, %v", im, err)
	}
	if _, err := n.SessionUser(u.ID, "signed out", u.Epoch); !errors.Is(err, ErrSessionEnded) {
		t.Errorf("a session that was signed out of: %v", err)
	}
	noError(t, n.EndSessions(t.Context(), u.ID))
	if im, err := importInto(t, n, doc, true); err != nil || im.Warnings != nil {
		t.Fatalf("%+v, %v", im, err)
	}
	if _, err := n.SessionUser(u.ID, "s", u.Epoch); !errors.Is(err, ErrSessionEnded) {
		t.Errorf("a session from before: %v", err)
	}
	if im, err := importInto(t, n, doc, false); err != nil || im.Changed != 0 {
		t.Errorf("the same again: %+v, %v", im, err)
	}
}

func TestPasswordBounds(t *testing.T) {
	for length, ok := range map[int]bool{
		MinPassword - 1: false, MinPassword: true, MaxPassword: true, MaxPassword + 1: false} {
		if err := validatePassword(strings.Repeat("x", length)); (err == nil) != ok {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}

// Whom an issuer signs in is another user than a local one with the same address, on every node: the issuer decides the
// scope, a sign-in is recorded and a confirmation is not, and nothing else lets the person in.
func TestIdentities(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		cheapHashes(a, b)
		local := withPassword(t, a, "ops@example.com", goodPassword)
		who := Identity{"https://login.example.com", "1", "ops@example.com", ReadWrite}
		u := must(a.SignInIdentity(ctx, who, false))(t)
		if u.ID == local.ID || u.Issuer != who.Issuer || u.Subject != "1" || u.Scope != ReadWrite || u.LastSignInAt.IsZero() {
			t.Fatalf("%+v", u)
		}
		noError(t, b.Sync(ctx))
		if _, err := b.SessionUser(u.ID, "s", u.Epoch); err != nil {
			t.Fatal(err)
		}
		first := u.LastSignInAt
		time.Sleep(time.Hour)
		who.Email, who.Scope = "ada@example.com", Read
		u = must(b.SignInIdentity(ctx, who, true))(t)
		// When it is answered, no node lets the person change anything.
		if on, err := a.SessionUser(u.ID, "s", u.Epoch); err != nil || on.Scope != Read || on.Email != who.Email ||
			!on.LastSignInAt.Equal(first) || len(a.Users()) != 2 {
			t.Errorf("%+v, %v", on, err)
		}
		if u = must(a.SignInIdentity(ctx, who, false))(t); !u.LastSignInAt.After(first) {
			t.Error("a sign-in is not recorded")
		}

		for _, other := range []Identity{{who.Issuer, "2", who.Email, Read},
			{"https://other.example.com", "1", who.Email, Read}} {
			if x := must(a.SignInIdentity(ctx, other, false))(t); x.ID == u.ID {
				t.Errorf("%+v is taken for %+v", other, who)
			}
		}

		if _, err := a.SetUserScope(ctx, u.ID, ReadWrite, 0); !errors.Is(err, ErrIssued) {
			t.Errorf("another scope: %v", err)
		}
		if _, _, err := a.ResetUser(ctx, u.ID, 0); !errors.Is(err, ErrIssued) {
			t.Errorf("a link: %v", err)
		}

		noError(t, b.EndIdentity(ctx, who))
		if _, err := a.SessionUser(u.ID, "s", u.Epoch); !errors.Is(err, ErrSessionEnded) {
			t.Errorf("the issuer admits the person no more: %v", err)
		}
		noError(t, b.EndIdentity(ctx, Identity{Issuer: who.Issuer, Subject: "never here"}))
		if _, err := a.SessionUser(local.ID, "s", local.Epoch); err != nil {
			t.Errorf("the local user: %v", err)
		}
	})
}

// People of an issuer are no reason to let the last local person go who may change anything: the issuer may be away.
func TestLocalWriterStays(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a := node(t, conf, Config{Node: "a"})
		who := Identity{"https://login.example.com", "1", "a@example.com", ReadWrite}
		issued := must(a.SignInIdentity(ctx, who, false))(t)
		reader := addUser(t, a, "reader@example.com", Read)
		is.Equal(t, reader.Scope, Read, "a reader was made a writer beside a person of the issuer")
		if u, err := a.SetUserScope(ctx, reader.ID, Read, 0); err != nil || u.Scope != Read {
			t.Errorf("%+v, %v", u, err)
		}
		writer := addUser(t, a, "writer@example.com", ReadWrite)
		if _, err := a.SetUserScope(ctx, writer.ID, Read, 0); !errors.Is(err, ErrLastWriter) {
			t.Errorf("the last local writer reads: %v", err)
		}
		is.ErrorIs(t, a.RemoveUser(ctx, writer.ID), ErrLastWriter, "the last local writer is removed")
		noError(t, a.RemoveUser(ctx, issued.ID))
	})
}

// An export has people of an issuer, whom nothing but the issuer signs in after the import.
func TestImportOfIdentities(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a := node(t, conf, Config{Node: "a"})
		who := Identity{"https://login.example.com", "1", "a@example.com", ReadWrite}
		u := *must(a.SignInIdentity(t.Context(), who, false))(t)
		u.Password = a.passwords.Hash(goodPassword)
		if err := u.Validate(); err != nil || u.Password != "" {
			t.Errorf("%+v, %v", u, err)
		}
		if u.Subject = "2"; u.Validate() == nil {
			t.Error("the id of another identity is accepted")
		}
	})
}
