package backup

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/features/backup/archive"
	"github.com/eventrelay/relay/test/is"
)

// A manifest that shows no writer, or cannot be checked for lack of master keys, is taken only if the flag says so.
func TestRestoreAuthenticates(t *testing.T) {
	keys := "main:" + strings.Repeat("QUFB", 10) + "QUE="
	none := filepath.Join(t.TempDir(), "master.keys")
	other := archive.Manifest{MAC: strings.Repeat("00", 32), MACKey: "main"}
	for _, c := range []struct {
		name     string
		manifest archive.Manifest
		keys     string
		anyone   bool
		refused  string
	}{
		{"no MAC", archive.Manifest{}, keys, false, "add --unauthenticated"},
		{"no MAC, with the flag", archive.Manifest{}, keys, true, ""},
		{"no keys", other, "", false, "set RELAY_MASTER_KEYS"},
		{"no keys, with the flag", other, "", true, ""},
		{"another MAC, with the flag", other, keys, true, "changed"},
	} {
		err := authenticate(c.manifest, c.keys, none, c.anyone)
		is.Equal(t, err == nil, c.refused == "", "%s: %v", c.name, err)
		if err != nil {
			is.Has(t, err.Error(), c.refused, c.name)
		}
	}
}
