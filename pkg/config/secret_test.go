package config

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
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
