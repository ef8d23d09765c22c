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

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// released is the file of the document that clients rely on, in the folder released. It grows with the service; nothing
// in it is removed or restricted.
const released = "openapi.yaml"

// oasdiffPath builds the tool that finds breaking changes between two OpenAPI documents.
var oasdiffPath = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-n", "-modfile=../tools/go.mod", "oasdiff")
	var output bytes.Buffer
	cmd.Stderr = &output // includes the progress of downloads
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
})

func oasdiff(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := oasdiffPath()
	if err != nil {
		kit.SkipMissing(t, "oasdiff cannot be built: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	return string(out), err
}

func TestDocumentIsValid(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a tool")
	}
	if out, err := oasdiff(t, "validate", "--fail-on", "WARN", documentFile(t)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	must.Do(t, os.WriteFile(broken, []byte("openapi: 3.1.1\ninfo: {title: x}\npaths: {/a: {get: {responses: 7}}}\n"),
		0o600))
	if out, err := oasdiff(t, "validate", "--fail-on", "WARN", broken); err == nil {
		t.Errorf("a broken document passes:\n%s", out)
	}
}

func TestReleasedDocumentIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a tool")
	}
	kit.Freeze(t, released, func() []byte { return []byte(servedDocument(t)) })
	for version := range kit.Released(t, released) {
		before := filepath.Join(kit.Root(t), "test", "released", version, released)
		is.Equal(t, breakingChanges(t, before, documentFile(t)), "", version)
	}
}

// breakingChanges returns the breaking changes between two documents, nothing if all changes are additions.
func breakingChanges(t *testing.T, before, after string) string {
	t.Helper()
	old, now := readYAML(t, before), readYAML(t, after)
	old, now = alike(old, old).(map[string]any), alike(now, now).(map[string]any)
	found := removals(old, now, "")
	var files []string
	for i, document := range []map[string]any{old, now} {
		text := must.Get(yaml.Marshal(document))(t)
		files = append(files, filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i)))
		must.Do(t, os.WriteFile(files[i], text, 0o600))
	}
	// A parameter of a path applies to each of its operations.
	if out, err := oasdiff(t, "breaking", "--flatten-allof", "--flatten-params", "--fail-on", "WARN", files[0],
		files[1]); err != nil {
		found = append(found, err.Error(), out)
	}
	return strings.Join(found, "\n")
}

// alike returns a part of a document as another one would be written that means the same: an alternative to null is a
// type that may be null.
func alike(document map[string]any, part any) any {
	switch part := part.(type) {
	case []any:
		out := make([]any, len(part))
		for i, x := range part {
			out[i] = alike(document, x)
		}
		return out
	case map[string]any:
		whole := map[string]any{}
		for name, x := range part {
			if text, ok := x.(string); ok && name == "pattern" { // a further alternative only accepts more
				x, _, _ = strings.Cut(text, "|^")
			}
			whole[name] = alike(document, x)
		}
		// An endpoint of a tenant may wait for its first destination. Those of before have no tenant.
		if list, ok := at(whole, "properties", "destinations").(map[string]any); ok {
			delete(list, "minItems")
		}
		if ref, ok := whole["$ref"].(string); ok {
			target, _ := at(document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...).(map[string]any)
			if target["type"] == "array" {
				delete(whole, "$ref")
				whole = joined(alike(document, target).(map[string]any), whole)
			}
		}
		list, _ := whole["oneOf"].([]any)
		rest := slices.DeleteFunc(slices.Clone(list), func(x any) bool { return at(x, "type") == "null" })
		if all, ok := whole["allOf"].([]any); ok && len(all) == 1 {
			rest = all
		}
		if words, ok := whole["x-extensible-enum"].([]any); ok { // the type says whether there may be null
			whole["x-extensible-enum"] = slices.DeleteFunc(words, func(x any) bool { return x == nil })
		}
		if len(rest) != 1 || len(list) == 1 {
			return whole
		}
		inner := rest[0].(map[string]any)
		if ref, ok := inner["$ref"].(string); ok {
			inner = alike(document, at(document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)).(map[string]any)
		}
		delete(whole, "allOf")
		delete(whole, "oneOf")
		whole = joined(inner, whole)
		if word, ok := whole["type"].(string); ok && len(list) == 2 {
			whole["type"] = []any{word, "null"}
		}
		return whole
	}
	return part
}

// joined returns the first mapping with what the second one says otherwise.
func joined(of, more map[string]any) map[string]any {
	out := maps.Clone(of)
	maps.Copy(out, more)
	return out
}

// servedDocument returns the document as it is served.
func servedDocument(t *testing.T) string {
	t.Helper()
	text := must.Get(api.OpenAPIDocument())(t)
	return string(text)
}

// documentFile writes the document to a file, for tools.
func documentFile(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "openapi.yaml")
	must.Do(t, os.WriteFile(path, []byte(servedDocument(t)), 0o600))
	return path
}

// documentChange is a change of the document that the comparison must find, or must accept.
type documentChange struct {
	name, old, replacement string
	found                  string // what the comparison says of it; empty for an addition
}

