package transform

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/expr"
)

// Program is a list of operations that is ready to change documents. It never changes itself.
type Program struct {
	ops      []operation
	document bool // operations change the document; also without any, for a preview of it
}

// operation is one compiled operation.
type operation struct {
	kind     string
	required bool
	replace  bool     // on_conflict
	from, to []step   // of rename
	paths    [][]step // of pick and drop; at of wrap (none: the whole document); path of add
	prefix   int      // of add: how many steps end with the last *
	name     string   // of wrap
	key      string   // name as JSON text
	value    string   // of add, as JSON text; empty: source
	source   string
	growth   int  // bytes that it adds at most: once, or for each element of an array
	each     bool // growth is for each element
	again    bool // it may add as much as the body has, beside growth
	expr     *expr.Program
}

// SpecError says what is wrong with the declared operations.
type SpecError struct {
	Param   string // such as ops[2].paths[0]
	Message string
}

func (e *SpecError) Error() string { return e.Param + ": " + e.Message }

// maxSourceBytes is how long a value from a source can be as JSON. Types are the longest: 128 characters, with escapes.
const maxSourceBytes = 1024

// Compile validates operations. Its errors are a [*SpecError].
func Compile(ops []Op) (*Program, error) {
	if len(ops) > MaxOps {
		return nil, &SpecError{"ops", fmt.Sprintf("must have at most %d operations, and has %d", MaxOps, len(ops))}
	}
	text, err := json.Marshal(ops)
	switch {
	case err != nil:
		return nil, &SpecError{"ops", "is not valid: " + err.Error()}
	case len(text) > MaxOpsBytes:
		return nil, &SpecError{"ops", fmt.Sprintf("must have at most %d bytes of JSON together, and have %d; "+
			"shorten paths and values", MaxOpsBytes, len(text))}
	}
	p := &Program{ops: make([]operation, len(ops)), document: len(ops) == 0}
	for i := range ops {
		c := compiler{at: fmt.Sprintf("ops[%d]", i)}
		c.compile(&ops[i], &p.ops[i])
		if c.err != nil {
			return nil, c.err
		}
		p.document = p.document || !slices.Contains([]string{Header, Path, Method, Cancel}, ops[i].Op)
	}
	return p, nil
}

// minElement is the fewest bytes that an element of an array takes in a document: a digit and a comma.
const minElement = 2

// MaxOutput returns how long the document that operations make of one of n bytes can be, at most limit; 0: they make
// none.
func (p *Program) MaxOutput(n, limit int) int {
	if !p.document {
		return 0
	}
	stored := n
	for i := range p.ops {
		o := &p.ops[i]
		times := 1
		if o.each {
			times = n/minElement + 1
		}
		growth := o.growth
		if o.again {
			growth += stored
		}
		if n += times * growth; n >= limit {
			return limit
		}
	}
	return min(n, limit)
}

type compiler struct {
	at  string
	err error
}

func (c *compiler) fail(member, format string, args ...any) {
	if c.err == nil {
		c.err = &SpecError{c.at + "." + member, fmt.Sprintf(format, args...)}
	}
}

func (c *compiler) compile(op *Op, o *operation) {
	o.kind, o.required, o.replace = op.Op, op.Required, op.OnConflict == ConflictReplace
	c.refuseForeignMembers(op)
	switch op.Op {
	case Rename:
		c.rename(op, o)
	case Pick, Drop:
		c.paths(op, o)
	case Wrap:
		c.wrap(op, o)
	case Add:
		c.add(op, o)
	case Set:
		c.set(op, o)
	case Header:
		c.header(op, o)
	case Path, Method:
		o.expr = c.expression("expr", op.Expr, expr.Any)
	case Cancel:
		o.expr = c.expression("when", op.When, expr.Bool)
	default:
		c.fail("op", "must be one of %s", strings.Join(Kinds(), ", "))
	}
}

// refuseForeignMembers refuses members that would have no effect.
func (c *compiler) refuseForeignMembers(op *Op) {
	known := Members(op.Op)
	if known == nil {
		return
	}
	for _, m := range []struct {
		name string
		set  bool
	}{
		{"from", op.From != ""}, {"to", op.To != ""}, {"paths", op.Paths != nil}, {"key", op.Key != ""},
		{"at", op.At != ""}, {"path", op.Path != ""}, {"value", op.Value != nil}, {"on_conflict", op.OnConflict != ""},
		{"required", op.Required}, {"expr", op.Expr != ""}, {"name", op.Name != ""}, {"when", op.When != ""},
	} {
		if m.set && !slices.Contains(known, m.name) {
			c.fail(m.name, "is not a member of %s, which has %s", op.Op, strings.Join(known[1:], ", "))
		}
	}
	if op.OnConflict != "" && op.OnConflict != ConflictError && op.OnConflict != ConflictReplace {
		c.fail("on_conflict", "must be one of %s, %s", ConflictError, ConflictReplace)
	}
}

