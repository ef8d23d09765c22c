package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The document in OpenAPI 3.0 has the operations and schemas of the one in 3.1, and no schema that only 3.1 knows.
func TestCompatDocument(t *testing.T) {
	pages := servedPages(t)
	var whole, compatible map[string]any
	for name, v := range map[string]*map[string]any{"/openapi.json": &whole, "/openapi-compat.json": &compatible} {
		must.Do(t, json.Unmarshal(pages[name].Body, v))
	}
	schemasOf := func(d map[string]any) map[string]any {
		return d["components"].(map[string]any)["schemas"].(map[string]any)
	}
	for _, of := range []func(map[string]any) map[string]any{
		schemasOf, func(d map[string]any) map[string]any { return d["paths"].(map[string]any) },
	} {
		want, got := of(whole), of(compatible)
		for name := range want {
			if got[name] == nil {
				t.Errorf("%s is missing", name)
			}
		}
		is.Equal(t, len(got), len(want), "entries")
	}
	checkCompatible(t, "", schemasOf(compatible))
	for name, s := range schemasOf(compatible) {
		is.Equal(t, s.(map[string]any)["nullable"], nil, "%s itself is nullable:", name)
	}
	if compatible["openapi"] != "3.0.3" || compatible["webhooks"] != nil {
		t.Errorf("version %v, webhooks %v", compatible["openapi"], compatible["webhooks"])
	}
}

// checkCompatible finds keywords and values of 3.1 in schemas.
func checkCompatible(t *testing.T, at string, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			checkCompatible(t, at, element)
		}
	case map[string]any:
		for name, inner := range v {
			_, isList := inner.([]any)
			_, isBool := inner.(bool)
			switch {
			case strings.HasSuffix(at, "/properties"):
				if isBool {
					t.Errorf("%s/%s is a boolean schema", at, name)
				}
			case slices.Contains(compatLeftOut, name), name == "const", name == "type" && (isList || inner == "null"):
				t.Errorf("%s: %s: %v", at, name, inner)
			}
			if name != "example" && name != "default" && name != "enum" {
				checkCompatible(t, at+"/"+name, inner)
			}
		}
	}
}

func TestCompatSchema(t *testing.T) {
	c := compat{named: map[string]any{
		"Time": map[string]any{"type": "string", "format": "date-time"},
		"Dest": map[string]any{"type": "object", "properties": map[string]any{}},
		"Rule": map[string]any{"type": []any{"object", "null"}},
	}}
	for schema, want := range map[string]string{
		`true`: `{}`,
		`{"type":["string","null"],"enum":["a",null]}`: `{"type":"string","enum":["a"],"nullable":true}`,
		`{"type":["string","number","null"]}`:          `{"nullable":true}`,
		`{"oneOf":[{"type":"null"},{"type":"object"},{"type":"array"}],"items":{"type":"string"}}`: `{"nullable":true,
			"oneOf":[{"type":"object"},{"type":"array"}]}`,
		`{"const":"event"}`: `{"enum":["event"]}`,
		`{"$ref":"#/components/schemas/Time","description":"d"}`: `{"$ref":"#/components/schemas/Time"}`,
		`{"description":"d","oneOf":[{"$ref":"#/components/schemas/Time"},{"type":"null"}]}`: `{"description":"d",
			"type":"string","format":"date-time","nullable":true}`,
		`{"oneOf":[{"$ref":"#/components/schemas/Dest"},{"type":"null"}]}`: `{"allOf":[{"$ref":"#/components/schemas/Dest"}],
			"nullable":true}`,
		`{"$ref":"#/components/schemas/Rule"}`: `{"allOf":[{"$ref":"#/components/schemas/Rule"}],"nullable":true}`,
		`{"oneOf":[{"$ref":"#/components/schemas/Rule"},{"type":"string"}]}`: `{"nullable":true,
			"oneOf":[{"$ref":"#/components/schemas/Rule"},{"type":"string"}]}`,
		`{"anyOf":[{"type":"string"},{"type":"array","items":true}]}`: `{"anyOf":[{"type":"string"},
			{"type":"array","items":{}}]}`,
		`{"type":"object","properties":{"id":false,"rule":{"type":"null"},"url":{"type":"string"}},
			"anyOf":[{"required":["url"]},{"required":["id"]}],"not":{"required":["x"]}}`: `{"type":"object",
			"properties":{"url":{"type":"string"}}}`,
		`{"allOf":[{"if":{"required":["a"]},"then":{"required":["b"]}}],"additionalProperties":false}`: `{
			"additionalProperties":false}`,
		`{"type":"array","uniqueItems":true,"items":{"type":["integer","null"]}}`: `{"type":"array",
			"items":{"type":"integer","nullable":true}}`,
	} {
		var in, expected any
		must.Do(t, json.Unmarshal([]byte(schema), &in))
		must.Do(t, json.Unmarshal([]byte(want), &expected))
		is.Equal(t, gocmp.Diff(expected, any(c.schema(in))), "", "%s (-want +got)", schema)
	}
}
