package config

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// TestMurmur2 uses the vectors of Kafka's own test of its default partitioner.
func TestMurmur2(t *testing.T) {
	f := func(s string, want int32) {
		t.Helper()
		if got := int32(murmur2([]byte(s))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", s, got, want)
		}
	}
	f("21", -973932308)
	f("foobar", -790332482)
	f("a-little-bit-long-string", -985981536)
	f("a-little-bit-longer-string", -1486304829)
	f("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971)
	f("abc", 479470107)
	for range 1000 {
		if p := partitionOf(apikey.New(), 7); p < 0 || p > 6 {
			t.Fatalf("partition %d of 7", p)
		}
	}
}

func TestConfigValidation(t *testing.T) {
	_, err := New(Config{Partitions: 5000, SnapshotEvery: -1, BootstrapKey: "short",
		BootstrapReadKey: "with a space in it"}, Deps{})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"node name", "partitions", "not 5000", "snapshot interval", "bootstrap key", "bootstrap read key", "brokers",
		"master keys"} {
		is.Has(t, err.Error(), want, "%q is not in: %v", want, err)
	}
	is.Lacks(t, err.Error(), "with a space", "the error contains a key")
	same := strings.Repeat("x", 20)
	if _, err := New(Config{Node: "a", Partitions: 1, BootstrapKey: same, BootstrapReadKey: same},
		Deps{Keyring: Keyring(t), Stream: unreachable()}); err == nil {
		t.Error("one key for two scopes was accepted")
	}
}

// TestNoSecretInClear sets every secret to a known text and searches for the texts in everything that the configuration
// writes.
func TestNoSecretInClear(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		const bootstrap = "planted-bootstrap-key-1"
		n := node(t, conf, Config{Node: "a", BootstrapKey: bootstrap, SnapshotEvery: 1}, func(o *options) {
			o.log.Timing.SnapshotCheckInterval = 10 * time.Millisecond
		})
		e := endpoint(n.Keyring)
		d := &e.Destinations[0]
		e.Token = n.Keyring.SealString(e.ID, seal.FieldToken, "planted-token")
		e.Verification = &Verification{
			Type: "stripe", Secrets: []seal.Secret{n.Keyring.SealString(e.ID, seal.FieldVerification, "planted-verification")}}
		d.Secrets[0].Secret = n.Keyring.SealString(d.ID, seal.FieldSecret, "planted-signing")
		d.Headers = map[string]seal.Secret{
			"Authorization": n.Keyring.SealString(d.ID, seal.FieldHeader("Authorization"), "planted-header")}
		must(n.CreateEndpoint(ctx, e))(t)
		must(n.UpdateEndpoint(ctx, e.ID, func(e *Endpoint) error {
			e.Name = "planted-name"
			return nil
		}))(t)
		must(entity.Create(ctx, n, drain(n.Keyring, "one", "planted-drain-token")))(t)
		must(entity.Create(ctx, n, dsn(n.Keyring, "one", "planted-dsn-key")))(t)
		text, k, err := n.CreateKey(ctx, NewKey{Name: "ci", Scope: ReadWrite})
		if err != nil {
			t.Fatal(err)
		}
		token := must(n.FirstLink(ctx, "dev@localhost"))(t)
		u := must(n.RedeemLink(ctx, token))(t)
		must(n.SetPassword(ctx, u.ID, "planted-password"))(t)
		service := n.Decoded(n.View().FindLiving(entity.KindServiceSecret, serviceSecretID)).(*ServiceSecret)
		serviceSecret := must(n.Keyring.OpenString(service.ID, FieldServiceSecret, service.Sealed.Secret))(t)
		n.SetOwner(true)
		time.Sleep(100 * time.Millisecond)
		noError(t, n.RevokeKey(ctx, k.ID))
		if _, err := n.Authenticate(text + "x"); err == nil {
			t.Fatal("unknown key accepted")
		}
		foreign := endpoint(n.Keyring)
		foreign.Token = e.Token
		_, refused := n.CreateEndpoint(ctx, foreign)

		var written bytes.Buffer
		for _, topic := range []string{stream.Control, stream.ControlSnapshots, stream.Nodes} {
			written.Write(dump(t, conf, topic))
		}
		written.WriteString(n.log.String())
		written.WriteString(refused.Error())
		if !bytes.Contains(written.Bytes(), []byte("planted-name")) || bytes.Count(written.Bytes(), []byte(e.ID)) < 4 {
			t.Fatal("the searched bytes are not what was written")
		}
		for _, secret := range []string{
			bootstrap, text, text[9:41], token, "planted-password",
			serviceSecret, hex.EncodeToString([]byte(serviceSecret)), base64.StdEncoding.EncodeToString([]byte(serviceSecret)),
			"planted-token", "planted-verification", "planted-signing", "planted-header",
			"planted-drain-token", "planted-dsn-key",
			"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
		} {
			if bytes.Contains(written.Bytes(), []byte(secret)) {
				t.Errorf("%q is in clear text", secret)
			}
		}
	})
}

