package apply

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Bounds of a file.
const (
	maxFile   = 4 << 20 // bytes
	maxValues = 200_000 // values, with those that aliases repeat
	maxDepth  = 100
	maxTypos  = 2 // characters by which a misspelt member may differ from the one that is meant
)

// position is where something stands in the file, both from 1.
type position struct{ line, column int }

// entry is an endpoint or a destination of the file.
type entry struct {
	at           position
	shape        *shape
	members      map[string]any // JSON values; secrets resolved
	leaves       []*leaf        // of members
	destinations []*entry       // of an endpoint
}

// from returns the reference that stands in the file at a path; empty: there is none.
func (e *entry) from(path string) string {
	for _, l := range e.leaves {
		if l.path() == path {
			return l.from
		}
	}
	return ""
}

// leaf is a value that is compared as a whole, or a member of the service that the file leaves out and --prune removes.
type leaf struct {
	keys    []string // names of the members on the way to it
	kind    kind
	value   any
	from    string // the reference that stands in the file in place of the value; of several, the first one
	removed bool
	items   *shape // of a list of objects; nil: it is none
}

func (l *leaf) path() string { return strings.Join(l.keys, ".") }

func (e *entry) text(member string) string {
	s, _ := e.members[member].(string)
	return s
}

// file is a file that was read without a fault.
type file struct {
	endpoints []*entry
	tenants   []map[string]any // with the members of PUT /v1/tenants/{tenant}, and tenant
	// positions has the places of all values by their paths, which begin with the index of the endpoint: 0.name.
	positions map[string]position
}

// reader reads a file. It collects the faults, so that all of them are reported at once.
type reader struct {
	Sources
	name   string
	out    file
	faults []error
	values int
}

// read reads a YAML document {endpoints: […], tenants: […]}.
func read(from io.Reader, name string, sources Sources) (*file, error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes; split it", name, maxFile)
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(raw)))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err) // with the line
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has a second document; put all endpoints into one", name)
	}
	r := &reader{Sources: sources, name: name, out: file{positions: map[string]position{}}}
	r.document(document.Content[0])
	return &r.out, errors.Join(r.faults...)
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("%s:%d:%d: %s", r.name, n.Line, n.Column, fmt.Sprintf(format, args...)))
}

func (r *reader) document(root *yaml.Node) {
	var list *yaml.Node
	r.eachMember(root, []string{"endpoints", "tenants"}, func(name string, value *yaml.Node) {
		if name == "endpoints" {
			list = value
			return
		}
		for _, n := range r.items(value) {
			r.tenant(n)
		}
	})
	if list == nil {
		r.fail(root, "has no member endpoints: a list of endpoints")
		return
	}
	names := map[target]*yaml.Node{}
	for i, n := range r.items(list) {
		e := r.entry(n, endpointShape(), fmt.Sprint(i))
		name := e.text("name")
		of := target{e.text("tenant"), name}
		if first, twice := names[of]; name == "" {
			r.fail(n, "an endpoint has no name; endpoints are recognised by it")
		} else if twice {
			r.fail(n, "a second endpoint has the name %q of the one in line %d", name, first.Line)
		}
		names[of] = n
		r.out.endpoints = append(r.out.endpoints, e)
	}
}

func (r *reader) tenant(n *yaml.Node) {
	members := map[string]any{}
	r.eachMember(n, []string{"tenant", "name", "metadata", "limits", "allowance_events", "portal"},
		func(name string, value *yaml.Node) { members[name] = r.json(value, 0) })
	if textOf(members, "tenant") == "" {
		r.fail(n, "a tenant has no member tenant; it is recognised by it")
	}
	r.out.tenants = append(r.out.tenants, members)
}

// entry reads an endpoint or a destination.
func (r *reader) entry(n *yaml.Node, s *shape, path string) *entry {
	e := &entry{at: position{n.Line, n.Column}, shape: s, members: map[string]any{}}
	if n.Kind == yaml.ScalarNode && s.members["url"] != nil { // the short form of a destination
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{
			{Kind: yaml.ScalarNode, Tag: "!!str", Value: "url", Line: n.Line, Column: n.Column}, n}}
	}
	r.eachMember(n, slices.Sorted(maps.Keys(s.members)), func(name string, value *yaml.Node) {
		if name == "destinations" {
			e.destinations = r.destinations(value, s.members[name].items, path+".destinations")
			return
		}
		e.members[name] = r.value(value, s.members[name], e, path, name)
	})
	return e
}

func (r *reader) destinations(list *yaml.Node, s *shape, path string) []*entry {
	var out []*entry
	known := map[string]int{}
	r.out.positions[path] = position{list.Line, list.Column}
	for i, n := range r.items(list) {
		d := r.entry(n, s, fmt.Sprintf("%s[%d]", path, i))
		r.out.positions[fmt.Sprintf("%s[%d]", path, i)] = d.at
		key := "name " + d.text("name")
		if d.text("name") == "" {
			key = "url " + d.text("url")
		}
		if key == "url " {
			r.fail(n, "a destination without a url has no name; it is recognised by that")
		}
		if line, twice := known[key]; twice {
			r.fail(n, "is the same destination as the one in line %d; give each a name of its own", line)
		}
		known[key] = n.Line
		out = append(out, d)
	}
	return out
}

