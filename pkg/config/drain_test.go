package config

import (
	"errors"
	"testing"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/is"
)

// drain returns a drain with that token, as the API would make it.
func drain(k *seal.Keyring, name, token string) *leak.Drain {
	d := &leak.Drain{Meta: entity.Meta{ID: "drn_" + name}, Name: name, Platform: leak.PlatformAuto, CreatedBy: "key_1"}
	d.Sealed.Token = k.SealString(d.ID, seal.FieldToken, token)
	return d
}

// A drain is found by its id and its token together. Only the newest token counts.
func TestDrainByToken(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	for _, name := range []string{"one", "two"} {
		must(entity.Create(ctx, n, drain(n.Keyring, name, "token-"+name)))(t)
	}
	f := func(id, token string, want entity.Presence) {
		t.Helper()
		if d, got := n.DrainByToken(id, token); got != want || (d != nil) != (want == entity.Present) {
			t.Errorf("%s with %q: %v, want %v", id, token, got, want)
		}
	}
	f("drn_one", "token-one", entity.Present)
	f("drn_one", "token-two", entity.Unknown)
	f("drn_one", "", entity.Unknown)
	f("drn_none", "token-one", entity.Unknown)
	f("drn_none", "", entity.Unknown)
	must(entity.Update(ctx, n, "drn_one", func(d *leak.Drain) error {
		d.Sealed.Token = n.Keyring.SealString(d.ID, seal.FieldToken, "rotated")
		return nil
	}))(t)
	f("drn_one", "token-one", entity.Unknown)
	f("drn_one", "rotated", entity.Present)
	noError(t, entity.Delete[leak.Drain](ctx, n, "drn_one"))
	f("drn_one", "rotated", entity.Deleted)
}

// The secrets of a drain are opened under their own fields, survive a rewrap, and change no more than they say. Only
// Vercel signs.
func TestDrainSecrets(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	d := drain(n.Keyring, "one", "token-one")
	d.Sealed.SigningSecret = n.Keyring.SealString(d.ID, seal.FieldSigningSecret, "signs")
	d.Sealed.VerifyCode = n.Keyring.SealString(d.ID, seal.FieldVerifyCode, "proves")
	d = must(entity.Create(ctx, n, d))(t)
	if s, err := n.DrainSecrets(d); err != nil || s != (leak.DrainSecrets{Signing: "signs", VerifyCode: "proves"}) {
		t.Errorf("%+v, %v", s, err)
	}
	sealed := 0
	eachSealed(d, func(entity, field string, s *seal.Secret) {
		sealed++
		if _, err := n.Keyring.OpenString(entity, field, *s); err != nil {
			t.Error(err)
		}
	})
	is.Equal(t, sealed, 3, "sealed secrets")
	swapped := *d
	swapped.Sealed.SigningSecret = d.Sealed.VerifyCode
	if _, err := n.DrainSecrets(&swapped); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("a secret under another field: %v", err)
	}
	other := *d
	other.Platform = leak.PlatformHeroku
	is.ErrorIs(t, other.Validate(), leak.ErrUnsigned, "a signing secret for heroku")
}