// dump returns all bytes of a topic, with decompressed chunks of snapshots.
func dump(t *testing.T, conf stream.Config, topic string) (out []byte) {
	t.Helper()
	unzip := must(zstd.NewReader(nil))(t)
	defer unzip.Close()
	reader := must(stream.NewReader(conf, "test"))(t)
	defer reader.Close()
	p := stream.Partition{Topic: topic}
	ends, err := reader.Ends(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	err = reader.Read(context.Background(), p, 0, func(r *stream.Record) error {
		out = append(append(out, r.Key...), r.Value...)
		for _, h := range r.Headers {
			if h.Key == "part" && string(h.Value) == "chunk" {
				lines, err := unzip.DecodeAll(r.Value, nil)
				if err != nil {
					return err
				}
				out = append(out, lines...)
			}
		}
		if r.Offset >= ends[p]-1 {
			return stream.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// allKeys are the keys that a node derives from the service secret.
type allKeys struct {
	session, findings [32]byte
	fingerprint       string
}

func derivedKeys(t *testing.T, n *testNode) (keys allKeys) {
	t.Helper()
	var errs [3]error
	keys.session, errs[0] = n.SessionKey(t.Context())
	ofFindings, err := n.FindingKeys(t.Context())
	keys.findings, errs[1] = ofFindings.Key, err
	keys.fingerprint, errs[2] = n.KeyFingerprint(t.Context(), "rly_live_x")
	noError(t, errors.Join(errs[:]...))
	return keys
}

// Nodes that need the service secret for the first time at once agree on it.
func TestNodesAgreeOnTheServiceSecret(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b, atOnce := racing(t, conf)
		var found [4]allKeys
		atOnce(func() { found[0] = derivedKeys(t, a) }, func() { found[1] = derivedKeys(t, b) },
			func() { found[2] = derivedKeys(t, a) }, func() { found[3] = derivedKeys(t, b) })
		keys := found[0]
		if found != [4]allKeys{keys, keys, keys, keys} || keys.session == keys.findings || keys.session == [32]byte{} {
			t.Errorf("%+v", found)
		}
		is.Equal(t, derivedKeys(t, b), keys, "%+v, later", keys)
		if a.View().Len(entity.KindServiceSecret) != 1 || len(b.Account().FPSalt) != 16 {
			t.Errorf("%d service secrets, salt %x", a.View().Len(entity.KindServiceSecret), b.Account().FPSalt)
		}
	})
}

// Changing the master keys changes no derived key: rewrapping changes the seal, not the secret.
func TestDerivedKeysOutlastMasterKeys(t *testing.T) {
	conf := broker(t)
	old, young := seal.GenerateKey("old"), seal.GenerateKey("young")
	a := node(t, conf, Config{Node: "a"}, withKeys(newKeyring(t, old)))
	keys := derivedKeys(t, a)
	text, k, err := a.CreateKey(t.Context(), NewKey{Name: "ci", Scope: Read})
	if err != nil {
		t.Fatal(err)
	}
	a.stop()
	b := node(t, conf, Config{Node: "b"}, withKeys(newKeyring(t, young, old)))
	is.Equal(t, derivedKeys(t, b), keys, "the keys differ on another node")
	must(b.Rewrap(t.Context(), func(RewrapProgress) {}))(t)
	b.stop()
	c := node(t, conf, Config{Node: "c"}, withKeys(newKeyring(t, young)))
	is.Equal(t, derivedKeys(t, c), keys, "the keys differ after the old master key was removed")
	if got, err := c.KeyFingerprint(t.Context(), text); err != nil || got != k.Fingerprint || len(got) != 36 {
		t.Errorf("fingerprint %s, was %s: %v", got, k.Fingerprint, err)
	}
}

// An import brings its service secret and salt, and every node derives its keys anew.
func TestImportReplacesTheServiceSecret(t *testing.T) {
	a := node(t, broker(t), Config{Node: "a"})
	before := exportOf(t, a)
	want := derivedKeys(t, a)
	text, k, err := a.CreateKey(t.Context(), NewKey{Name: "ci", Scope: Read})
	if err != nil {
		t.Fatal(err)
	}
	doc := exportOf(t, a)
	conf := broker(t)
	b, c := node(t, conf, Config{Node: "b"}), node(t, conf, Config{Node: "c"})
	if got := derivedKeys(t, b); got.session == want.session || got.fingerprint == want.fingerprint {
		t.Fatal("two installations have the same keys")
	}
	must(importInto(t, b, doc, false))(t)
	for _, n := range []*testNode{b, c} {
		is.Equal(t, derivedKeys(t, n), want, "node %s derives other keys than before the export", n.cfg.Node)
		if got, err := n.KeyFingerprint(t.Context(), text); err != nil || got != k.Fingerprint {
			t.Errorf("fingerprint %s, want %s: %v", got, k.Fingerprint, err)
		}
	}
	if im, err := importInto(t, b, doc, false); err != nil || im.Changed != 0 {
		t.Errorf("the same again: %+v, %v", im, err)
	}
	// The same account may have got another salt, after an import from before it had one.
	e := node(t, broker(t), Config{Node: "e"})
	must(importInto(t, e, before, false))(t)
	derivedKeys(t, e)
	must(importInto(t, e, doc, false))(t)
	is.Equal(t, derivedKeys(t, e), want, "the node derives other keys than before the export")
	// Of a document without a salt, as the account of an earlier version, the node makes its own.
	d := node(t, broker(t), Config{Node: "d"})
	doc = exportOf(t, d)
	derivedKeys(t, d)
	if _, err := importInto(t, d, doc, true); err != nil || len(d.Account().FPSalt) != entity.FPSaltBytes {
		t.Errorf("salt %x, %v", d.Account().FPSalt, err)
	}
}

// A sender of findings computes the inner MAC, for which it knows the salt; only the service can compute the outer one.
func TestKeyFingerprint(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	const text = "rly_live_x"
	got := must(n.KeyFingerprint(t.Context(), text))(t)
	s := n.Decoded(n.View().FindLiving(entity.KindServiceSecret, serviceSecretID)).(*ServiceSecret)
	secret, err := n.Keyring.OpenString(s.ID, FieldServiceSecret, s.Sealed.Secret)
	if err != nil || len(secret) != 32 {
		t.Fatalf("a secret of %d bytes, %v", len(secret), err)
	}
	key := must(hkdf.Key(sha256.New, []byte(secret), nil, "finding-fp|"+n.Account().ID, 32))(t)
	sent := hmac.New(sha256.New, n.Account().FPSalt)
	sent.Write([]byte(text))
	stored := hmac.New(sha256.New, key)
	stored.Write(sent.Sum(nil))
	is.Equal(t, got, fmt.Sprintf("fpr_%x", stored.Sum(nil)[:16]))
	const bootstrap = "bootstrap-key-0123456789"
	b := node(t, broker(t), Config{Node: "b", BootstrapKey: bootstrap})
	k, err := b.Authenticate(bootstrap)
	if err != nil || k.Fingerprint != "" {
		t.Errorf("a bootstrap key: %+v, %v", k, err)
	}
}

// Two calls with the same nonce create one key, whose text is shown once.
func TestKeyIsCreatedOncePerNonce(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b, atOnce := racing(t, conf)
		var texts [2]string
		var keys [2]*Key
		var errs [2]error
		form := NewKey{Name: "ci", Scope: Read, Nonce: "form-1"}
		atOnce(func() { texts[0], keys[0], errs[0] = a.CreateKey(t.Context(), form) },
			func() { texts[1], keys[1], errs[1] = b.CreateKey(t.Context(), form) })
		if (texts[0] == "") == (texts[1] == "") || !errors.Is(errors.Join(errs[:]...), ErrAlreadyCreated) ||
			keys[0].ID != keys[1].ID || string(keys[0].Hash) != string(keys[1].Hash) {
			t.Fatalf("%v, %+v, %v", texts, keys, errs)
		}
		noError(t, a.RevokeKey(t.Context(), keys[0].ID))
		if text, k, err := b.CreateKey(t.Context(), NewKey{Name: "other", Scope: ReadWrite, Nonce: "form-1"}); text != "" ||
			!errors.Is(err, ErrAlreadyCreated) || k.ID != keys[0].ID || k.RevokedAt.IsZero() {
			t.Errorf("after it was revoked: %q, %+v, %v", text, k, err)
		}
		if _, k, err := b.CreateKey(t.Context(), NewKey{Name: "ci", Scope: Read, Nonce: "form-2"}); err != nil ||
			k.ID == keys[0].ID {
			t.Errorf("another form: %+v, %v", k, err)
		}
	})
}

func TestInvalidKeysAreRefused(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	f := func(param string, k NewKey) {
		t.Helper()
		_, _, err := n.CreateKey(t.Context(), k)
		if invalid, ok := errors.AsType[*entity.InvalidError](err); !ok || invalid.Param != param {
			t.Errorf("%v, want a fault of %s", err, param)
		}
	}
	f("name", NewKey{Scope: Read})
	f("name", NewKey{Scope: Read, Name: "two\nlines"})
	f("name", NewKey{Scope: Read, Name: string(make([]byte, 101))})
	f("scope", NewKey{Name: "ci"})
	f("scope", NewKey{Name: "ci", Scope: "admin"})
	f("expires_at", NewKey{Name: "ci", Scope: Read, ExpiresAt: time.Now().Add(-time.Second)})
	if len(n.Keys(n.Account().ID)) > 0 {
		t.Error("a refused key was created")
	}
}
