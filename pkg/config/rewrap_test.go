package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

func newKeyring(t testing.TB, spec ...string) *seal.Keyring {
	t.Helper()
	k := must(seal.NewKeyring(strings.Join(spec, ",")))(t)
	return k
}

// fill sets every field of type Sealed in a value, at any depth, to a unique secret.
func fill(v reflect.Value, path string, planted map[seal.Secret]bool) {
	if v.Type() == reflect.TypeFor[seal.Secret]() {
		v.SetString(path)
		planted[seal.Secret(path)] = true
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type().ConvertibleTo(reflect.TypeFor[time.Time]()) {
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), path+"."+v.Type().Field(i).Name, planted)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, planted)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), fmt.Sprint(path, i), planted)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if v.Type().Elem() == reflect.TypeFor[any]() {
			return
		}
		for _, name := range []string{"a", "b"} {
			elem := reflect.New(v.Type().Elem()).Elem()
			fill(elem, path+"."+name, planted)
			v.SetMapIndex(reflect.ValueOf(name), elem)
		}
	}
}

// TestEachSealedFindsAll: a secret that eachSealed did not find would be lost when its master key is removed.
func TestEachSealedFindsAll(t *testing.T) {
	for k := range entity.NumKinds {
		if k == conflog.KindOutbox {
			continue // belongs to the log itself
		}
		v := kindTable[k].Empty()
		planted := make(map[seal.Secret]bool)
		fill(reflect.ValueOf(v).Elem(), fmt.Sprintf("%T", v), planted)
		holds := len(planted) > 0
		eachSealed(v, func(_, _ string, s *seal.Secret) {
			if !planted[*s] {
				t.Errorf("%s is found twice, or is no secret", *s)
			}
			delete(planted, *s)
			*s = "sealed again"
		})
		for s := range planted {
			t.Errorf("%s is not found", s)
		}
		if holds != kindTable.Has(k, holdsSecrets) {
			t.Errorf("%s: has secrets: %v, holdsSecrets is not set: %v", kindTable[k].Name, holds, !kindTable.Has(k,
				holdsSecrets))
		}
		left := 0
		eachSealed(v, func(_, _ string, s *seal.Secret) {
			if *s != "sealed again" {
				left++
			}
		})
		if left > 0 {
			t.Errorf("%T: %d were not changed in place", v, left)
		}
	}
}

// endpointWithSecrets returns an endpoint with a secret in every place.
func endpointWithSecrets(k *seal.Keyring) *Endpoint {
	e := endpoint(k)
	d := &e.Destinations[0]
	d.Headers = map[string]seal.Secret{
		"Authorization": k.SealString(d.ID, seal.FieldHeader("Authorization"), "header of "+d.ID)}
	e.Verification = &Verification{
		Type: "stripe", Mode: "enforce",
		Secrets: []seal.Secret{k.SealString(e.ID, seal.FieldVerification, "provider of "+e.ID)}}
	return e
}

const secretiveSecrets = 4

// checkSecrets returns an error unless every secret of an endpoint opens with these keys and has its value.
func checkSecrets(k *seal.Keyring, e *Endpoint) error {
	d := e.Destinations[0]
	for _, s := range []struct {
		entity, field, want string
		sealed              seal.Secret
	}{
		{e.ID, seal.FieldToken, "tok_" + e.ID, e.Token},
		{e.ID, seal.FieldVerification, "provider of " + e.ID, e.Verification.Secrets[0]},
		{d.ID, seal.FieldSecret, "whsec_" + d.ID, d.Secrets[0].Secret},
		{d.ID, seal.FieldHeader("Authorization"), "header of " + d.ID, d.Headers["Authorization"]},
	} {
		if got, err := k.OpenString(s.entity, s.field, s.sealed); err != nil || got != s.want {
			return fmt.Errorf("%s %s: %q, %w", s.entity, s.field, got, err)
		}
	}
	return nil
}

func withKeys(k *seal.Keyring) func(*options) { return func(o *options) { o.deps.Keyring = k } }

