package clickhouse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The embedded engine has the disk that docs/operate/upgrade.md configures on a server: one location names a backup
// on both, and the tests here cover the documented configuration.
func TestDocumentedBackupDisk(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/operate/upgrade.md"))(t)
	settings := serverSettings(Config{Backups: "/backups"}, "")
	for _, element := range []string{
		"<storage_configuration><disks><backups><type>local</type><path>/backups/</path></backups></disks>",
		"<backups><allowed_disk>backups</allowed_disk>",
	} {
		if !strings.Contains(settings, element) || !strings.Contains(string(page), element) {
			t.Errorf("%s is not in both the settings and the page", element)
		}
	}
}

// An empty definition of a data directory that has no links may be that of an old table, with rows.
func TestUnknownDefinitionStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "db", "metadata", "a.sql")
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, nil, 0o600))
	must.Do(t, repairDefinitions(dir))
	_, err := os.Stat(path)
	must.Do(t, err)
	must.Do(t, keepDefinitions(dir))
	must.Do(t, repairDefinitions(dir))
	_, err = os.Stat(path)
	is.Failed(t, err, "no such file", "a new one")
}
