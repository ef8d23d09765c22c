package apply

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
)

// What is done with an endpoint.
const (
	Create    = "create"
	Update    = "change"
	Delete    = "delete"
	Unchanged = "unchanged"
)

// Change is what the file makes of one endpoint.
type Change struct {
	Action string  `json:"action"`
	Name   string  `json:"name"`
	ID     string  `json:"id,omitempty"`
	Fields []Field `json:"fields"`
	Done   bool    `json:"done"`
	// Warnings are those of the service, and what an operator must know about secrets.
	Warnings []string `json:"warnings,omitempty"`

	index int            // of the endpoint in the file
	body  map[string]any // of the request
	tag   string         // ETag of the endpoint that was compared
	// hidden is whether the body has secrets, which the service compares when it gets them.
	hidden bool
}

// Field is one difference. Secrets are shown as their references and as the service masks them.
type Field struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// absent is shown for a value that is not there.
const absent = "(none)"

// comparer finds the differences between an entry of the file and what the service shows.
type comparer struct {
	entry  *entry
	label  string // put before the paths of fields
	prune  bool
	fields []Field
	hidden bool
}

// create returns the change that creates an endpoint.
func create(index int, e *entry) *Change {
	c := compare(e, endpointShape(), nil, "", false)
	change := &Change{Action: Create, Name: e.text("name"), index: index, Fields: c.fields, body: maps.Clone(e.members)}
	var list []any
	for _, d := range e.destinations {
		list = append(list, d.members)
		label := "destinations[" + labelOf(d) + "]."
		change.Fields = append(change.Fields, compare(d, destinationShape(), nil, label, false).fields...)
		if _, given := d.references["signing.secret"]; !given {
			change.Warnings = append(change.Warnings, "destinations["+labelOf(d)+"]: its signing secret is generated and not "+
				"shown here; give one as signing.secret: env:NAME, or rotate it to see a new one")
		}
	}
	change.body["destinations"] = list
	return change
}

// update returns the change that makes have, an endpoint of the service, what the entry says.
func update(index int, e *entry, have map[string]any, tag string, prune bool) (*Change, error) {
	c := compare(e, endpointShape(), have, "", prune)
	change := &Change{Action: Update, Name: e.text("name"), ID: textOf(have, "id"), index: index, tag: tag,
		body: bodyOf(e, c, endpointShape())}
	change.Fields, change.hidden = c.fields, c.hidden
	if e.destinations != nil {
		if err := change.destinations(e, have, prune); err != nil {
			return nil, err
		}
	}
	if len(change.Fields) == 0 {
		change.Action = Unchanged
	}
	return change, nil
}

// destinations adds the differences of the destinations, and the complete list to the body.
func (x *Change) destinations(e *entry, have map[string]any, prune bool) error {
	left, _ := have["destinations"].([]any)
	matched, left, err := match(e.destinations, left)
	if err != nil {
		return err
	}
	before := len(x.Fields)
	var list []any
	for i, d := range e.destinations {
		label := "destinations[" + labelOf(d) + "]."
		if matched[i] == nil {
			list = append(list, d.members)
			x.Fields = append(x.Fields, compare(d, destinationShape(), nil, label, false).fields...)
			continue
		}
		found := compare(d, destinationShape(), matched[i], label, prune)
		x.Fields, x.hidden = append(x.Fields, found.fields...), x.hidden || found.hidden
		body := bodyOf(d, found, destinationShape())
		body["id"] = textOf(matched[i], "id")
		list = append(list, body)
	}
	for _, each := range left {
		other, _ := each.(map[string]any)
		if !prune {
			list = append(list, map[string]any{"id": textOf(other, "id")})
			continue
		}
		label := cmp.Or(textOf(other, "name"), origin(textOf(other, "url")))
		x.Fields = append(x.Fields, Field{"destinations[" + label + "]", textOf(other, "id"), absent})
	}
	if len(x.Fields) > before || x.hidden {
		x.body["destinations"] = list
	}
	return nil
}

