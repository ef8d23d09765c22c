package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// step is one step of a path: a member of an object, or an element of an array.
type step struct {
	name  string
	key   string // name as JSON text
	index int    // name as the index of an element; -1 if it is none
	star  bool   // * : each element of an array
	end   bool   // - : the place after the last element, only in the path of add
}

func newStep(name string) step {
	s := step{name: name, key: quote(name), index: -1, star: name == "*"}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && strconv.Itoa(i) == name {
		s.index = i
	}
	return s
}

// quote returns a text as JSON.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic("BUG: " + err.Error()) // strings always encode
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parsePath reads a JSON Pointer or a dotted path. It has at least one step.
func parsePath(text string) ([]step, error) {
	switch {
	case text == "":
		return nil, fmt.Errorf("must not be empty; write /name or name")
	case len(text) > MaxPath:
		return nil, fmt.Errorf("must have at most %d bytes, and has %d; name a place nearer to the root", MaxPath, len(text))
	case !utf8.ValidString(text):
		return nil, fmt.Errorf("must be UTF-8")
	}
	names, pointer := strings.Split(strings.TrimPrefix(text, "$."), "."), text[0] == '/'
	if pointer {
		names = strings.Split(text[1:], "/")
	}
	if len(names) > MaxSteps {
		return nil, fmt.Errorf("must have at most %d steps: bodies are not nested deeper", MaxSteps)
	}
	path := make([]step, len(names))
	for i, name := range names {
		switch {
		case pointer && !validEscapes(name):
			return nil, fmt.Errorf("has a ~ that is not followed by 0 or 1; in a JSON Pointer ~0 is ~ and ~1 is /")
		case pointer:
			name = unescape.Replace(name)
		case name == "":
			return nil, fmt.Errorf("has an empty step; to name a member with a dot write a JSON Pointer, such as /a.b")
		}
		if len(name) > MaxName {
			return nil, fmt.Errorf("must have names of at most %d bytes each; name what holds this member", MaxName)
		}
		path[i] = newStep(name)
	}
	return path, nil
}

func validEscapes(name string) bool {
	return strings.Count(name, "~") == strings.Count(name, "~0")+strings.Count(name, "~1")
}

var (
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
)

// stars returns how many steps of a path are *.
func stars(path []step) int {
	n := 0
	for i := range path {
		if path[i].star {
			n++
		}
	}
	return n
}

// samePath reports whether two paths name the same place.
func samePath(a, b []step) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].name != b[i].name {
			return false
		}
	}
	return true
}

// Marks of pick.
const (
	onWay = 1 + iota // a picked path leads through it
	whole            // it is picked
)

// mark marks a value for pick.
func (r *run) mark(p place, as byte) {
	marks := r.picked[p.in]
	if marks == nil {
		marks = make([]byte, len(p.in.values))
		r.picked[p.in] = marks
	}
	marks[p.index] = max(marks[p.index], as)
}

// pick marks what the paths match, then removes everything else.
func (r *run) pick() error {
	r.picked = map[*container][]byte{}
	defer func() { r.picked = nil }()
	for _, path := range r.op.paths {
		err := r.walk(&r.root, path, func(p place) error {
			r.mark(p, whole)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if r.root.open() == nil {
		r.remove(&r.root)
		r.root = value{text: "null"}
		return nil
	}
	r.keepPicked(r.root.box)
	return nil
}

// keepPicked removes what is not marked in a container. Objects and arrays on the way to a picked place stay, empty if
// it is not there. In an array positions hold: what is not picked before a picked element becomes null.
func (r *run) keepPicked(c *container) {
	marks := r.picked[c]
	last := -1
	for i, m := range marks {
		if m != 0 {
			last = i
		}
	}
	for i := range c.values {
		p := place{in: c, index: i}
		r.trail = append(r.trail, p)
		mark := byte(0)
		if marks != nil {
			mark = marks[i]
		}
		switch inner := p.at().openIf(mark == onWay); {
		case mark == whole:
		case inner != nil:
			r.keepPicked(inner)
		case c.array && i <= last:
			r.remove(p.at())
			*p.at() = value{text: "null"}
		default:
			r.remove(p.at())
			r.take(p)
		}
		r.trail = r.trail[:len(r.trail)-1]
	}
}

// openIf is open, or nil without yes.
func (v *value) openIf(yes bool) *container {
	if !yes {
		return nil
	}
	return v.open()
}

// remove records that pick removes a value.
func (r *run) remove(v *value) {
	r.record(Change{Kind: Removed, Pointer: r.pointerIfRecorded()}, v, nil)
}
