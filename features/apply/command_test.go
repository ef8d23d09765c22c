package apply

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The last of two files would count, and with --prune the endpoints of the first would be deleted.
func TestApplyTakesOneFile(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := applyCommand(t.Context(), cli.Call{Args: []string{"-f", "a.yaml", "--file", "b.yaml"},
		Getenv: func(string) string { return "" }, Stdout: &stdout, Stderr: &stderr})
	if code != cli.ExitMisused || !strings.Contains(stderr.String(), "given twice") {
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
		applyCommand(t.Context(), cli.Call{Args: append([]string{"-f", file, "--base-url", relay.URL}, flags...),
			Getenv: func(name string) string { return map[string]string{cli.APIKeyEnv: "key"}[name] },
			Stdout: &stdout, Stderr: &stderr})
		out := stdout.String() + stderr.String()
		if !strings.Contains(out, "a·[1A·[2K") || !strings.Contains(out, "f·[2K") {
			t.Errorf("%v: what is shown lacks something: %q", flags, out)
		}
		for line := range strings.Lines(out) {
			is.Equal(t, line, cli.Printable(strings.TrimSuffix(line, "\n"))+"\n", "%v: a terminal acts on", flags)
		}
	}
}
