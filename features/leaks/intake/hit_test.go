package intake

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// leakedKey is the API key with every fingerprint but one.
type leakedKey struct{ accepted bool }

func (k leakedKey) LeakedKey(fingerprint string) (*config.Key, bool) {
	if fingerprint == "unknown" {
		return nil, false
	}
	return &config.Key{ID: "key_1"}, k.accepted
}

func TestOwnKey(t *testing.T) {
	for _, x := range []struct {
		fingerprint string
		accepted    bool
		id          string
	}{
		{"known", true, "key_1"},
		{"known", false, "key_1"}, // it was revoked
		{"unknown", false, ""},
		{"", false, ""}, // the rule makes no fingerprints
	} {
		id, accepted := OwnKey(leakedKey{x.accepted}, x.fingerprint)
		if id != x.id || accepted != x.accepted {
			t.Errorf("%+v: %q, accepted %v", x, id, accepted)
		}
	}
}

func TestCleanText(t *testing.T) {
	rules := must.Get(secrets.New(secrets.ForLeaks))(t)
	secret := "ghp_" + "q8ZkT2vN4xW7yR1mB5cJ9dL3fH6gS0pAaEuX"
	for text, want := range map[string]string{
		"":                  "",
		"curl\n8\u200b\x00": "curl 8",
	} {
		is.Equal(t, CleanText(rules, text), want, text)
	}
	if got := CleanText(rules, "token "+secret); !strings.HasPrefix(got, "token ") || strings.Contains(got, secret) {
		t.Errorf("a secret: %q", got)
	}
	if got := CleanText(rules, strings.Repeat("é", maxText)); len(got) > maxText {
		t.Errorf("a long text keeps %d bytes", len(got))
	}
}
