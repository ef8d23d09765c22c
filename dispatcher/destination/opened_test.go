package destination

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
)

// A secret signs until its time, also when another one has replaced it.
func TestSigningSecrets(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	live, old, last := sign.NewSecret(), sign.NewSecret(), sign.NewSecret()
	target := &Opened{Secrets: []LiveSecret{{live, time.Time{}}, {old, now}, {last, now.Add(1)}}}
	var got []string
	for _, secret := range target.SigningSecrets(now) {
		got = append(got, secret.Reveal())
	}
	is.List(t, got, []string{live.Reveal(), last.Reveal()}, "%d secrets sign", len(got))
}
