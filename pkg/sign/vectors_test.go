package sign_test

import (
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var update = flag.Bool("update", false, "write sdk/vectors.json")

// The clients of the API verify the deliveries of sdk/vectors.json; those are what the relay signs.
func TestVectorsOfTheClients(t *testing.T) {
	const file = "../../sdk/vectors.json"
	clock := time.Unix(1790000000, 0)
	all := append(deliveries(t, clock), privateDeliveries(t, clock)...)
	got := string(must.Get(json.MarshalIndent(map[string]any{"now": clock.Unix(), "deliveries": all}, "", " "))(t)) + "\n"
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o600))
	}
	is.Equal(t, gocmp.Diff(string(must.Get(os.ReadFile(file))(t)), got), "",
		"run go test ./pkg/sign -run Vectors -update")
}

// privateDeliveries returns deliveries with Ed25519, and one with headers of the provider.
func privateDeliveries(t *testing.T, clock time.Time) []delivery {
	t.Helper()
	private, hmac := fixedSecret(t, sign.PrivatePrefix, "p"), fixedSecret(t, sign.Prefix, "c")
	variant := func(name string, valid bool, public, prefix string, by sign.Secret) delivery {
		d := delivery{Name: name, Secret: public, Body: `{"type":"order.paid"}`, Valid: valid}
		d.Headers = map[string]string{prefix + "id": "evt_01J",
			prefix + "timestamp": strconv.FormatInt(clock.Unix(), 10),
			prefix + "signature": sign.Sign([]sign.Secret{by}, "evt_01J", clock, []byte(d.Body))}
		return d
	}
	public := *private.PublicText()
	other := *fixedSecret(t, sign.PrivatePrefix, "q").PublicText()
	provider := variant("headers of the provider beside those of the relay", true, hmac.Reveal(), "relay-webhook-", hmac)
	provider.Headers["webhook-id"], provider.Headers["webhook-signature"] = "msg_1", "v1,AAAA"
	// Whoever knows the public key must not be able to sign with it as if it were a secret.
	confused := must.Get(sign.ParseSecret(sign.Prefix + public[len("whpk_"):]))(t)
	return []delivery{
		variant("Ed25519", true, public, "webhook-", private),
		variant("Ed25519, another key", false, other, "webhook-", private),
		variant("an HMAC with the public key as its secret", false, public, "webhook-", confused),
		variant("a v1a signature for a v1 secret", false, hmac.Reveal(), "webhook-", private),
		provider,
	}
}
