package command

import (
	"strings"
	"testing"
)

func TestBanner(t *testing.T) {
	const key = "rly_live_of-the-first-start"
	text := banner("http://localhost:8080", key, "")
	if strings.Count(text, key) != 2 || strings.Contains(text, "revoked") {
		t.Errorf("the banner says %s", text)
	}
	if text := banner("http://localhost:8080", "", ""); !strings.Contains(text, "was revoked. relay keys create") {
		t.Errorf("the banner without a key says %s", text)
	}
}
