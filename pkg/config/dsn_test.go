package config

import (
	"testing"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/config/seal"
)

// dsn returns a DSN with that key, as the API would make it.
func dsn(k *seal.Keyring, name, key string) *leak.DSN {
	d := &leak.DSN{Meta: entity.Meta{ID: "dsn_" + name}, Name: name, Platform: leak.DSNServer, CreatedBy: "key_1"}
	d.Sealed.Key = k.SealString(d.ID, seal.FieldDSNKey, key)
	return d
}

// A DSN is found by its id and its public key together, which has the salt of the account. Only the newest key counts.
func TestDSNs(t *testing.T) {
	ctx := t.Context()
	n := node(t, broker(t), Config{Node: "a"})
	d := must(entity.Create(ctx, n, dsn(n.Keyring, "one", leak.NewDSNKey())))(t)
	text, err := n.PublicKey(ctx, d)
	if err != nil || len(text) != 46 || n.DSNByKey("dsn_one", text) == nil {
		t.Fatalf("%q, %v", text, err)
	}
	if keys, err := n.FindingKeys(ctx); err != nil || string(n.Account().FPSalt) != string(keys.Salt) {
		t.Errorf("salt %x, %v", keys.Salt, err)
	}
	wrongSalt := text[:24] + "0000000000000000000001"
	for _, x := range [][2]string{{"dsn_two", text}, {"dsn_one", ""}, {"dsn_one", text[:45]}, {"dsn_one", text + "0"},
		{"dsn_one", wrongSalt}, {"dsn_one", "pk" + leak.NewDSNKey() + text[24:]}, {"dsn_one", "xx" + text[2:]}} {
		if n.DSNByKey(x[0], x[1]) != nil {
			t.Errorf("%v is accepted", x)
		}
	}
	d, err = entity.Update(ctx, n, d.ID, func(d *leak.DSN) error {
		d.Sealed.Key = n.Keyring.SealString(d.ID, seal.FieldDSNKey, leak.NewDSNKey())
		return nil
	})
	if err != nil || n.DSNByKey("dsn_one", text) != nil {
		t.Errorf("the old key is accepted: %v", err)
	}
	if text, err = n.PublicKey(ctx, d); err != nil || n.DSNByKey("dsn_one", text) == nil {
		t.Errorf("the new key is not accepted: %v", err)
	}
	if err := entity.Delete[leak.DSN](ctx, n, d.ID); err != nil || n.DSNByKey("dsn_one", text) != nil {
		t.Errorf("a deleted DSN: %v", err)
	}
}
