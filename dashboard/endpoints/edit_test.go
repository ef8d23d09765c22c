package endpoints

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/verify"
)

// There is a preset for each provider of the API.
func TestPresetsCoverEveryProvider(t *testing.T) {
	for _, provider := range verify.Providers() {
		p := presetOf(provider)
		if p == nil || p.Label == "" || p.About == "" || len(p.Steps) == 0 || p.Test == "" {
			t.Errorf("%s has no complete preset", provider)
		} else if p.Signs() && (p.Secret == "" || p.SecretForm == "" || p.Mistake == "") {
			t.Errorf("the preset of %s does not say where its secret is, or what is usually wrong", provider)
		} else if name := secrets.ProviderName(provider); name != provider && name != p.Label {
			t.Errorf("the preset calls %s, findings call it %s", p.Label, name)
		} else if p.Menu != "" && !strings.HasPrefix(p.Docs, "https://") {
			t.Errorf("the preset of %s names a menu and not the page that describes it", provider)
		}
	}
}