// changed writes the document with all the changes to a file.
func changed(t *testing.T, changes []documentChange) (path string) {
	t.Helper()
	text := servedDocument(t)
	for _, c := range changes {
		after := strings.Replace(text, c.old, c.replacement, 1)
		if after == text {
			t.Fatalf("%s: the document has no %q", c.name, c.old)
		}
		text = after
	}
	path = filepath.Join(t.TempDir(), "openapi.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// strategies is the enum of retry strategies in the document.
var strategies = "          enum:\n" + word + strings.Join(retry.StrategyNames(), "\n"+word) + "\n"

// word precedes a word of an enum.
const word = "            - "

// keyName is a member of an answer in the document.
const keyName = "        key_name:\n          type: string\n"

// inFlight is the upper bound of a member of a request in the document.
const inFlight = "          maximum: 1000\n          minimum: 1\n          type: integer\n        headers:\n" +
	"          $ref"

// sources and transformation are members of answers in the document.
const (
	sources        = "          x-extensible-enum:\n            - provider\n            - api\n            - test\n"
	transformation = "        transformation:\n          description: " +
		"'`null`: bodies are delivered as they are stored.'\n" +
		"          oneOf:\n            - $ref: '#/components/schemas/Transformation'\n"
)

// The comparison must find each of these changes. Changes of one place are in different documents: one would hide the
// other.
func TestBreakingChangesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a tool")
	}
	whole := documentFile(t)
	for _, changes := range [][]documentChange{
		{
			{"a path is gone", "\n  /v1/me:", "\n  /v1/self:",
				"/paths//v1/me is gone"},
			{"a word of an answer is gone", sources, strings.Replace(sources, "            - test\n", "", 1),
				"source/x-extensible-enum has no test any more"},
			{"a status of an event is gone", "enum: [pending, retrying, delivered, failed, skipped, rejected]",
				"enum: [pending, retrying, delivered, failed, skipped]",
				"EventStatus/enum has no rejected any more"},
			{"a reason is gone", "x-extensible-enum: [signature_missing, ", "x-extensible-enum: [",
				"EventReason/x-extensible-enum has no signature_missing any more"},
			{"a transformation is something else", transformation,
				strings.Replace(transformation, "$ref: '#/components/schemas/Transformation'", "type: array", 1),
				"transformation` response's property `type` changed"},
			{"a bound of a request is smaller", inFlight,
				strings.Replace(inFlight, "1000", "500", 1),
				"`max_in_flight` request property's max was decreased"},
			{"a status is gone", "        \"429\": {$ref: \"#/components/responses/TooManyRequests\"}\n", "",
				"/paths//v1/endpoints/get/responses/429 is gone"},
			{"an item of the stream is gone", "x-extensible-enum: [ready, event, gap, end]",
				"x-extensible-enum: [ready, event, end]",
				"StreamItem/properties/event/x-extensible-enum has no gap any more"},
		},
		{
			{"a member of an answer is gone", keyName, "",
				"removed the required property `key_name`"},
			{"the reasons are closed", "x-extensible-enum: [signature_missing, ", "enum: [signature_missing, ",
				"EventReason is no open set any more"},
		},
		{
			{"a member of an answer may be null", keyName,
				"        key_name: {type: [string, \"null\"]}\n",
				"response property `key_name` became nullable"},
		},
	} {
		found := breakingChanges(t, whole, changed(t, changes))
		for _, c := range changes {
			is.Has(t, found, c.found, c.name)
		}
	}
}

// The comparison must accept each of these changes.
func TestAdditionsPass(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a tool")
	}
	const updates = "    EndpointUpdate:\n      properties:\n"
	additions := []documentChange{
		{"a path", "\n  /v1/me:\n", "\n  /v1/more:\n    get:\n      operationId: readMore\n      responses: {\"200\": " +
			"{description: More.}}\n  /v1/me:\n", ""},
		{"a member of an answer", keyName, keyName + "        team: {type: string}\n", ""},
		{"a member of a request", updates, updates + "        team: {type: [object, \"null\"]}\n", ""},
		{"a reason", "x-extensible-enum: [signature_missing, ",
			"x-extensible-enum: [of_a_later_version, signature_missing, ", ""},
		{"a word of an answer", sources, sources + "            - forwarder\n", ""},
		{"a word of a request", strategies, strategies + "            - of_a_later_version\n", ""},
		{"a wider bound", inFlight,
			strings.Replace(inFlight, "1000", "2000", 1), ""},
		{"a filter", "        - name: run_id\n          in: query", "        - name: team\n          in: query\n          " +
			"schema: {type: string}\n        - name: run_id\n          in: query", ""},
		{"an operation", "            - wrap\n            - add\n",
			"            - wrap\n            - add\n            - unwrap\n", ""},
		{"an item of the stream", "x-extensible-enum: [ready, event, gap, end]",
			"x-extensible-enum: [ready, event, gap, end, note]", ""},
	}
	is.Equal(t, breakingChanges(t, documentFile(t), changed(t, additions)), "")
}

func readYAML(t *testing.T, path string) map[string]any {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	var doc map[string]any
	must.Do(t, yaml.Unmarshal(text, &doc))
	return doc
}

// removals returns what oasdiff ignores or considers harmless: removed enum values, statuses, members and headers,
// and open enums that became closed. It compares schemas by their place, so it does not find moved ones.
func removals(before, after any, at string) (gone []string) {
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
		if key == "x-extensible-enum" && !there {
			gone = append(gone, at+" is no open set any more")
		}
		if words, ok := old[key].([]any); ok && (key == "enum" || key == "x-extensible-enum") && there {
			rest, _ := value.([]any)
			for _, word := range words {
				if !slices.Contains(rest, word) {
					gone = append(gone, fmt.Sprintf("%s/%s has no %v any more", at, key, word))
				}
			}
		}
		gone = append(gone, removals(old[key], value, at+"/"+key)...)
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
