package config

import (
	"errors"
	"strings"
	"testing"
)

// drain returns a drain with that token, as the API would make it.
func drain(k *Keyring, name, token string) *Drain {
	d := &Drain{Meta: Meta{ID: "drn_" + name}, Name: name, Platform: PlatformAuto, CreatedBy: "key_1"}
	d.Sealed.Token = k.SealString(d.ID, FieldToken, token)
	return d
}

// A drain is found by its id and its token together. Only the newest token counts, and versions count the changes.
func TestDrains(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	for _, name := range []string{"one", "two"} {
		if d, err := n.CreateDrain(ctx, drain(n.keyring, name, "token-"+name)); err != nil || d.Version != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if _, err := n.CreateDrain(ctx, drain(n.keyring, "one", "token-x")); !errors.Is(err, ErrConflict) {
		t.Errorf("the same id twice: %v", err)
	}
	f := func(id, token string, want Presence) {
		t.Helper()
		if d, got := n.DrainByToken(id, token); got != want || (d != nil) != (want == Present) {
			t.Errorf("%s with %q: %v, want %v", id, token, got, want)
		}
	}
	f("drn_one", "token-one", Present)
	f("drn_one", "token-two", Unknown)
	f("drn_one", "", Unknown)
	f("drn_none", "token-one", Unknown)
	f("drn_none", "", Unknown)

	update := func(change func(d *Drain), want int) {
		t.Helper()
		d, err := n.UpdateDrain(ctx, "drn_one", func(d *Drain) error { change(d); return nil })
		if err != nil || d.Version != want {
			t.Errorf("version %d, want %d, %v", d.Version, want, err)
		}
	}
	update(func(d *Drain) { d.Sealed.Token = n.keyring.SealString(d.ID, FieldToken, "rotated") }, 2)
	f("drn_one", "token-one", Unknown)
	f("drn_one", "rotated", Present)
	update(func(*Drain) {}, 2)
	update(func(d *Drain) { d.Version = 100 }, 2)
	update(func(d *Drain) { d.Paused = true }, 3)
	if all, more := n.Drains(n.Account().ID, 0, 1); len(all) != 1 || all[0].ID != "drn_two" || !more {
		t.Errorf("the first page: %v, %v", all, more)
	}
	if err := n.DeleteDrain(ctx, "drn_one"); err != nil {
		t.Fatal(err)
	}
	f("drn_one", "rotated", Deleted)
	if all, _ := n.Drains(n.Account().ID, 0, 10); len(all) != 1 {
		t.Errorf("%d drains after one was deleted", len(all))
	}
}

// The number of drains is bounded. In a full configuration a drain can still be paused, rotated and deleted.
func TestDrainsAreBounded(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	if _, err := n.CreateDrain(ctx, drain(n.keyring, "one", "token-one")); err != nil {
		t.Fatal(err)
	}
	n.inject(kindDrain, "len", MaxDrains)
	if _, err := n.CreateDrain(ctx, drain(n.keyring, "more", "t")); !errors.Is(err, ErrTooManyDrains) {
		t.Errorf("one more than the maximum: %v", err)
	}
	n = node(t, broker(t), Config{Node: "b"})
	if _, err := n.CreateDrain(ctx, drain(n.keyring, "one", "token-one")); err != nil {
		t.Fatal(err)
	}
	n.inject(kindAlertSettings, "bytes", 1<<40)
	_, err := n.UpdateDrain(ctx, "drn_one", func(d *Drain) error { d.Name = strings.Repeat("n", 100); return nil })
	if !errors.Is(err, ErrStateFull) {
		t.Errorf("a longer name: %v", err)
	}
	_, err = n.UpdateDrain(ctx, "drn_one", func(d *Drain) error {
		d.Paused, d.Sealed.Token = true, n.keyring.SealString(d.ID, FieldToken, "another")
		return nil
	})
	if err != nil {
		t.Errorf("pausing and rotating: %v", err)
	}
	if err := n.DeleteDrain(ctx, "drn_one"); err != nil {
		t.Errorf("deleting: %v", err)
	}
}

// The secrets of a drain are opened under their own fields, survive a rewrap, and change no more than they say. Only
// Vercel signs.
func TestDrainSecrets(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	d := drain(n.keyring, "one", "token-one")
	d.Sealed.SigningSecret = n.keyring.SealString(d.ID, FieldSigningSecret, "signs")
	d.Sealed.VerifyCode = n.keyring.SealString(d.ID, FieldVerifyCode, "proves")
	d, err := n.CreateDrain(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := n.DrainSecrets(d); err != nil || s != (DrainSecrets{"signs", "proves"}) {
		t.Errorf("%+v, %v", s, err)
	}
	sealed := 0
	eachSealed(d, func(entity, field string, s *Sealed) {
		sealed++
		if _, err := n.keyring.OpenString(entity, field, *s); err != nil {
			t.Error(err)
		}
	})
	if sealed != 3 {
		t.Errorf("%d sealed secrets, want 3", sealed)
	}
	swapped := *d
	swapped.Sealed.SigningSecret = d.Sealed.VerifyCode
	if _, err := n.DrainSecrets(&swapped); !errors.Is(err, ErrUnseal) {
		t.Errorf("a secret under another field: %v", err)
	}
	other := *d
	other.Platform = PlatformHeroku
	if err := other.validate(); !errors.Is(err, ErrUnsigned) {
		t.Errorf("a signing secret for heroku: %v", err)
	}
}