// match finds the destination of the service for each of the file: by name, else by URL. It also returns those that are
// left.
func match(want []*entry, have []any) (matched []map[string]any, left []any, err error) {
	matched, left = make([]map[string]any, len(want)), slices.Clone(have)
	take := func(i int, member string, same func(map[string]any) bool) error {
		var found []int
		for j, x := range left {
			if d, ok := x.(map[string]any); ok && same(d) {
				found = append(found, j)
			}
		}
		if len(found) == 0 {
			return nil
		}
		if len(found) > 1 && member == "name" {
			first, second := left[found[0]].(map[string]any), left[found[1]].(map[string]any)
			return fmt.Errorf("two destinations have the name %q: %s and %s; rename or remove one of them",
				want[i].text("name"), textOf(first, "id"), textOf(second, "id"))
		}
		matched[i] = left[found[0]].(map[string]any)
		left = slices.Delete(left, found[0], found[0]+1)
		return nil
	}
	for i, d := range want {
		if name := d.text("name"); name != "" {
			err := take(i, "name", func(x map[string]any) bool { return textOf(x, "name") == name })
			if err != nil {
				return nil, nil, err
			}
		}
	}
	for i, d := range want {
		if matched[i] == nil {
			_ = take(i, "url", func(x map[string]any) bool { return sameURL(textOf(x, "url"), d.text("url")) })
		}
	}
	return matched, left, nil
}

// bodyOf returns the members that differ, and those with secrets: only the service can compare them.
func bodyOf(e *entry, c *comparer, s *shape) map[string]any {
	body := map[string]any{}
	for name, v := range e.members {
		differs := slices.ContainsFunc(c.fields, func(f Field) bool {
			path := strings.TrimPrefix(f.Path, c.label)
			return path == name || strings.HasPrefix(path, name+".") || strings.HasPrefix(path, name+"[")
		})
		refers := slices.ContainsFunc(slices.Collect(maps.Keys(e.references)), func(path string) bool {
			return strings.HasPrefix(path, name+".")
		})
		if !differs && !refers {
			continue
		}
		body[name] = v
		free, isObject := v.(map[string]any)
		if s.members[name].values == nil || !isObject {
			continue
		}
		free = maps.Clone(free) // members that --prune removes
		for _, f := range c.fields {
			member, ok := strings.CutPrefix(strings.TrimPrefix(f.Path, c.label), name+".")
			if _, given := free[member]; ok && !given {
				free[member] = nil
			}
		}
		body[name] = free
	}
	return body
}

// compare compares what the entry says with have; nil = there is nothing yet.
func compare(e *entry, s *shape, have map[string]any, label string, prune bool) *comparer {
	c := &comparer{entry: e, label: label, prune: prune}
	for _, name := range slices.Sorted(maps.Keys(e.members)) {
		c.value(e.members[name], have[name], s.members[name], name)
	}
	return c
}

func (c *comparer) value(want, have any, s *shape, path string) {
	object, isObject := want.(map[string]any)
	current, _ := have.(map[string]any)
	switch {
	case isObject && s.members != nil:
		for _, name := range slices.Sorted(maps.Keys(object)) {
			below := current[name]
			if s.members[name].kind == secret || s.members[name].kind == secrets {
				below = current["secret_last4"]
			}
			c.value(object[name], below, s.members[name], path+"."+name)
		}
	case isObject && s.values != nil:
		for _, name := range slices.Sorted(maps.Keys(object)) {
			c.value(object[name], memberFold(current, name, s.values.kind == header), s.values, path+"."+name)
		}
		for _, name := range slices.Sorted(maps.Keys(current)) {
			if c.prune && !hasFold(object, name, s.values.kind == header) {
				c.add(path+"."+name, display(current[name]), absent)
			}
		}
	case s.kind == secret:
		c.secret(want, have, path, path)
	case s.kind == secrets:
		list, _ := want.([]any)
		if len(list) > 0 {
			c.secret(list[0], have, path, path+"[0]")
		}
	case !same(want, have, s.kind):
		c.add(path, c.show(have, s, path), c.show(want, s, path))
	default:
		c.hidden = c.hidden || c.entry.references[path] != ""
	}
}

