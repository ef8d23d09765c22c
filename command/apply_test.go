package command

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The last of two files would count, and with --prune the endpoints of the first would be deleted.
func TestApplyTakesOneFile(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := Program{Version: "1.2.3"}.Run(t.Context(), []string{"apply", "-f", "a.yaml", "--file", "b.yaml"},
		func(string) string { return "" }, &stdout, &stderr)
	if code != ExitMisused || !strings.Contains(stderr.String(), "given twice") {
		t.Errorf("two files: %d %s", code, stderr.String())
	}
}

// Names in a file, and those that the service has, hide nothing from who reads the differences in a terminal: they are
// often somebody else's.
func TestApplyPrintsForeignTextOnItsLine(t *testing.T) {
	const hides = `\e[1A\e[2K\r\n\u202e\u200b\u009b2J`
	file := filepath.Join(t.TempDir(), "relay.yaml")
	text := strings.ReplaceAll(`endpoints:
  - name: "aHIDES"
    description: "bHIDES"
    metadata: {"cHIDES": "dHIDES"}
    destinations: [{name: "eHIDES", url: "https://example.com"}]
`, "HIDES", hides)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[]}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error":{"type":"x","message":"f\u001b[2K\u001b[2J"}}`)
	}))
	defer relay.Close()
	for _, flags := range [][]string{{"--dry-run"}, nil} { // differences; then an error with the name
		var stdout, stderr bytes.Buffer
		Program{Version: "1.2.3"}.Run(t.Context(), append([]string{"apply", "-f", file, "--base-url", relay.URL}, flags...),
			func(name string) string { return map[string]string{apiKeyEnv: "key"}[name] }, &stdout, &stderr)
		out := stdout.String() + stderr.String()
		if !strings.Contains(out, "a·[1A·[2K") || !strings.Contains(out, "f·[2K") {
			t.Errorf("%v: what is shown lacks something: %q", flags, out)
		}
		for line := range strings.Lines(out) {
			is.Equal(t, line, printable(strings.TrimSuffix(line, "\n"))+"\n", "%v: a terminal acts on", flags)
		}
	}
}