func (c *compiler) path(member, text string) []step {
	path, err := parsePath(text)
	if err != nil {
		c.fail(member, "%v", err)
	}
	return path
}

// target parses the path of a place that gets a value. Its last step may be -, the place after the last element.
func (c *compiler) target(member, text string) []step {
	path := c.path(member, text)
	if n := len(path); n > 0 && path[n-1].name == "-" {
		path[n-1].end = true
	}
	return path
}

func (c *compiler) rename(op *Op, o *operation) {
	o.from, o.to = c.path("from", op.From), c.target("to", op.To)
	if c.err != nil {
		return
	}
	if stars(o.from) != stars(o.to) {
		c.fail("to", "must have as many * as from: each takes the place of the one in from")
	}
	if samePath(o.from, o.to) {
		c.fail("to", "is the same place as from")
	}
	for _, s := range o.to {
		o.growth += len(s.key) + len(`{:},`)
	}
	if o.each = stars(o.to) > 0; o.each {
		o.growth += len("null,") // fills the places of elements that have nothing to move
	}
}

func (c *compiler) paths(op *Op, o *operation) {
	switch {
	case len(op.Paths) == 0:
		c.fail("paths", "is required: an array of paths, such as [\"/data/internal\"]")
	case len(op.Paths) > MaxPaths:
		c.fail("paths", "must have at most %d paths", MaxPaths)
	}
	if c.err != nil {
		return
	}
	o.paths = make([][]step, len(op.Paths))
	for i, text := range op.Paths {
		o.paths[i] = c.path(fmt.Sprintf("paths[%d]", i), text)
	}
	if o.kind == Pick {
		o.growth, o.each = len("null")-len("1"), true // what is not picked before a picked element becomes null
	}
}

func (c *compiler) wrap(op *Op, o *operation) {
	switch {
	case op.Key == "":
		c.fail("key", "is required: the name of the member that holds the document")
	case len(op.Key) > MaxName:
		c.fail("key", "must have at most %d bytes", MaxName)
	}
	o.name, o.key = op.Key, quote(op.Key)
	o.growth = len(o.key) + len(`{:}`)
	if op.At != "" {
		o.paths = [][]step{c.path("at", op.At)}
		o.each = stars(o.paths[0]) > 0
	}
}

func (c *compiler) add(op *Op, o *operation) {
	c.place(op, o)
	switch {
	case (op.Value == nil) == (op.From == ""):
		c.fail("value", "or from is required, and not both; from is one of %s", strings.Join(Sources(), ", "))
	case op.From != "" && !slices.Contains(Sources(), op.From):
		c.fail("from", "must be one of %s", strings.Join(Sources(), ", "))
	case len(op.Value) > MaxValue:
		c.fail("value", "must have at most %d bytes", MaxValue)
	case op.Value != nil:
		o.value = c.literal(op.Value)
		o.growth += len(o.value)
	default:
		o.source = op.From
		o.growth += maxSourceBytes
	}
}

// place compiles the path at which an operation places a value.
func (c *compiler) place(op *Op, o *operation) {
	path := c.target("path", op.Path)
	for i, s := range path {
		if s.star {
			o.prefix = i + 1
		}
		o.growth += len(s.key) + len(`{:},`)
	}
	o.paths, o.each = [][]step{path}, o.prefix > 0
}

// literal validates the value of add and returns it without white space.
func (c *compiler) literal(text []byte) string {
	if f := validate(text, string(text), MaxDepth); f != nil {
		c.fail("value", "cannot be added: %s", f.Message)
		return ""
	}
	return unescapeHTML(string(appendCompact(nil, string(text), 0)))
}

// unescapeHTML writes <, >, &, U+2028 and U+2029 as themselves, which json.Marshal escapes when the operations are
// stored: a value has the same bytes before and after.
func unescapeHTML(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		plain, escaped := "", text[i:min(i+len(`\u0000`), len(text))]
		switch strings.ToLower(escaped) {
		case `\u003c`:
			plain = "<"
		case `\u003e`:
			plain = ">"
		case `\u0026`:
			plain = "&"
		case `\u2028`:
			plain = "\u2028"
		case `\u2029`:
			plain = "\u2029"
		}
		if plain != "" {
			b.WriteString(plain)
			i += len(escaped) - 1
			continue
		}
		b.WriteString(text[i : i+2])
		i++
	}
	return b.String()
}
