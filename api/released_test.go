package api_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/pkg/testkit"
)

// released is the document of the last release, to which clients were written. There is no release yet: until there
// is, it is the document as it was when it was first whole, and may be replaced.
const released = "released/openapi.yaml"

// oasdiffPath builds the tool that knows what of an OpenAPI document breaks a client.
var oasdiffPath = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-n", "-modfile=../deploy/openapi/go.mod", "oasdiff")
	var told bytes.Buffer
	cmd.Stderr = &told // of what is downloaded first, among other things
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, told.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
})

func oasdiff(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := oasdiffPath()
	if err != nil {
		testkit.Absent(t, "oasdiff cannot be built: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	return string(out), err
}

func TestDocumentIsValid(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a tool")
	}
	if out, err := oasdiff(t, "validate", "--fail-on", "WARN", "openapi.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("openapi: 3.1.1\ninfo: {title: x}\npaths: {/a: {get: {responses: 7}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := oasdiff(t, "validate", "--fail-on", "WARN", broken); err == nil {
		t.Errorf("a broken document passes:\n%s", out)
	}
}

func TestNothingReleasedIsTakenAway(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a tool")
	}
	if out, err := oasdiff(t, "breaking", "--fail-on", "WARN", released, "openapi.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, gone := range takenAway(readYAML(t, released), readYAML(t, "openapi.yaml"), "") {
		t.Error(gone)
	}
}

// What oasdiff, or the comparison below, must say no to: one change of the document each.
func TestBreakingChangesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a tool")
	}
	text, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f := func(name, old, replacement string) {
		t.Helper()
		changed := strings.Replace(string(text), old, replacement, 1)
		if changed == string(text) {
			t.Fatalf("%s: the document has no %q", name, old)
		}
		path := filepath.Join(t.TempDir(), "openapi.yaml")
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if len(takenAway(readYAML(t, "openapi.yaml"), readYAML(t, path), "")) > 0 {
			return
		}
		if out, err := oasdiff(t, "breaking", "--fail-on", "WARN", "openapi.yaml", path); err == nil {
			t.Errorf("%s passes:\n%s", name, out)
		}
	}
	f("a path is gone", "\n  /v1/me:", "\n  /v1/self:")
	f("a method is gone", "    delete:\n      operationId: deleteEndpoint", "    put:\n      operationId: deleteEndpoint")
	f("a member of an answer is gone", "        key_name: {type: string}\n", "")
	f("a member of an answer may be left out", "required: [account_id, key_id, ", "required: [key_id, ")
	f("a member of an answer is something else", "        agent: {type: boolean,", "        agent: {type: string,")
	f("a word of an answer is gone", "x-extensible-enum: [provider, api, test]", "x-extensible-enum: [provider, api]")
	f("a status of an event is gone", "enum: [pending, retrying, delivered, failed, skipped, rejected]", "enum: [pending, retrying, delivered, failed, skipped]")
	f("a word of a request is gone", "enum: [schedule, exponential, linear, none]", "enum: [schedule, exponential, linear]")
	f("a bound of a request is smaller", "timeout_seconds: {type: integer, minimum: 1, maximum: 60, d", "timeout_seconds: {type: integer, minimum: 1, maximum: 30, d")
	f("a request needs more", "        name: {type: [string, \"null\"], maxLength: 100}\n        url: {$ref: \"#/components/schemas/DestinationURL\"}\n",
		"        name: {type: string, maxLength: 100}\n        url: {$ref: \"#/components/schemas/DestinationURL\"}\n")
	f("a status is gone", "        \"429\": {$ref: \"#/components/responses/TooManyRequests\"}\n", "")
	f("a header is gone", "            ETag: {$ref: \"#/components/headers/ETag\"}\n", "")
	f("a filter is gone", "        - name: run_id\n          in: query", "        - name: run\n          in: query")
}

func readYAML(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// takenAway finds what oasdiff does not look at or takes for harmless: words, statuses, members and headers that
// the new document has no longer. Schemas are compared by their place, so one that moved is not looked at here.
func takenAway(before, after any, at string) (gone []string) {
	old, isMap := before.(map[string]any)
	now, still := after.(map[string]any)
	if !isMap || !still {
		return nil
	}
	_, name, _ := cutLast(at, "/")
	for _, key := range slices.Sorted(maps.Keys(old)) {
		value, there := now[key]
		if !there && slices.Contains([]string{"responses", "headers", "properties", "paths"}, name) {
			gone = append(gone, at+"/"+key+" is gone")
		}
		if words, ok := old[key].([]any); ok && (key == "enum" || key == "x-extensible-enum") && there {
			rest, _ := value.([]any)
			for _, word := range words {
				if !slices.Contains(rest, word) {
					gone = append(gone, fmt.Sprintf("%s/%s has no %v any more", at, key, word))
				}
			}
		}
		gone = append(gone, takenAway(old[key], value, at+"/"+key)...)
	}
	return gone
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