// secret compares a secret with the last four characters that the service shows of it.
func (c *comparer) secret(want, have any, path, reference string) {
	c.hidden = true
	text, _ := want.(string)
	shown, known := have.(string)
	if !known {
		c.add(path, absent, c.entry.references[reference])
	} else if tail := maskOf(text); tail != mask+shown && !strings.HasSuffix(text, shown) || shown == "" && tail != mask {
		c.add(path, mask+shown, c.entry.references[reference])
	}
}

func (c *comparer) add(path, before, after string) {
	c.fields = append(c.fields, Field{c.label + path, before, after})
}

// show returns a value for people. A reference is shown in place of what it stands for, a URL without its path.
func (c *comparer) show(v any, s *shape, path string) string {
	text, isText := v.(string)
	reference := c.entry.references[path]
	switch {
	case v == nil:
		return absent
	case reference != "" && reflect.DeepEqual(v, c.wanted(path)):
		return reference
	case s.kind == address && isText:
		return origin(text)
	case reference != "" && isText && !strings.HasPrefix(text, mask):
		return mask
	}
	return display(v)
}

// wanted returns the value of the file at a path.
func (c *comparer) wanted(path string) any {
	name, rest, below := strings.Cut(path, ".")
	v := c.entry.members[name]
	if object, ok := v.(map[string]any); ok && below {
		return object[rest]
	}
	return v
}

// mask stands for the hidden part of a secret in answers of the service.
const mask = "****"

// maskOf returns the mask of a secret as the service shows it: its last four bytes if it has 12 or more.
func maskOf(text string) string {
	if len(text) < 12 {
		return mask
	}
	return mask + text[len(text)-4:]
}

// same compares a value of the file with one of the service.
func same(want, have any, k kind) bool {
	text, isText := want.(string)
	other, otherText := have.(string)
	switch {
	case k == address && isText && otherText:
		return sameURL(text, other)
	case k == header && isText && otherText:
		return text == other || strings.HasPrefix(other, mask) && maskOf(text) == other
	case k == timestamp && isText && otherText:
		a, err := time.Parse(time.RFC3339, text)
		b, otherErr := time.Parse(time.RFC3339, other)
		return err == nil && otherErr == nil && a.Truncate(time.Millisecond).Equal(b)
	}
	return reflect.DeepEqual(comparable(want), comparable(have))
}

// comparable returns a JSON value with numbers as float64, and without members whose value says nothing: the service
// leaves them out.
func comparable(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = comparable(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, x := range v {
			if x = comparable(x); x != nil && x != false {
				out[name] = x
			}
		}
		return out
	}
	return v
}

func sameURL(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	if errX != nil || errY != nil {
		return a == b
	}
	for _, u := range []*url.URL{x, y} {
		u.Host = strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	}
	return x.String() == y.String()
}

// origin returns scheme and host of a URL; its path may be a capability.
func origin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "(no URL)"
	}
	if u.Path == "" && u.RawQuery == "" {
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + "://" + u.Host + "/…"
}

func labelOf(d *entry) string {
	return cmp.Or(d.text("name"), d.references["url"], origin(d.text("url")))
}

// maxShown bounds a value that is shown, in bytes.
const maxShown = 200

func display(v any) string {
	if v == nil {
		return absent
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(b) > maxShown {
		return strings.ToValidUTF8(string(b[:maxShown]), "") + "…"
	}
	return string(b)
}

func textOf(object map[string]any, member string) string {
	s, _ := object[member].(string)
	return s
}

// memberFold returns a member whose name may differ in upper and lower case, as those of headers do.
func memberFold(object map[string]any, name string, fold bool) any {
	if v, ok := object[name]; ok || !fold {
		return v
	}
	for other, v := range object {
		if strings.EqualFold(other, name) {
			return v
		}
	}
	return nil
}

func hasFold(object map[string]any, name string, fold bool) bool {
	for other := range object {
		if other == name || fold && strings.EqualFold(other, name) {
			return true
		}
	}
	return false
}
