package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// terraformResources are the operations whose bodies the resources of the Terraform provider have.
var terraformResources = map[string]string{
	"alert_settings": "PATCH /v1/alerts",
	"destination":    "POST /v1/endpoints/{endpoint_id}/destinations",
	"drain":          "POST /v1/drains",
	"endpoint":       "POST /v1/endpoints",
	"event_type":     "PUT /v1/event_types/{event_type_name}",
	"tenant":         "PUT /v1/tenants/{tenant_name}",
	"tenant_key":     "POST /v1/tenants/{tenant_name}/keys",
}

// terraformAttribute is an attribute of a resource, as sdk/terraform reads it.
type terraformAttribute struct {
	Name        string               `json:"name"`
	Type        string               `json:"type"` // string, integer, number, boolean, strings, integers, map, object, or json
	Description string               `json:"description,omitempty"`
	Required    bool                 `json:"required,omitempty"`
	Nullable    bool                 `json:"nullable,omitempty"`
	Enum        []any                `json:"enum,omitempty"` // of a string
	Members     []terraformAttribute `json:"members,omitempty"`
}

// The Terraform provider has the members of the document. Run the test with -update after a change of the document.
func TestTerraformHasEveryMember(t *testing.T) {
	const file = "../sdk/terraform/attributes.json"
	var document map[string]any
	must.Do(t, json.Unmarshal(servedPages(t)["/openapi-compat.json"].Body, &document))
	at := func(v any, names ...string) any {
		for _, name := range names {
			v, _ = v.(map[string]any)[name]
		}
		return v
	}
	// resolved follows references, and reports whether any of the schemas allows null.
	var resolved func(v any) (map[string]any, bool)
	resolved = func(v any) (map[string]any, bool) {
		s := v.(map[string]any)
		nullable, _ := s["nullable"].(bool)
		inner := any(nil)
		if ref, ok := s["$ref"].(string); ok {
			inner = at(document, "components", "schemas", ref[strings.LastIndex(ref, "/")+1:])
		} else if all, ok := s["allOf"].([]any); ok && len(all) == 1 {
			inner = all[0]
		} else {
			return s, nullable
		}
		found, more := resolved(inner)
		if text, ok := s["description"]; ok {
			found = maps.Clone(found)
			found["description"] = text
		}
		return found, nullable || more
	}
	var attributesOf func(s map[string]any) []terraformAttribute
	attributesOf = func(s map[string]any) (all []terraformAttribute) {
		members, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			m, nullable := resolved(members[name])
			if forms, ok := m["oneOf"].([]any); ok { // the one that says most
				most := map[string]any{}
				for _, form := range forms {
					f, _ := resolved(form)
					members, _ := f["properties"].(map[string]any)
					before, _ := most["properties"].(map[string]any)
					if len(members) > len(before) || f["type"] == "array" || len(most) == 0 {
						most = maps.Clone(f)
					}
				}
				delete(most, "required")
				most["description"] = m["description"]
				m = most
			}
			a := terraformAttribute{Name: name, Type: "json", Nullable: nullable, Required: slices.Contains(required, any(name))}
			a.Description, _ = m["description"].(string)
			kind, _ := m["type"].(string)
			if a.Enum, _ = m["enum"].([]any); slices.Contains(a.Enum, nil) {
				a.Enum = slices.DeleteFunc(slices.Clone(a.Enum), func(x any) bool { return x == nil })
			}
			switch free, isMap := m["additionalProperties"].(map[string]any); {
			case kind == "array":
				items, _ := resolved(m["items"])
				if of, _ := items["type"].(string); of == "string" || of == "integer" {
					a.Type = of + "s"
				}
			case kind == "object" && m["properties"] != nil && name != "transformation":
				a.Type, a.Members = "object", attributesOf(m)
			case kind == "object" && isMap && free["type"] == "string":
				a.Type = "map"
			case kind != "" && kind != "object":
				a.Type = kind
			}
			all = append(all, a)
		}
		return all
	}
	resources := map[string][]terraformAttribute{}
	for name, operation := range terraformResources {
		method, path, _ := strings.Cut(operation, " ")
		body, _ := resolved(at(document, "paths", path, strings.ToLower(method), "requestBody", "content",
			"application/json", "schema"))
		resources[name] = attributesOf(body)
	}
	got := append(must.Get(json.MarshalIndent(resources, "", " "))(t), '\n')
	if flag.Lookup("update").Value.String() == "true" {
		must.Do(t, os.WriteFile(file, got, 0o644))
	}
	if want := must.Get(os.ReadFile(file))(t); !bytes.Equal(got, want) {
		t.Error("the attributes differ from the document; run the test with -update")
	}
}
