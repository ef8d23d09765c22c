package clickhouse

import (
	"os"
	"strings"
	"testing"

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
