package sign

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// nodeCase is what testdata/node/verify.cjs reads.
type nodeCase struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Valid   bool              `json:"valid"`
}

func TestSignVerifiesWithOfficialJavaScriptLibrary(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		kit.SkipMissing(t, "the check with the official JavaScript library: node is not installed")
	}
	dir := filepath.Join("testdata", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "standardwebhooks")); err != nil {
		kit.SkipMissing(t, "the check with the official JavaScript library: run `npm ci` in pkg/sign/testdata/node")
	}

	cases := nodeCases(t)
	in := must.Get(json.Marshal(cases))(t)
	cmd := exec.CommandContext(t.Context(), node, "verify.cjs")
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	must.Do(t, err, "run verify.cjs: %s", &stderr)
	var wrong []int
	must.Do(t, json.Unmarshal(out, &wrong), "read the answer %q", out)
	for _, i := range wrong {
		t.Errorf("case %d: the library does not return valid=%t for body %.200q", i, cases[i].Valid, cases[i].Body)
	}
}

// nodeCases returns signed deliveries with text bodies: the JavaScript library verifies strings only, so bodies that
// are not UTF-8 are tested with the Go library (TestSignVerifiesWithOfficialGoLibrary).
func nodeCases(t *testing.T) []nodeCase {
	t.Helper()
	current, old := NewSecret(), mustParse(t, knownSecret)
	sign := func(id string, ts time.Time, body string, reader Secret) nodeCase {
		return nodeCase{
			Secret: reader.Reveal(),
			Headers: map[string]string{
				"webhook-id":        id,
				"webhook-timestamp": strconv.FormatInt(ts.Unix(), 10),
				"webhook-signature": Sign([]Secret{current, old}, id, ts, []byte(body)),
			},
			Body:  body,
			Valid: true,
		}
	}
	now := time.Now()
	var cases []nodeCase
	for _, body := range []string{
		"", `{"type":"a.b","data":{}}`, "{\r\n \"a\": 1,\"a\":2 }", `"héllo ✓ 😀"`, "a=1&b=2", "1.2.3"} {
		cases = append(cases, sign("evt_01J", now, body, current), sign("evt_01J", now, body, old))
	}
	tampered := sign("evt_01J", now, `{"amount":1}`, current)
	tampered.Body, tampered.Valid = `{"amount":2}`, false
	stranger := sign("evt_01J", now, `{}`, NewSecret())
	stranger.Valid = false
	stale := sign("evt_01J", now.Add(-time.Hour), `{}`, current)
	stale.Valid = false
	return append(cases, tampered, stranger, stale)
}
