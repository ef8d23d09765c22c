package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/eventrelay/relay/pkg/stream"
)

func TestNormalizeEmail(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got, err := NormalizeEmail(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	f("ops@example.com", "ops@example.com")
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

// isHashOf reports whether the text is an argon2id hash of the password, with the parameters in the text.
func isHashOf(t *testing.T, text, password string) bool {
	t.Helper()
	parts := strings.Split(text, "$")
	var version int
	var memory, passes uint32
	var threads uint8
	if len(parts) != 6 || parts[1] != "argon2id" {
		t.Fatalf("%q", text)
	}
	if _, err := fmt.Sscanf(parts[2]+" "+parts[3], "v=%d m=%d,t=%d,p=%d", &version, &memory, &passes,
		&threads); err != nil || version != argon2.Version || memory < 19456 || passes < 2 {
		t.Fatalf("%q: %v", text, err)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil || len(salt) < 16 {
		t.Fatalf("%q: %v", text, err)
	}
	sum := argon2.IDKey([]byte(password), salt, passes, memory, threads, 32)
	return base64.RawStdEncoding.EncodeToString(sum) == parts[5]
}

func TestUsers(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a := node(t, conf, Config{Node: "a"})
		b := node(t, conf, Config{Node: "b"})
		token, u, err := a.AddUser(ctx, "ops@example.com")
		if err != nil || !strings.HasPrefix(u.ID, "usr_") || u.Account != a.Account().ID || len(token) != 43 ||
			u.Password != "" {
			t.Fatalf("%+v, %v", u, err)
		}
		if hash := hashOf(token); string(u.Link.Hash) != string(hash[:]) ||
			u.Link.Expires.Sub(u.CreatedAt) != 10*time.Minute {
			t.Errorf("%+v", u.Link)
		}
		if err := b.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.AddUser(ctx, "ops@example.com"); !errors.Is(err, ErrConflict) {
			t.Errorf("the same address twice: %v", err)
		}
		time.Sleep(time.Minute)
		again, r, err := b.ResetUser(ctx, "ops@example.com")
		if err != nil || again == token || r.ID != u.ID || !r.SessionsSince.After(u.SessionsSince) || r.Password != "" {
			t.Errorf("%+v, %v", r, err)
		}
		// When a reset is answered, every node rejects the earlier sessions.
		if got := a.Users(); len(got) != 1 || !got[0].SessionsSince.Equal(r.SessionsSince) {
			t.Errorf("the other node knows %+v", got)
		}
		doc := string(exportOf(t, &testNode{Control: a.Control}))
		if !strings.Contains(doc, "ops@example.com") || strings.Contains(doc, token) || strings.Contains(doc, again) {
			t.Errorf("%s", doc)
		}
		if err := a.RemoveUser(ctx, "ops@example.com"); err != nil || len(b.Users()) > 0 {
			t.Errorf("%v, and the other node knows %+v", err, b.Users())
		}
		if err := a.RemoveUser(ctx, "ops@example.com"); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		if _, _, err := a.ResetUser(ctx, "ops@example.com"); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		// Created again, it is the same user, whose earlier sessions stay invalid.
		if _, n, err := a.AddUser(ctx, "ops@example.com"); err != nil || n.ID != u.ID ||
			!n.SessionsSince.After(r.SessionsSince) {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// The first user is created from the environment when there is none, and only once when nodes start together.
func TestFirstUser(t *testing.T) {
	conf := broker(t)
	admin := Config{Node: "a", AdminEmail: " Ops@Example.com", AdminPassword: "planted-password"}
	a := node(t, conf, admin)
	users := a.Users()
	if len(users) != 1 || users[0].Email != "ops@example.com" || !users[0].FromEnvironment ||
		!isHashOf(t, users[0].Password, "planted-password") || isHashOf(t, users[0].Password, "planted-passwore") {
		t.Fatalf("%+v", users)
	}
	if raw := string(exportOf(t, a)); strings.Contains(raw, "planted") {
		t.Errorf("%s", raw)
	}
	admin.Node, admin.AdminPassword = "b", "another-password"
	if err := node(t, conf, admin).ensureAdmin(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin.Node, admin.AdminEmail = "c", "other@example.com"
	c := node(t, conf, admin)
	if again := c.Users(); len(again) != 1 || again[0].Password != users[0].Password {
		t.Errorf("%+v", again)
	}
	if one, two := hashPassword("x"), hashPassword("x"); one == two {
		t.Error("two hashes of one password are the same")
	}
}
