package apply

import (
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
	"github.com/eventrelay/relay/pkg/nearest"
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
	at      position
	members map[string]any // JSON values; secrets resolved
	// references maps the paths of members to the references that stand in the file in place of their values.
	references   map[string]string
	destinations []*entry // of an endpoint
}

func (e *entry) text(member string) string {
	s, _ := e.members[member].(string)
	return s
}

// file is a file that was read without a fault.
type file struct {
	endpoints []*entry
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

// read reads a YAML document {endpoints: […]}.
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
	r.eachMember(root, []string{"endpoints"}, func(_ string, _, value *yaml.Node) { list = value })
	if list == nil {
		r.fail(root, "has no member endpoints: a list of endpoints")
		return
	}
	names := map[string]*yaml.Node{}
	for i, n := range r.items(list) {
		e := r.entry(n, endpointShape(), fmt.Sprint(i))
		name := e.text("name")
		if first, twice := names[name]; name == "" {
			r.fail(n, "an endpoint has no name; endpoints are recognised by it")
		} else if twice {
			r.fail(n, "a second endpoint has the name %q of the one in line %d", name, first.Line)
		}
		names[name] = n
		r.out.endpoints = append(r.out.endpoints, e)
	}
}

// entry reads an endpoint or a destination.
func (r *reader) entry(n *yaml.Node, s *shape, path string) *entry {
	e := &entry{at: position{n.Line, n.Column}, references: map[string]string{}, members: map[string]any{}}
	if n.Kind == yaml.ScalarNode && s.members["url"] != nil { // the short form of a destination
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{
			{Kind: yaml.ScalarNode, Tag: "!!str", Value: "url", Line: n.Line, Column: n.Column}, n}}
	}
	r.eachMember(n, slices.Sorted(maps.Keys(s.members)), func(name string, _, value *yaml.Node) {
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
		if line, twice := known[key]; twice {
			r.fail(n, "is the same destination as the one in line %d; give each a name of its own", line)
		}
		known[key] = n.Line
		out = append(out, d)
	}
	return out
}

// value returns a value as JSON. path.name is its place, e the endpoint or destination that it belongs to.
func (r *reader) value(n *yaml.Node, s *shape, e *entry, path, name string) any {
	n = r.resolve(n)
	r.out.positions[path+"."+name] = position{n.Line, n.Column}
	if n.ShortTag() == "!!null" {
		if !s.nullable {
			r.fail(n, "%s cannot be null; leave it out to leave it as it is", name)
		}
		return nil
	}
	switch {
	case s.members != nil:
		out := map[string]any{}
		r.eachMember(n, slices.Sorted(maps.Keys(s.members)), func(member string, _, v *yaml.Node) {
			out[member] = r.value(v, s.members[member], e, path, name+"."+member)
		})
		return out
	case s.values != nil:
		out := map[string]any{}
		r.eachMember(n, nil, func(member string, _, v *yaml.Node) {
			out[member] = r.value(v, s.values, e, path, name+"."+member)
		})
		return out
	case s.kind == secrets:
		var out []any
		for i, item := range r.items(n) {
			out = append(out, r.value(item, of(secret), e, path, fmt.Sprintf("%s[%d]", name, i)))
		}
		return out
	case s.kind == secret, s.kind == address, s.kind == header:
		return r.reference(n, s.kind, e, name)
	case s.kind == operations && n.Kind == yaml.SequenceNode:
		return map[string]any{"ops": r.json(n, 0)}
	}
	return r.json(n, 0)
}

// referenceForm matches env:NAME and file:PATH.
var referenceForm = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`)

// reference reads a text that may be, or for a secret must be, a reference to where the text is.
func (r *reader) reference(n *yaml.Node, k kind, e *entry, name string) any {
	text, isText := r.json(n, 0).(string)
	credential := k == secret || k == header && config.CredentialHeader(name[strings.LastIndex(name, ".")+1:])
	switch {
	case !isText:
		r.fail(n, "%s must be a text", name)
		return ""
	case !referenceForm.MatchString(text) && credential:
		r.fail(n, "%s is a secret and must be a reference: env:NAME or file:PATH", name)
		return ""
	case !referenceForm.MatchString(text):
		return text
	}
	e.references[name] = text
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
		r.fail(n, "%s: %s: %v", name, e.references[name], err)
	}
	return text
}

// eachMember calls f for each member of an object. known has the names that are allowed; nil = any.
func (r *reader) eachMember(n *yaml.Node, known []string, f func(name string, key, value *yaml.Node)) {
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
			if near := nearest.Name(name, known, maxTypos); near != "" {
				advice = "did you mean " + near + "?"
			}
			r.fail(key, "unknown member %s; %s", name, advice)
		default:
			f(name, key, n.Content[i+1])
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
		r.eachMember(n, nil, func(name string, _, v *yaml.Node) { out[name] = r.json(v, depth+1) })
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
	}
	var v any
	if err := n.Decode(&v); err != nil {
		r.fail(n, "%v", err)
	} else if _, err := json.Marshal(v); err != nil || n.ShortTag() == "!!binary" {
		r.fail(n, "%s has no form in JSON", n.Value)
	}
	return v
}
