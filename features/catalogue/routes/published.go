package routes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/pkg/config"
)

// maxShown bounds the schema of a type whose fields are listed, in bytes with its references replaced.
const maxShown = 256 << 10

// Version changes with what Published returns. public is false if nobody else may see the catalogue.
func (a *Catalogue) Version() (version string, public bool) {
	if a.config.Account() == nil {
		return "", false
	}
	s := a.config.Settings()
	types := a.config.EventTypes(s.Account)
	newest := int64(0)
	for _, x := range types {
		newest = max(newest, x.Rev)
	}
	return fmt.Sprint(s.Rev, len(types), newest), s.Catalogue.Public
}

// Published returns the catalogue for everybody: its title, its types, and both as an OpenAPI document.
func (a *Catalogue) Published() (heading string, types []features.EventType, document []byte, err error) {
	s := a.config.Settings()
	all := a.config.EventTypes(s.Account)
	for _, x := range all {
		if x.Internal {
			continue
		}
		shown := features.EventType{Name: x.Name, Description: x.Description, Group: x.Group, Deprecated: x.Deprecated}
		if v := x.Newest(); v != nil {
			shown.Version, shown.Schema, shown.Raw, shown.Example = v.Version, shownSchema(v), readable(v.Schema),
				readable(v.Example)
		}
		types = append(types, shown)
	}
	document, err = documentOf(all, title(s), true)
	return title(s), types, document, err
}

// readable returns JSON as people write it.
func readable(raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(decoded(raw)) // it is JSON
	return strings.TrimSpace(b.String())
}

// shownSchema returns a schema with its references replaced by what they name, nil if it is too long for that.
func shownSchema(v *config.SchemaVersion) []byte {
	root := decoded(v.Schema)
	d := document{object{"": root}}
	size := 0
	var inline func(any) any
	inline = func(x any) any {
		if size += 16; size > maxShown { // a rough count of bytes, so that nothing large is made
			return true
		}
		switch x := x.(type) {
		case object:
			if ref, isRef := x["$ref"].(string); isRef {
				target, _ := placeOf(ref)
				named := inline(d.at(append(place{""}, target...)))
				out, isObject := named.(object)
				for name, item := range x {
					if isObject && name != "$ref" && name != "$defs" {
						out[name] = inline(item)
					}
				}
				return named
			}
			out := object{}
			for name, item := range x {
				if size += len(name); name != "$defs" {
					out[name] = inline(item)
				}
			}
			return out
		case []any:
			out := make([]any, len(x))
			for i, item := range x {
				out[i] = inline(item)
			}
			return out
		case string:
			size += len(x)
		case json.Number:
			size += len(x)
		}
		return x
	}
	text, err := json.Marshal(inline(root))
	if err != nil || size > maxShown || string(text) == "null" {
		return nil
	}
	return text
}
