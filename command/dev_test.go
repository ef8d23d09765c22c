package command

import (
	"strings"
	"testing"
)

// The banner shows a key that dev has made, and neither one that it was given nor one that was revoked.
func TestBanner(t *testing.T) {
	const key = "rly_live_of-the-first-start"
	for _, x := range []struct {
		given, accepted bool
		shown           int
		says            string
	}{
		{false, true, 2, "(read and write): " + key},
		{true, true, 0, "Bearer $RELAY_BOOTSTRAP_KEY"},
		{false, false, 0, "was revoked. relay keys create"},
		{true, false, 0, "was revoked. relay keys create"},
	} {
		shown, line := keyLine(key, x.given, x.accepted)
		text := banner("http://localhost:8080", shown, line, "")
		if strings.Count(text, key) != x.shown || !strings.Contains(text, x.says) {
			t.Errorf("given %v, accepted %v: the banner says %s", x.given, x.accepted, text)
		}
	}
}