// After a rewrap all secrets are sealed with the new key, although nodes change the same endpoints meanwhile, and the
// old key can be removed. After an interruption another call finishes the work.
func TestRewrap(t *testing.T) {
	ctx, conf := t.Context(), broker(t)
	old, young := seal.GenerateKey("old"), seal.GenerateKey("young")
	before := node(t, conf, Config{Node: "a"}, withKeys(newKeyring(t, old)))
	const endpoints = 60
	var created []*Endpoint
	for range endpoints {
		e := must(before.CreateEndpoint(ctx, endpointWithSecrets(before.Keyring)))(t)
		created = append(created, e)
	}
	if seals, err := before.SecretsByMasterKey(); err != nil ||
		!maps.Equal(seals, map[string]int{"old": endpoints*secretiveSecrets + 1}) {
		t.Fatalf("%v, %v", seals, err)
	}
	before.stop()

	a := node(t, conf, Config{Node: "a", Version: "v2"}, withKeys(newKeyring(t, young, old)))
	b := node(t, conf, Config{Node: "b"}, withKeys(newKeyring(t, old, young)))
	kit.WaitFor(t, "the nodes hear of each other", func() bool { return len(a.Nodes()) == 2 })
	// Interrupted after some entities, while the other node renames all of them.
	first, cancel := context.WithCancel(ctx)
	var renaming sync.WaitGroup
	renaming.Go(func() {
		for _, e := range created {
			_, err := b.UpdateEndpoint(ctx, e.ID, func(e *Endpoint) error { e.Name = "renamed"; return nil })
			is.OK(t, err, "rename")
		}
	})
	done, err := a.Rewrap(first, func(r RewrapProgress) {
		if r.Done == endpoints/3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrUnavailable) || done.Done < endpoints/3 {
		t.Fatalf("interrupted: %+v, %v", done, err)
	}
	var last RewrapProgress
	second, err := a.Rewrap(ctx, func(r RewrapProgress) { last = r })
	if err != nil || second != last || second.Done != second.Entities || second.Entities >= endpoints {
		t.Fatalf("continued with %+v, %v; progress %+v", second, err, last)
	}
	renaming.Wait()
	third, err := a.Rewrap(ctx, func(RewrapProgress) {})
	if err != nil || third != (RewrapProgress{}) {
		t.Errorf("nothing was left: %+v, %v", third, err)
	}
	if seals, err := a.SecretsByMasterKey(); err != nil ||
		!maps.Equal(seals, map[string]int{"young": endpoints*secretiveSecrets + 1}) {
		t.Errorf("%v, %v", seals, err)
	}
	a.stop()
	b.stop()

	after := node(t, conf, Config{Node: "a"}, withKeys(newKeyring(t, young)))
	for _, e := range created {
		now, _ := after.Endpoint(e.ID)
		if err := checkSecrets(after.Keyring, now); err != nil {
			t.Fatalf("without the old key: %v", err)
		}
		if now.Name != "renamed" || after.EndpointByToken("tok_"+e.ID) != now {
			t.Fatalf("lost: %+v", now)
		}
	}
	if bytesOf := dump(t, conf, stream.Nodes); strings.Contains(string(bytesOf), young[len("young:"):]) ||
		!strings.Contains(string(bytesOf), after.Keyring.IDs()[0]) {
		t.Error("heartbeats contain the key, or do not name it")
	}
}

func TestRewrapRefuses(t *testing.T) {
	ctx, conf := t.Context(), broker(t)
	old, young := seal.GenerateKey("old"), seal.GenerateKey("young")
	b := node(t, conf, Config{Node: "b"}, withKeys(newKeyring(t, old))) // its key seals the secret of the log
	a := node(t, conf, Config{Node: "a"}, withKeys(newKeyring(t, young, old)))
	kit.WaitFor(t, "the nodes hear of each other", func() bool { return len(a.Nodes()) == 2 })
	must(b.CreateEndpoint(ctx, endpointWithSecrets(b.Keyring)))(t)
	noError(t, a.Sync(ctx))
	none := func(RewrapProgress) { t.Error("something was sealed") }
	if _, err := a.Rewrap(ctx, none); !errors.Is(err, seal.ErrMissingKey) ||
		!strings.Contains(err.Error(), "b: add young to its RELAY_MASTER_KEYS") {
		t.Errorf("a node without the key: %v", err)
	}
	// A key with the same name and other bytes is not the same key.
	b.stop()
	b = node(t, conf, Config{Node: "b"}, withKeys(newKeyring(t, old, seal.GenerateKey("young"))))
	kit.WaitFor(t, "a heartbeat of the restarted b", func() bool {
		return slices.ContainsFunc(a.Nodes(), func(n Node) bool { return n.Name == "b" && len(n.Keys) == 2 })
	})
	if _, err := a.Rewrap(ctx, none); !errors.Is(err, seal.ErrMissingKey) {
		t.Errorf("a node with another key of that name: %v", err)
	}
	b.stop()
	a.stop()
	// Secrets that cannot be opened stay unchanged, the others are rewrapped.
	conf = broker(t)
	first := node(t, conf, Config{Node: "a"}, withKeys(newKeyring(t, young)))
	second := node(t, conf, Config{Node: "b"}, withKeys(newKeyring(t, old, young)))
	e := must(second.CreateEndpoint(ctx, endpointWithSecrets(second.Keyring)))(t)
	first.stop()
	second.stop()
	c := node(t, conf, Config{Node: "c"}, withKeys(newKeyring(t, young)))
	must(c.CreateEndpoint(ctx, endpointWithSecrets(newKeyring(t, young))))(t)
	if _, err := c.Rewrap(ctx, func(RewrapProgress) {}); !errors.Is(err, ErrNotRewrapped) ||
		!strings.Contains(err.Error(), "1 entities cannot be opened, such as "+e.ID) {
		t.Errorf("a master key that was removed: %v", err)
	}
	if now, _ := c.Endpoint(e.ID); now.Token != e.Token {
		t.Error("a secret that cannot be opened was changed")
	}
}

// Inspect returns what a node would, and no node notices it.
func TestInspect(t *testing.T) {
	ctx, conf := t.Context(), broker(t)
	n := node(t, conf, Config{Node: "a", Version: "v1.2"})
	e := n.create(t)
	noError(t, n.WriteSnapshot(ctx))
	later := n.create(t)
	reader := must(stream.NewReader(conf, "test"))(t)
	defer reader.Close()
	ends := func() map[stream.Partition]int64 {
		ends := must(reader.Ends(ctx, stream.Control, stream.ControlSnapshots))(t)
		return ends
	}
	before := ends()
	kit.WaitFor(t, "a heartbeat with the newest position", func() bool {
		c := must(Inspect(ctx, Config{Node: "inspector", Partitions: 1}, Deps{Stream: conf, Keyring: n.Keyring}))(t)
		defer c.Close()
		for _, e := range []*Endpoint{e, later} {
			if got, p := c.Endpoint(e.ID); p != entity.Present || got.Rev != e.Rev {
				t.Fatalf("%+v, %v", got, p)
			}
		}
		if seals, err := c.SecretsByMasterKey(); err != nil || !maps.Equal(seals, map[string]int{"test": 5}) {
			t.Fatalf("%v, %v", seals, err)
		}
		if _, err := c.CreateEndpoint(ctx, endpoint(n.Keyring)); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("it accepts changes: %v", err)
		}
		nodes := c.Nodes()
		return len(nodes) == 1 && nodes[0].Name == "a" && nodes[0].Version == "v1.2" && nodes[0].Lag == 0 &&
			nodes[0].Keys[0] == n.Keyring.IDs()[0]
	})
	if lag, err := n.Lag(ctx); err != nil || lag != 0 {
		t.Errorf("lag %d, %v", lag, err)
	}
	if after := ends(); !maps.Equal(before, after) {
		t.Errorf("something was written: %v → %v", before, after)
	}
	if nodes := n.Nodes(); len(nodes) != 1 {
		t.Errorf("the node sees %v", nodes)
	}
}

