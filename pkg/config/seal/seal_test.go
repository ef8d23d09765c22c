package seal

import (
	"errors"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

func TestKeyring(t *testing.T) {
	old := GenerateKey("old")
	k1 := must.Get(NewKeyring(old))(t)
	sealed := k1.SealString("ep_1", FieldToken, "secret")
	k2 := must.Get(NewKeyring(GenerateKey("new") + ", " + old))(t)
	must.Equal(t, must.Get(k2.OpenString("ep_1", FieldToken, sealed))(t), "secret", "an older key opens")
	if again := k2.SealString("ep_1", FieldToken, "secret"); !strings.HasPrefix(string(again), "new:") {
		t.Fatalf("sealed with %s, not with the first key", again)
	}
	if k1.SealString("ep_1", FieldToken, "secret") == sealed {
		t.Fatal("sealing a secret twice gave the same ciphertext")
	}
	f := func(k *Keyring, entity, field string, s Secret) {
		t.Helper()
		if got, err := k.OpenString(entity, field, s); !errors.Is(err, ErrOpen) || got != "" {
			t.Errorf("opened: %q, %v", got, err)
		}
	}
	f(k1, "ep_2", FieldToken, sealed)
	f(k1, "ep_1", FieldVerification, sealed)
	f(k1, "ep_1", FieldToken, sealed[:len(sealed)-1])
	f(k1, "ep_1", FieldToken, "old:")
	f(k1, "ep_1", FieldToken, "old:!")
	f(k1, "ep_1", FieldToken, "")
	f(k1, "ep_1", FieldToken, k2.SealString("ep_1", FieldToken, "secret"))
	// A change of any byte is detected.
	for i := range len(sealed) - len("old:") {
		b := []byte(sealed)
		b[len("old:")+i] ^= 1
		if got, err := k1.OpenString("ep_1", FieldToken, Secret(b)); err == nil && got != "" {
			t.Fatalf("changed byte %d and opened: %q", i, got)
		}
	}
}

func TestKeyringRefuses(t *testing.T) {
	good := GenerateKey("a")
	f := func(spec string) {
		t.Helper()
		k, err := NewKeyring(spec)
		if err == nil || k != nil {
			t.Errorf("accepted %q", spec)
		} else if _, text, ok := strings.Cut(spec, ":"); ok && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("the error contains the key: %v", err)
		}
	}
	f("")
	f("a")
	f("a:")
	f("a:c2hvcnQ=")
	f("a:AAECAwQFBgcICQoLDA0ODw==") // a key of AES-128
	f(good + "!")
	f("a:not-base64-not-base64-not-base64-not-base64")
	f(":" + good[2:])
	f("a b:" + good[2:])
	f(good + "," + good)
	f(good + ",")
}
