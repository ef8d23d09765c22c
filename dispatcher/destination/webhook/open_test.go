package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func testKeyring(t *testing.T) *seal.Keyring {
	t.Helper()
	keyring := must.Get(seal.NewKeyring(seal.GenerateKey("test")))(t)
	return keyring
}

// The URL of a target, which attempts record, has no credentials. What cannot be opened or parsed is an error: a
// request without its header or signature must not be sent.
func TestOpenTarget(t *testing.T) {
	keyring, secret := testKeyring(t), sign.NewSecret()
	dest := func() *config.Destination {
		return &config.Destination{
			ID: "d", URL: "https://user:password@example.com/hook?a=1#part", TimeoutSeconds: 7,
			Headers: map[string]seal.Secret{"x-key": keyring.SealString("d", seal.FieldHeader("x-key"), "value")},
			Secrets: []config.SigningSecret{{Secret: keyring.SealString("d", seal.FieldSecret, secret.Reveal())}},
		}
	}
	opened := must.Get(New(Deps{Keyring: keyring}).Open(&config.Endpoint{KeepMethod: true}, dest()))(t)
	to := opened.(*target)
	if want := "https://example.com/hook?a=1"; to.urlText != want || to.url.String() != want {
		t.Errorf("the URL is %s, as text %s", to.url, to.urlText)
	}
	is.Same(t, to.Header, []event.Field{{Name: "X-Key", Value: "value"}})
	if !to.KeepMethod || to.Timeout != 7*time.Second ||
		len(to.SigningSecrets(time.Now())) != 1 {
		t.Errorf("%+v", to)
	}
	for want, spoil := range map[string]func(*config.Destination){
		"parse url of d":      func(d *config.Destination) { d.URL = "https://[" },
		"open header":         func(d *config.Destination) { d.Headers["x-other"] = "test:AAAA" },
		"open signing secret": func(d *config.Destination) { d.Secrets[0].Secret = d.Headers["x-key"] },
		"read signing secret of d": func(d *config.Destination) {
			d.Secrets[0].Secret = keyring.SealString("d", seal.FieldSecret, "?")
		},
	} {
		d := dest()
		spoil(d)
		target, err := New(Deps{Keyring: keyring}).Open(&config.Endpoint{}, d)
		if err == nil || target != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", target, err, want)
		}
	}
}
