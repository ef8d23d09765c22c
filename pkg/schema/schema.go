// Package schema checks bodies of events against JSON Schemas (2020-12) that people have written. What a check costs is
// bounded before it runs: a schema holds no reference to another document or to itself, so the number of its rules with
// all references resolved is finite, and each looks at each value of a body at most once.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"regexp/syntax"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// MaxBytes is the length of a schema.
	MaxBytes = 64 << 10
	// maxRules bounds the values of a schema after each reference is replaced by what it names.
	maxRules = 20_000
	// maxDepth bounds the levels of a schema, references included.
	maxDepth = 64
	// maxWork bounds the work for a body: ruleSteps · rules · values + (instructions of patterns + rules/ruleBytes) ·
	// bytes.
	// If each rule looks at each value and fails, it is 0.6 s of one core; what schemas usually ask for is far below.
	maxWork   = 30_000_000
	ruleSteps = 10
	ruleBytes = 64
	// maxRequest bounds the work for all bodies of a request.
	maxRequest = 4 * maxWork
	// waitsAfter is the work of a request after which its checks wait for a slot.
	waitsAfter = maxWork / 100
	// maxSteps bounds the instructions of all patterns: compiled, each takes about 45 bytes.
	maxSteps = 50_000
	// maxRanges bounds the characters that the classes of all patterns list: \pL lists 1,300.
	maxRanges = 1_000_000
	// maxNumber is the length of a number that is compared exactly; longer ones are compared as float64.
	maxNumber = 40
	// maxMessage bounds the message of a fault, in bytes.
	maxMessage = 300
)

// Schema is a compiled schema.
type Schema struct {
	compiled *jsonschema.Schema
	rules    int
	steps    int  // the instructions of all patterns
	ranges   int  // the characters that their classes list
	unique   bool // it has uniqueItems

	known map[string]int // the instructions of each pattern while they are counted
}

// Size returns about how many bytes of memory it takes at most.
func (s *Schema) Size() int { return 50*s.steps + 8*s.ranges + 1000*s.rules }

// slots leave half of the cores to other work while bodies are checked.
var slots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

// Fault says where a body does not match its schema.
type Fault struct {
	Path    []string // names and indexes that lead to the value
	Message string   // such as "got string, want number"
}

// ErrTooCostly means that a body, or all of a request, are too large for the schema.
var ErrTooCostly = errors.New("the request has too many values or bytes for the rules and patterns of the schema")

// ErrLargePatterns is an error of Compile: compiled, the patterns would take too much memory.
var ErrLargePatterns = errors.New("has patterns that are too large together, with what its references name; use " +
	"fewer or smaller repetitions: x{1000} is as large as 1000 times x")

// Compile reads a schema. Its errors are for the person who has written it, to follow the name of the parameter.
func Compile(text []byte) (*Schema, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("has more than %d bytes", MaxBytes)
	}
	doc, _, err := decode(text)
	if err != nil {
		return nil, errors.New("is not valid JSON")
	}
	s := &Schema{known: map[string]int{}}
	if err := s.count(doc, doc, 0); err != nil {
		return nil, err
	}
	s.known = nil
	if s.compiled, err = compile(doc); err == nil && s.unique { // a vocabulary replaces the meta-schema by parts of it
		s.compiled, err = compile(doc, uniqueItems)
	}
	if err != nil {
		return nil, fmt.Errorf("is not a JSON Schema: %w", plain(err))
	}
	return s, nil
}

func compile(doc any, vocabularies ...*jsonschema.Vocabulary) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	for _, v := range vocabularies {
		c.RegisterVocabulary(v)
		c.AssertVocabs()
	}
	const name = "schema:event"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// noLoader loads no other document.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("is another document") }

// plain returns an error of the compiler as one short line.
func plain(err error) error {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			f := faultOf(v)
			return fmt.Errorf("/%s: %s", strings.Join(f.Path, "/"), f.Message)
		}
	}
	return errors.New(shorten(err.Error()))
}

// named are the keywords that would make what a schema refers to depend on more than a path in it.
var named = []string{"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef",
	"$recursiveAnchor", "$vocabulary"}