// value returns a value as JSON. path.keys is its place, e the endpoint or destination that it belongs to.
func (r *reader) value(n *yaml.Node, s *shape, e *entry, path string, keys ...string) any {
	n = r.resolve(n)
	l := &leaf{keys: keys, kind: s.kind}
	r.out.positions[path+"."+l.path()] = position{n.Line, n.Column}
	switch {
	case n.ShortTag() == "!!null":
		if !s.nullable {
			r.fail(n, "%s cannot be null; leave it out to leave it as it is", l.path())
		}
	case s.members != nil, s.values != nil:
		out := map[string]any{}
		r.eachMember(n, slices.Sorted(maps.Keys(s.members)), func(member string, v *yaml.Node) {
			out[member] = r.value(v, cmp.Or(s.values, s.members[member]), e, path, append(slices.Clone(keys), member)...)
		})
		return out
	case s.kind == secrets:
		var out []any
		below := &entry{} // whose leaves are the items
		for i, item := range r.items(n) {
			out = append(out, r.value(item, &shape{kind: secret}, below, path, fmt.Sprintf("%s[%d]", l.path(), i)))
		}
		if l.value = out; len(below.leaves) > 0 {
			l.from = below.leaves[0].from
		}
	case s.items != nil:
		var out []any
		below := &entry{} // whose leaves are the members of the items
		for i, item := range r.items(n) {
			out = append(out, r.value(item, s.items, below, path, fmt.Sprintf("%s[%d]", l.path(), i)))
		}
		l.value, l.items = out, s.items
		for _, x := range below.leaves {
			l.from = cmp.Or(l.from, x.from)
		}
	case s.kind == secret, s.kind == masked, s.kind == address, s.kind == header:
		r.reference(n, l)
	case s.kind == operations && n.Kind == yaml.SequenceNode:
		l.value = map[string]any{"ops": r.json(n, 0)}
	default:
		l.value = r.json(n, 0)
	}
	e.leaves = append(e.leaves, l)
	return l.value
}

// referenceForm matches env:NAME and file:PATH.
var referenceForm = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`)

// reference reads a text that may be, or for a secret must be, a reference to where the text is.
func (r *reader) reference(n *yaml.Node, l *leaf) {
	text, isText := r.json(n, 0).(string)
	l.value = ""
	switch {
	case !isText:
		r.fail(n, "%s must be a text", l.path())
		return
	case !referenceForm.MatchString(text):
		if l.kind == secret || l.kind == masked || l.kind == header && config.CredentialHeader(l.keys[len(l.keys)-1]) {
			r.fail(n, "%s is a secret and must be a reference: env:NAME or file:PATH", l.path())
			return
		}
		l.value = text
		return
	}
	l.from = text
	from, where, _ := strings.Cut(text, ":")
	var err error
	if from == "env" {
		if text = r.Getenv(where); text == "" {
			err = errors.New("the variable is not set")
		}
	} else {
		text, err = r.ReadSecret(where)
	}
	if err != nil {
		r.fail(n, "%s: %s: %v", l.path(), l.from, err)
	}
	l.value = text
}

// eachMember calls f for each member of an object. known has the names that are allowed; nil = any.
func (r *reader) eachMember(n *yaml.Node, known []string, f func(name string, value *yaml.Node)) {
	n = r.resolve(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, "must be an object")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, name := n.Content[i], n.Content[i].Value
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			r.fail(key, "must be a name; merge keys are not supported, write the members out")
		case seen[name]:
			r.fail(key, "the member %s appears twice", name)
		case known != nil && !slices.Contains(known, name):
			advice := "known are " + strings.Join(known, ", ")
			if near := web.Nearest(name, known, maxTypos); near != "" {
				advice = "did you mean " + near + "?"
			}
			r.fail(key, "unknown member %s; %s", name, advice)
		default:
			f(name, n.Content[i+1])
		}
		seen[name] = true
	}
}

func (r *reader) items(n *yaml.Node) []*yaml.Node {
	if n = r.resolve(n); n.Kind != yaml.SequenceNode {
		r.fail(n, "must be a list")
		return nil
	}
	return n.Content
}

// resolve follows an alias and counts the value, since aliases of aliases can multiply without a bound.
func (r *reader) resolve(n *yaml.Node) *yaml.Node {
	if r.values++; r.values == maxValues {
		r.fail(n, "has more than %d values; split the file", maxValues)
	}
	if r.values >= maxValues {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line, Column: n.Column}
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// json returns a YAML value as a JSON value. Numbers keep their digits.
func (r *reader) json(n *yaml.Node, depth int) any {
	n = r.resolve(n)
	if depth > maxDepth {
		r.fail(n, "is nested more than %d deep", maxDepth)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		r.eachMember(n, nil, func(name string, v *yaml.Node) { out[name] = r.json(v, depth+1) })
		return out
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			out[i] = r.json(item, depth+1)
		}
		return out
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!str", "!!timestamp":
		return n.Value
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
		r.fail(n, "the number %s has no form in JSON; write it in decimal digits, or quote it for a text", n.Value)
		return nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		r.fail(n, "%v", err)
	} else if _, err := json.Marshal(v); err != nil || n.ShortTag() == "!!binary" {
		r.fail(n, "%s has no form in JSON", n.Value)
	}
	return v
}
