package kafka

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/eventrelay/relay/test/must"
)

// Without the secret a client neither lists topics nor reads or writes them; with it every SASL mechanism works.
func TestSecret(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Secret = "correct horse battery"
	s := serve(t, cfg)
	known := func(password string) map[string]sasl.Mechanism {
		user := scram.Auth{User: User, Pass: password}
		return map[string]sasl.Mechanism{
			"plain":         plain.Auth{User: User, Pass: password}.AsMechanism(),
			"scram-sha-256": user.AsSha256Mechanism(), "scram-sha-512": user.AsSha512Mechanism(),
		}
	}
	ask := func(opts ...kgo.Opt) error {
		cl := client(t, s.Addr(), append(opts, kgo.RetryTimeout(300*time.Millisecond), kgo.RequestRetries(0))...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
		return err
	}
	for name, m := range known(cfg.Secret) {
		if err := ask(kgo.SASL(m)); err != nil {
			t.Errorf("%s with the secret: %v", name, err)
		}
	}
	for name, m := range known("another horse battery") {
		if err := ask(kgo.SASL(m)); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s with another secret: %v", name, err)
		}
	}
	if ask() == nil {
		t.Error("a client without the secret was accepted")
	}
}

// A unix socket serves every client that dials it, whatever address the broker returns.
func TestListenOnSocket(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	path := filepath.Join(t.TempDir(), "kafka.sock")
	cfg.Listen = unixPrefix + path
	s := serve(t, cfg)
	dial := kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	})
	createTopicsBy(t, client(t, s.Addr(), dial), 1, nil, "relay.events")
	inside := client(t, s.Addr(), kgo.Dialer(s.DialContext))
	must.Do(t, inside.ProduceSync(t.Context(), &kgo.Record{Topic: "relay.events", Value: []byte("x")}).
		FirstErr())
	if got := consume(t, client(t, s.Addr(), dial, kgo.ConsumeTopics("relay.events")), 1); string(got[0].Value) != "x" {
		t.Errorf("read %q", got[0].Value)
	}
}