// TestAnotherMasterKeyIsRefused: a node that cannot open the log's secret does not start, and says what to do; both
// with the log from its beginning and with a snapshot only.
func TestAnotherMasterKeyIsRefused(t *testing.T) {
	conf := broker(t)
	n := node(t, conf, Config{Node: "a"})
	n.create(t)
	refused := func() {
		t.Helper()
		for spec, want := range map[string]string{
			seal.GenerateKey("other"): `sealed with the master key "test", and this node has other:`,
			seal.GenerateKey("test"):  `this node's master key "test" differs`,
		} {
			err := stoppedWith(t, start(t, conf, Config{Node: "b"}, withKeys(newKeyring(t, spec))))
			if !errors.Is(err, ErrLogSecret) || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "RELAY_MASTER_KEYS") {
				t.Errorf("stopped with %v", err)
			}
		}
	}
	refused()
	noError(t, n.WriteSnapshot(t.Context()))
	trim(t, conf, stream.Control)
	refused()
	n.create(t)
}

// TestForeignFirstRecord: anyone who writes before the first node can start a log that no node can open. The error says
// how to distinguish that from a lost master key, and what to do.
func TestForeignFirstRecord(t *testing.T) {
	conf := broker(t)
	node(t, conf, Config{Node: "foreign"}, withKeys(newKeyring(t, seal.GenerateKey("foreign")))).stop()
	err := stoppedWith(t, start(t, conf, Config{Node: "a"}))
	const want = "add that key to RELAY_MASTER_KEYS. If this service never had another master key, the relay did " +
		"not write the first record of the topic relay.control: allow only the relay's principal to write to it, " +
		"delete the topic, and run relay migrate"
	if !errors.Is(err, ErrLogSecret) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("stopped with %v", err)
	}
}

// TestRewrapSealsTheLogSecret: after a rewrap a node with only the new key starts, and a node with only the old key
// does not.
func TestRewrapSealsTheLogSecret(t *testing.T) {
	ctx, conf := t.Context(), broker(t)
	old, young := seal.GenerateKey("old"), seal.GenerateKey("young")
	node(t, conf, Config{Node: "a"}, withKeys(newKeyring(t, old))).stop()
	n := node(t, conf, Config{Node: "a"}, withKeys(newKeyring(t, young, old)))
	if done, err := n.Rewrap(ctx, func(RewrapProgress) {}); err != nil || done.Secrets != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	n.stop()
	node(t, conf, Config{Node: "b"}, withKeys(newKeyring(t, young))).stop()
	is.ErrorIs(t, stoppedWith(t, start(t, conf, Config{Node: "c"}, withKeys(newKeyring(t, old)))), ErrLogSecret,
		"stopped with")
}

// TestNoSecretOfTheLogIsExported: neither the secret of the log nor anything sealed with it.
func TestNoSecretOfTheLogIsExported(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	sealed := n.Decoded(n.View().Newest(entity.KindLog)).(*LogSecret).Secret
	doc := exportOf(t, n)
	if bytes.Contains(doc, []byte(sealed)) || bytes.Contains(doc, []byte(`"kind":"log"`)) {
		t.Errorf("%s", doc)
	}
}
