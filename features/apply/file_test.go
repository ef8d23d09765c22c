package apply

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// sources has one variable and one file.
func sources() Sources {
	return Sources{
		Getenv: func(name string) string { return map[string]string{"SECRET": "planted-secret-1"}[name] },
		ReadSecret: func(path string) (string, error) {
			if path == "/run/token" {
				return "planted-token-1", nil
			}
			return "", errors.New("no such file")
		},
	}
}

// Every fault of a file is reported at once, with line and column.
func TestFaultsOfAFile(t *testing.T) {
	for name, f := range map[string]struct{ text, want string }{
		"empty":    {"", "f.yaml: EOF"},
		"not YAML": {"endpoints: [", "line 1"},
		"no list": {"a: 1",
			"f.yaml:1:1: unknown member a; known are endpoints, tenants|f.yaml:1:1: has no member endpoints"},
		"two documents": {"endpoints: []\n---\nendpoints: []", "second document"},
		"no name":       {"endpoints:\n  - provider: stripe", "f.yaml:2:5: an endpoint has no name"},
		"one name twice": {"endpoints:\n  - name: a\n  - name: a",
			`f.yaml:3:5: a second endpoint has the name "a" of the one in line 2`},
		"tenant without name": {"endpoints: []\ntenants:\n  - {limit: {}}",
			"f.yaml:3:6: unknown member limit; did you mean limits?|f.yaml:3:5: a tenant has no member tenant"},
		"misspelt": {"endpoints:\n  - name: a\n    retry_polcy: {}",
			"f.yaml:3:5: unknown member retry_polcy; did you mean retry_policy?"},
		"unknown below": {"endpoints:\n  - name: a\n    response: {stats: 200}",
			"f.yaml:3:16: unknown member stats; did you mean status?"},
		"member twice": {"endpoints:\n  - name: a\n    dedup: {key: x, key: y}",
			"f.yaml:3:21: the member key appears twice"},
		"null": {"endpoints:\n  - name: a\n    response: null", "f.yaml:3:15: response cannot be null"},
		"secret in clear": {"endpoints:\n  - name: a\n    verification: {secret: abc}",
			"f.yaml:3:28: verification.secret is a secret"},
		"header in clear": {"endpoints:\n  - name: a\n    destinations:\n      - url: https://a.example\n" +
			"        headers: {X-Api-Key: abc}",
			"f.yaml:5:30: headers.X-Api-Key is a secret"},
		"password in clear": {"endpoints:\n  - name: a\n    destinations:\n      - url: https://a.example\n" +
			"        auth: {type: basic, username: a, password: abc}",
			"f.yaml:5:52: auth.password is a secret"},
		"no URL, no name": {"endpoints:\n  - name: a\n    destinations:\n      - kafka: {topic: t}",
			"f.yaml:4:9: a destination without a url has no name"},
		"variable not set": {"endpoints:\n  - name: a\n    verification: {secret: env:NOPE}",
			"env:NOPE: the variable is not set"},
		"no file": {"endpoints:\n  - name: a\n    verification: {secret: file:/nope}",
			"file:/nope: no such file"},
		"one URL twice": {"endpoints:\n  - name: a\n    destinations: [https://a.example, https://a.example]",
			"f.yaml:3:39: is the same destination"},
		"merge key":  {"x: &x {a: 1}\nendpoints:\n  - name: a\n    dedup: {<<: *x}", "merge keys are not supported"},
		"two faults": {"endpoints:\n  - name: a\n    b: 1\n    c: 2", "unknown member b|unknown member c"},
		"no JSON number": {"endpoints:\n  - name: a\n    retry_policy: {max_attempts: 010, initial_seconds: 1_0}",
			"f.yaml:3:34: the number 010 has no form in JSON|the number 1_0"},
		"no JSON":           {"endpoints:\n  - name: a\n    metadata: {a: .inf}", "has no form in JSON"},
		"aliases multiply":  {bomb(), "more than 200000 values"},
		"too long":          {strings.Repeat("#", maxFile+1), "more than 4194304 bytes"},
		"a list of numbers": {"endpoints: [1]", "f.yaml:1:13: must be an object"},
	} {
		_, err := read(strings.NewReader(f.text), "f.yaml", sources())
		for want := range strings.SplitSeq(f.want, "|") {
			is.Failed(t, err, want, name)
		}
		if err != nil && strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: the error shows a secret: %v", name, err)
		}
	}
}

// bomb returns a document whose aliases stand for 10^8 values.
func bomb() string {
	lines := []string{"endpoints:", "  - name: a", "    transformation:",
		"      - &a0 {op: add, value: [1,1,1,1,1,1,1,1,1,1]}"}
	for i := 1; i < 8; i++ {
		alias := "*a" + string(rune('0'+i-1))
		lines = append(lines, "      - &a"+string(rune('0'+i))+" ["+strings.TrimSuffix(strings.Repeat(alias+",", 10),
			",")+"]")
	}
	return strings.Join(lines, "\n")
}

// The file takes each member of the API's documents that can be set, and no other.
func TestFileKnowsEveryMember(t *testing.T) {
	schemas := map[string]any{}
	for _, name := range []string{"endpoints", "destinations", "verification"} {
		raw := must.Get(os.ReadFile("../../api/openapi/" + name + ".yaml"))(t)
		var part struct {
			Components struct{ Schemas map[string]any }
		}
		must.Do(t, yaml.Unmarshal(raw, &part))
		maps.Copy(schemas, part.Components.Schemas)
	}
	generated := must.Get(wire.Schemas(nil))(t)
	for name, text := range generated {
		var schema map[string]any
		must.Do(t, json.Unmarshal(text, &schema))
		part, _ := schemas[name].(map[string]any)
		if byHand, ok := part["properties"].(map[string]any); ok { // some of its members
			maps.Copy(schema["properties"].(map[string]any), byHand)
		}
		schemas[name] = schema
	}
	var compare func(path string, s *shape, schema map[string]any)
	compare = func(path string, s *shape, schema map[string]any) {
		if forms, _ := schema["oneOf"].([]any); len(forms) == 2 && schema["properties"] == nil { // the other one is null
			schema, _ = forms[0].(map[string]any)
		}
		if reference, ok := schema["$ref"].(string); ok {
			next, _ := schemas[reference[strings.LastIndex(reference, "/")+1:]].(map[string]any)
			compare(path, s, next)
			return
		}
		properties, _ := schema["properties"].(map[string]any)
		if s.items != nil {
			of := "DestinationInput"
			if strings.HasSuffix(path, "schemes") {
				of = "SigningSchemeInput"
			}
			properties = schemas[of].(map[string]any)["properties"].(map[string]any)
			s = s.items
		}
		if s.members == nil {
			if len(properties) > 0 && schema["oneOf"] == nil { // of several forms the file passes on any
				t.Errorf("%s has members in the document, and none in the file", path)
			}
			return
		}
		got, want := slices.Sorted(maps.Keys(s.members)), slices.Sorted(maps.Keys(properties))
		if path == "endpoint" {
			want = slices.DeleteFunc(want, func(name string) bool { return name == "url" }) // short for destinations
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the file knows %v, the document has %v", path, got, want)
			return
		}
		for name, below := range s.members {
			next, _ := properties[name].(map[string]any)
			if name == "verification" {
				next = map[string]any{"$ref": "VerificationInput"}
			}
			if name == "ingest_limit" {
				next = map[string]any{"$ref": "IngestLimitInput"}
			}
			compare(path+"."+name, below, next)
		}
	}
	compare("endpoint", endpointShape(), map[string]any{"$ref": "EndpointCreate"})
}
