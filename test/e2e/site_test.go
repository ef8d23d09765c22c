package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// The documents can be read without a relay: as files that link each other.
func TestSite(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("wget"); err != nil {
		kit.SkipMissing(t, "wget is not installed")
	}
	dir := filepath.Join(t.TempDir(), "site")
	c := exec.Command("bash", "tools/site/site.sh", dir)
	out, err := c.CombinedOutput()
	must.Do(t, err, "%s", out)
	pages := must.Get(filepath.Glob(filepath.Join(dir, "docs", "*", "*.html")))(t)
	if len(pages) < 80 {
		t.Errorf("%d pages", len(pages))
	}
	for _, page := range append(pages, filepath.Join(dir, "docs.html")) {
		text := string(must.Get(os.ReadFile(page))(t))
		if strings.Contains(text, `"http://127.0.0.1`) || strings.Contains(text, "/docs/search") {
			t.Errorf("%s leads to the relay that it was copied from", page)
		}
	}
}
