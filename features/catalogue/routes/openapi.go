package routes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/schema"
	"github.com/eventrelay/relay/pkg/web"
)

// An OpenAPI document shows what receivers get: the data of an event within its envelope. Schemas refer to their own
// parts by the place of these in the document, so that an import can tell them from components. What OpenAPI has no
// words for stands in the member extension of an operation.

type object = map[string]any

const (
	extension = "x-eventrelay"
	jsonType  = "application/json"
	// maxRefs bounds the references that are followed one after the other.
	maxRefs = 20
)

// extended is what the member extension says of a type.
type extended struct {
	Version   int               `json:"version"`
	CreatedAt time.Time         `json:"created_at"`
	Internal  bool              `json:"internal,omitempty"`
	Earlier   []extendedVersion `json:"earlier,omitempty"`
}

type extendedVersion struct {
	Version   int       `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	Schema    any       `json:"schema"`
	Example   any       `json:"example,omitempty"`
}

// envelope are the members of a delivered event in its schema.
func envelope(name string, data any) object {
	return object{
		"type": "object", "required": []any{"id", "type", "timestamp", "data"},
		"properties": object{
			"id":        object{"type": "string", "description": "The same in every attempt."},
			"type":      object{"const": name},
			"timestamp": object{"type": "string", "format": "date-time"},
			"data":      data,
		},
	}
}

// isEnvelope reports whether a schema is that of a whole delivery.
func isEnvelope(s object) bool {
	p, _ := s["properties"].(object)
	return p["type"] != nil && p["timestamp"] != nil && p["data"] != nil
}

// place is where a value stands in a document: the names that lead to it.
type place []string

func (p place) of(names ...string) place { return append(slices.Clip(p), names...) }

// ref returns the reference to the place.
func (p place) ref() string {
	var b strings.Builder
	b.WriteByte('#')
	for _, name := range p {
		b.WriteString("/" + url.PathEscape(schema.Escape(name)))
	}
	return b.String()
}

// placeOf returns the place that a local reference names.
func placeOf(ref string) (place, bool) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil, false
	}
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	return schema.Tokens(path), true
}

// withRefs returns a copy of a schema with its references changed.
func withRefs(v any, change func(string) string) any {
	switch x := v.(type) {
	case object:
		out := make(object, len(x))
		for name, item := range x {
			if text, isText := item.(string); isText && name == "$ref" {
				out[name] = change(text)
				continue
			}
			out[name] = withRefs(item, change)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, item := range x {
			out[i] = withRefs(item, change)
		}
		return out
	}
	return v
}

// movedTo returns a schema that stands at a place of a document.
func movedTo(p place, raw []byte) any {
	return withRefs(decoded(raw), func(ref string) string { return p.ref() + strings.TrimPrefix(ref, "#") })
}

// decoded returns valid JSON as a value.
func decoded(raw []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

var notInOperationID = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// documentOf returns the OpenAPI document of types. The public one has no internal types, and nothing of our own.
func documentOf(types []*config.EventType, title string, public bool) ([]byte, error) {
	webhooks, tags, ids, groups := object{}, []any{}, map[string]bool{}, map[string]bool{}
	for _, x := range types {
		if public && x.Internal {
			continue
		}
		if x.Group != "" && !groups[x.Group] {
			groups[x.Group] = true
			tags = append(tags, object{"name": x.Group, "description": "Events of " + x.Group + "."})
		}
		id := notInOperationID.ReplaceAllString(x.Name, "_")
		for n := 2; ids[id]; n++ {
			id = fmt.Sprintf("%s_%d", notInOperationID.ReplaceAllString(x.Name, "_"), n)
		}
		ids[id] = true
		webhooks[x.Name] = object{"post": operation(x, id, public)}
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0", "webhooks": webhooks, "tags": tags,
		"servers": []any{object{"url": "/", "description": "The service, which sends to the URLs of receivers."}},
		"info":    object{"title": title, "version": "1", "description": "Events that are delivered to your URL by POST."},
	}, "", "  ")
}

// operation returns the operation of a type.
func operation(x *config.EventType, id string, public bool) object {
	op := object{"operationId": id, "summary": x.Name, "security": []any{},
		"responses": object{"2XX": object{"description": "You have received the event."}}}
	if x.Description != "" {
		op["description"] = x.Description
	}
	if x.Group != "" {
		op["tags"] = []any{x.Group}
	}
	if x.Deprecated {
		op["deprecated"] = true
	}
	at := place{"webhooks", x.Name, "post"}
	content, own := object{}, extended{Internal: x.Internal}
	if v := x.Newest(); v != nil {
		own.Version, own.CreatedAt = v.Version, v.CreatedAt
		data := at.of("requestBody", "content", jsonType, "schema", "properties", "data")
		content["schema"] = envelope(x.Name, movedTo(data, v.Schema))
		if v.Example != nil {
			content["example"] = object{"id": "evt_01m7w6h6kk00r00w2s1cbs4f8h", "type": x.Name,
				"timestamp": "2026-08-21T22:24:36.123Z", "data": decoded(v.Example)}
		}
		for i, v := range x.Versions[:len(x.Versions)-1] {
			e := extendedVersion{Version: v.Version, CreatedAt: v.CreatedAt,
				Schema: movedTo(at.of(extension, "earlier", fmt.Sprint(i), "schema"), v.Schema)}
			if v.Example != nil {
				e.Example = decoded(v.Example)
			}
			own.Earlier = append(own.Earlier, e)
		}
	} else {
		content["schema"] = envelope(x.Name, true)
	}
	op["requestBody"] = object{"required": true, "content": object{jsonType: content}}
	if !public {
		op[extension] = own
	}
	return op
}

// document is an OpenAPI document that is imported.
type document struct{ root object }

// at returns the value at a place, nil for none.
func (d document) at(p place) any {
	var v any = d.root
	for _, name := range p {
		x, _ := v.(object)
		if list, isList := v.([]any); isList {
			x = object{}
			for i, item := range list {
				x[fmt.Sprint(i)] = item
			}
		}
		v = x[name]
	}
	return v
}

// follow returns the object at a place, or the one that it refers to, and where that is.
func (d document) follow(p place) (object, place) {
	for range maxRefs {
		x, _ := d.at(p).(object)
		ref, isRef := x["$ref"].(string)
		if !isRef {
			return x, p
		}
		target, ok := placeOf(ref)
		if !ok {
			return nil, nil
		}
		p = target
	}
	return nil, nil
}

// imported is a type of a document. Its versions are empty if it says nothing of its data.
type imported struct {
	of       config.EventType
	versions []config.SchemaVersion // of our own extension, else only the newest, without a number
	own      bool                   // the document has our own extension
}

// readDocument returns the types of a document, by name.
func readDocument(body []byte) ([]imported, error) {
	root, _ := decoded(body).(object)
	version, _ := root["openapi"].(string)
	webhooks, isObject := root["webhooks"].(object)
	switch {
	case !strings.HasPrefix(version, "3.1."):
		return nil, web.Invalid("openapi", "must be 3.1.0 or another 3.1")
	case !isObject || len(webhooks) == 0:
		return nil, web.Invalid("webhooks", "must be an object with an entry for each type of events")
	case len(webhooks) > config.MaxEventTypes:
		return nil, web.Invalid("webhooks", "must not have more than %d entries", config.MaxEventTypes)
	}
	d := document{root}
	all := make([]imported, 0, len(webhooks))
	for _, name := range slices.Sorted(maps.Keys(webhooks)) {
		x, err := d.read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, *x)
	}
	return all, nil
}

// read reads one webhook.
func (d document) read(name string) (*imported, error) {
	param := web.TruncateParam("webhooks." + name)
	if err := checkName(name); err != "" {
		return nil, web.Invalid(param, "%s", err)
	}
	item, at := d.follow(place{"webhooks", name})
	for _, method := range []string{"post", "put", "patch", "get", "delete"} {
		if op, isObject := item[method].(object); isObject {
			x := &imported{of: config.EventType{Name: name}}
			if err := d.readOperation(x, op, at.of(method)); err != nil {
				return nil, web.Invalid(param, "%s", err)
			}
			return x, nil
		}
	}
	return nil, web.Invalid(param, "must be an object with the operation post; only references within the document "+
		"are followed")
}

// checkName returns what is wrong with the name of a type.
func checkName(name string) string {
	switch {
	case !event.ValidType(name):
		return event.TypeRule
	case name == "." || name == ".." || slices.Contains(reserved, name):
		return "must not be one of " + strings.Join(reserved, ", ") + ", which are paths of the API"
	}
	return ""
}

func (d document) readOperation(x *imported, op object, at place) error {
	text := func(v any) string { s, _ := v.(string); return s }
	if x.of.Description = text(op["description"]); x.of.Description == "" && text(op["summary"]) != x.of.Name {
		x.of.Description = text(op["summary"])
	}
	if tags, _ := op["tags"].([]any); len(tags) > 0 {
		x.of.Group = text(tags[0])
	}
	x.of.Deprecated = op["deprecated"] == true
	switch {
	case len([]rune(x.of.Description)) > config.MaxTypeDescription:
		return fmt.Errorf("has a description of more than %d characters", config.MaxTypeDescription)
	case len([]rune(x.of.Group)) > config.MaxTypeGroup:
		return fmt.Errorf("has a tag of more than %d characters", config.MaxTypeGroup)
	}
	body, at2 := d.follow(at.of("requestBody"))
	content, _ := body["content"].(object)
	names := slices.Sorted(maps.Keys(content))
	i := slices.IndexFunc(names, func(n string) bool { return n == jsonType || strings.HasSuffix(n, "+json") })
	newest := config.SchemaVersion{}
	if i >= 0 {
		media, _ := content[names[i]].(object)
		if err := d.readMedia(&newest, media, at2.of("content", names[i])); err != nil {
			return err
		}
	}
	if newest.Schema != nil {
		x.versions = []config.SchemaVersion{newest}
	}
	return d.readOwn(x, op[extension], at.of(extension, "earlier"))
}

// readMedia reads schema and example of a body.
func (d document) readMedia(v *config.SchemaVersion, media object, at place) (err error) {
	example := media["example"]
	if examples, _ := media["examples"].(object); example == nil && len(examples) > 0 {
		first, _ := d.follow(at.of("examples", slices.Sorted(maps.Keys(examples))[0]))
		example = first["value"]
	}
	if media["schema"] == nil {
		return nil
	}
	at = at.of("schema")
	if root, there := d.follow(at); isEnvelope(root) {
		at = there.of("properties", "data")
		if whole, isObject := example.(object); isObject {
			example = whole["data"]
		}
	}
	if d.at(at) == true { // of a type without a schema
		return nil
	}
	if v.Schema, err = d.schemaAt(at); err != nil {
		return err
	}
	v.Example, err = exampleOf(example)
	return err
}

// exampleOf returns an example as it is stored.
func exampleOf(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if len(text) > config.MaxEventExample {
		return nil, fmt.Errorf("has an example of more than %d KiB", config.MaxEventExample>>10)
	}
	return text, err
}

// schemaAt returns the schema at a place of the document with everything that it refers to.
func (d document) schemaAt(at place) (json.RawMessage, error) {
	defs, names := object{}, map[string]string{}
	whole := d.at(at)
	root, isObject := whole.(object)
	if own, _ := root["$defs"].(object); own != nil {
		maps.Copy(defs, own)
	}
	var move func(string) string
	move = func(ref string) string {
		target, ok := placeOf(ref)
		if rest, within := strings.CutPrefix(ref, at.ref()); within && (rest == "" || rest[0] == '/') {
			return "#" + rest
		}
		if !ok || len(target) == 0 || d.at(target) == nil {
			return ref // it is refused when the schema is compiled
		}
		name := names[ref]
		if name == "" {
			base := target[len(target)-1]
			name = base
			for n := 2; defs[name] != nil; n++ {
				name = fmt.Sprintf("%s_%d", base, n)
			}
			names[ref], defs[name] = name, true // before what it refers to, which may be itself
			defs[name] = withRefs(d.at(target), move)
		}
		return place{"$defs", name}.ref()
	}
	moved := withRefs(whole, move)
	if isObject && len(names) > 0 {
		out := moved.(object)
		all, _ := out["$defs"].(object)
		if all == nil {
			all = object{}
		}
		for _, name := range names {
			all[name] = defs[name]
		}
		out["$defs"] = all
	}
	text, err := json.Marshal(moved)
	if err != nil {
		return nil, err
	}
	_, err = schema.Compile(text)
	return text, err
}

// readOwn reads what we have written ourselves.
func (d document) readOwn(x *imported, v any, at place) error {
	if v == nil {
		return nil
	}
	text, _ := json.Marshal(v)
	var own extended
	if err := json.Unmarshal(text, &own); err != nil || len(own.Earlier) >= config.MaxSchemaVersions {
		return fmt.Errorf("has a member %s that is not as the export writes it", extension)
	}
	x.own, x.of.Internal = true, own.Internal
	if len(x.versions) == 0 {
		return nil
	}
	newest := x.versions[0]
	newest.Version, newest.CreatedAt = own.Version, own.CreatedAt
	x.versions = nil
	before := 0
	for i, e := range own.Earlier {
		s, err := d.schemaAt(at.of(fmt.Sprint(i), "schema"))
		if err != nil {
			return fmt.Errorf("has an earlier version whose schema %w", err)
		}
		example, err := exampleOf(e.Example)
		if err != nil {
			return err
		}
		x.versions = append(x.versions, config.SchemaVersion{Version: e.Version, CreatedAt: e.CreatedAt, Schema: s,
			Example: example})
	}
	x.versions = append(x.versions, newest)
	for _, v := range x.versions {
		if v.Version <= before || v.Version > config.MaxVersion {
			return fmt.Errorf("has versions in %s that do not ascend", extension)
		}
		before = v.Version
	}
	return nil
}
