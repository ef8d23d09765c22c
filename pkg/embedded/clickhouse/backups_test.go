package clickhouse

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentedBackupDisk: the disk that docs/upgrade.md configures on a server is the one of the embedded engine, so
// that the location of a backup is the same for both, and what is tested here is what is written there.
func TestDocumentedBackupDisk(t *testing.T) {
	page, err := os.ReadFile("../../../docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
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