// count counts the rules and patterns of v, a part of the schema doc, with all references resolved.
func (s *Schema) count(doc, v any, depth int) error {
	if s.rules++; s.rules > maxRules || depth > maxDepth {
		return fmt.Errorf("has more than %d values or %d levels, with what its references name, or refers to itself",
			maxRules, maxDepth)
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := s.count(doc, item, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			ref, isText := v[name].(string)
			switch {
			case isText && slices.Contains(named, name):
				return fmt.Errorf("must not contain %s; refer to a part of the schema by $ref with its path, such as "+
					"#/$defs/address", name)
			case isText && name == "$schema" && strings.Contains(ref, "draft-04"): // its id is a name, too
				return errors.New("must be of draft 6 or later, not draft 4")
			case isText && name == "$ref":
				target, err := resolve(doc, ref)
				if err != nil {
					return err
				}
				if err := s.count(doc, target, depth+1); err != nil {
					return err
				}
			case isText && name == "pattern":
				s.steps += s.stepsOf(ref)
			case name == "patternProperties":
				all, _ := v[name].(map[string]any)
				for pattern := range all {
					s.steps += s.stepsOf(pattern)
				}
			case name == "uniqueItems" && v[name] == true:
				s.unique = true
			}
			if s.steps > maxSteps || s.ranges > maxRanges {
				return ErrLargePatterns
			}
			if err := s.count(doc, v[name], depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// stepsOf returns the number of instructions of a pattern: for each byte the matcher looks at each once at most. It is
// 0 of one that the compiler will refuse.
func (s *Schema) stepsOf(pattern string) int {
	n, ok := s.known[pattern]
	if ok || s.steps > maxSteps || s.ranges > maxRanges {
		return n
	}
	if parsed, err := syntax.Parse(pattern, syntax.Perl); err == nil {
		// A program as large as that would take much memory, even for a moment.
		if n = s.sizeOf(parsed); n <= maxSteps && s.ranges <= maxRanges {
			program, err := syntax.Compile(parsed.Simplify())
			if err == nil {
				n = len(program.Inst)
			}
		}
	}
	s.known[pattern] = n
	return n
}

// sizeOf returns about the number of instructions of a pattern, and adds up what its classes list. Repetitions share a
// class.
func (s *Schema) sizeOf(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		s.ranges += len(re.Rune)
	case syntax.OpRepeat:
		n = 0
	}
	for _, part := range re.Sub {
		n += s.sizeOf(part)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return n
}

// resolve returns the part of a document that a local reference names.
func resolve(doc any, ref string) (any, error) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil, fmt.Errorf("refers to %s; $ref must be the path of a part of the schema, such as #/$defs/address",
			strconv.Quote(shorten(ref)))
	}
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	at := doc
	for _, token := range Tokens(path) {
		switch x := at.(type) {
		case map[string]any:
			at, ok = x[token]
		case []any:
			var i int
			i, err := strconv.Atoi(token)
			if ok = err == nil && i >= 0 && i < len(x); ok {
				at = x[i]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, fmt.Errorf("refers to %s, which is not in it", strconv.Quote(shorten(ref)))
		}
	}
	return at, nil
}

// Canonical returns a JSON text without spaces and with its members in order, so that equal values are equal texts.
func Canonical(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// Check returns where a body does not match, nil if it matches, or ErrTooCostly. The body must be valid JSON. spent is
// the work for the bodies of a request so far, 0 for the first.
func (s *Schema) Check(body []byte, spent *int) (*Fault, error) {
	v, values, err := decode(body)
	if err != nil {
		return &Fault{Message: "is not JSON"}, nil
	}
	work := ruleSteps*s.rules*values + (s.steps+s.rules/ruleBytes)*len(body)
	if work > maxWork || *spent+work > maxRequest {
		return nil, ErrTooCostly
	}
	if *spent += work; *spent > waitsAfter {
		slots <- struct{}{}
		defer func() { <-slots }()
	}
	err = s.compiled.Validate(v)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return faultOf(invalid), nil
	}
	return nil, err
}

// decode reads JSON and returns the number of its values. Numbers become exact ones where that is cheap.
func decode(text []byte) (v any, values int, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, 0, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, 0, errors.New("data follows the value")
	}
	v = bounded(v, &values)
	return v, values, nil
}

// bounded replaces numbers that are costly to compare, such as 1e999999999, and counts the values.
func bounded(v any, values *int) any {
	*values++
	switch x := v.(type) {
	case map[string]any:
		for name, item := range x {
			x[name] = bounded(item, values)
		}
	case []any:
		for i, item := range x {
			x[i] = bounded(item, values)
		}
	case json.Number:
		if len(x) > maxNumber || strings.ContainsAny(string(x), "eE") {
			f, _ := x.Float64() // beyond the range it is infinite
			return min(max(f, -math.MaxFloat64), math.MaxFloat64)
		}
	}
	return v
}

// faultOf returns the first fault of several, by path: the order in which members are checked is random.
func faultOf(err *jsonschema.ValidationError) *Fault {
	var first *Fault
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		switch e.ErrorKind.(type) {
		case *kind.AnyOf, *kind.OneOf: // its causes are those of each alternative
		default:
			if len(e.Causes) > 0 {
				for _, cause := range e.Causes {
					walk(cause)
				}
				return
			}
		}
		f := &Fault{Path: e.InstanceLocation, Message: textOf(e.ErrorKind)}
		if first == nil || slices.Compare(f.Path, first.Path) < 0 ||
			slices.Equal(f.Path, first.Path) && f.Message < first.Message {
			first = f
		}
	}
	walk(err)
	first.Path = slices.Clone(first.Path)
	return first
}

// textOf returns what is wrong, without texts of the body: they may be secret.
func textOf(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return shorten("does not match the pattern " + k.Want)
	case *kind.PropertyNames:
		return "the name of a member does not match propertyNames"
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
	}
	return shorten(k.LocalizedString(message.NewPrinter(language.English)))
}

func shorten(s string) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) <= maxMessage {
		return s
	}
	n := maxMessage
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Pointer returns the path of a fault as a JSON pointer.
func (f *Fault) Pointer() string {
	var b strings.Builder
	for _, token := range f.Path {
		b.WriteString("/" + Escape(token))
	}
	return b.String()
}

// Escape returns a name as it stands in a JSON pointer.
func Escape(token string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(token) }

// Tokens returns the names of a JSON pointer.
func Tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, t := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return tokens
}
