package wire

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/swaggest/jsonschema-go"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/alerting"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/notify"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/web"
)

// answers and requests are the types with schemas in the OpenAPI document: NAME is an answer, NAMEInput a request. If a
// request to change has a further field, its schema is NAMEUpdate. If it differs by more, the request to create has the
// schema NAMECreate. The types of fields get schemas too.
var (
	answers = []any{
		Warning{}, Deleted{}, AlertSettings{}, AlertTestOutcome{}, Alert{}, List[Alert]{}, AuditEntry{},
		List[AuditEntry]{}, Me{},
		Endpoint{}, List[Endpoint]{}, Validation{}, Reconciliation{},
		KeptTransformationVersion{}, TransformationPreview{}, FilterPreview{}, EventRow{}, List[Attempt]{}, Event{},
		PayloadErased{}, ReceiptResult{}, SignatureExplanation{}, StreamEvent{}, StreamGap{}, EventBatchResult{},
		Recovery{}, List[Recovery]{}, RecoveryItem{}, List[RecoveryItem]{}, ReplayRun{},
		List[ReplayRun]{}, Overview{}, EndpointTraffic{}, CountedEvents{}, Usage{}, UsageDays{}, AlertTestResult{},
		Tenant{}, List[Tenant]{}, TenantKey{}, List[TenantKey]{},
		Pulled{}, Acknowledged{}, Consumers{},
	}
	requests = []any{
		alerting.AlertRules{}, config.Dedup{}, config.IngestLimit{}, config.RateLimit{}, Endpoint{}, Destination{},
		Verification{}, AlertSettings{}, Tenant{}, TenantKey{}, kinds.SigningScheme{},
	}
)

// Part is what a feature adds to the OpenAPI document.
type Part struct {
	Texts             fs.FS // YAML files, as those of api/openapi
	Sources           fs.FS // the Go files of the types: their comments are sentences of the document; nil: none
	Answers, Requests []any // types with schemas, named as those of this package
}

// Words are the enumerations that are tables of other packages, for enum:"@NAME".
var Words = map[string][]string{
	"schemes": verify.Types(), "providers": verify.Providers(), "channels": notify.KindNames(),
	"strategies": retry.StrategyNames(), "charsets": secrets.Charsets(),
}

// patterns are the patterns that several fields share, for pattern:"@NAME".
var patterns = map[string]string{
	"text":   `^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$`,
	"header": "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$",
	"secret": `^[^\x00-\x20\x7f-\x9f]+([ ]+[^\x00-\x20\x7f-\x9f]+)*$`,
}

// WordsOf returns the words of the tag enum.
func WordsOf(tag string) []string {
	if name, isTable := strings.CutPrefix(tag, "@"); isTable {
		return Words[name]
	}
	return strings.Split(tag, ",")
}

// refs is the prefix of references between the schemas of the OpenAPI document.
const refs = "#/components/schemas/"

// Schemas returns the schemas of the OpenAPI document that come from types, as JSON by name.
func Schemas(more []Part) (map[string]json.RawMessage, error) {
	out, comments := map[string]json.RawMessage{}, map[string]string{}
	parts := append([]Part{{Sources: sources, Answers: answers, Requests: requests},
		{Sources: config.FieldSources}}, more...)
	for _, p := range parts {
		if p.Sources == nil {
			continue
		}
		if err := readComments(comments, p.Sources); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		for suffix, types := range map[string][]any{"": p.Answers, input: p.Requests, update: p.Requests} {
			for _, x := range types {
				if suffix == update && !hasUpdate(reflect.TypeOf(x)) {
					continue
				}
				if err := addSchemas(out, x, suffix, comments); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// hasUpdate reports whether requests for a change have another schema than those that create.
func hasUpdate(t reflect.Type) bool { return hasTag(t, "in", "update") || hasTag(t, "inref", ",") }

// hasTag reports whether that tag of a member has a text.
func hasTag(t reflect.Type, tag, text string) bool {
	return t.Kind() == reflect.Struct && slices.ContainsFunc(Members(t), func(f reflect.StructField) bool {
		return strings.Contains(f.Tag.Get(tag), text)
	})
}

// Ends of the names of schemas of requests.
const input, update = "Input", "Update"

// addSchemas adds the schema of a type, and those of the types of its members.
func addSchemas(out map[string]json.RawMessage, x any, suffix string, comments map[string]string) error {
	g := generator{suffix: suffix, comments: comments, types: map[string]reflect.Type{}, other: map[string]bool{}}
	all := map[string]jsonschema.Schema{}
	root, err := (&jsonschema.Reflector{}).Reflect(x, jsonschema.DefinitionsPrefix(refs),
		jsonschema.CollectDefinitions(func(name string, s jsonschema.Schema) { all[name] = s }),
		jsonschema.InterceptDefName(func(t reflect.Type, _ string) string { return g.name(t) }),
		jsonschema.InterceptSchema(g.finish))
	if err != nil {
		return fmt.Errorf("schema of %T: %w", x, err)
	}
	name := g.name(reflect.TypeOf(x))
	all[name] = root
	return g.add(out, all, name)
}

// add adds a schema, and those that it refers to.
func (g *generator) add(out map[string]json.RawMessage, all map[string]jsonschema.Schema, name string) error {
	s, exists := all[name]
	if _, added := out[name]; added || !exists || g.other[name] {
		return nil
	}
	text, err := inOrder(&s, g.types[name])
	if err != nil {
		return fmt.Errorf("schema %s: %w", name, err)
	}
	out[name] = text
	for other := range all {
		if bytes.Contains(text, []byte(refs+other+`"`)) {
			if err := g.add(out, all, other); err != nil {
				return err
			}
		}
	}
	return nil
}

// generator makes the schemas of answers or of requests.
type generator struct {
	suffix   string // of the names; empty: of answers
	comments map[string]string
	types    map[string]reflect.Type
	other    map[string]bool // names of schemas that are written in api/openapi
}

func (g *generator) input() bool { return g.suffix != "" }

// name returns the name of the schema of a type.
func (g *generator) name(t reflect.Type) string {
	name := t.Name()
	if t == reflect.TypeFor[retry.Policy]() {
		name = "RetryPolicy" // the package is a part of its name
	}
	if outer, item, generic := strings.Cut(name, "["); generic {
		name = strings.TrimSuffix(item[strings.LastIndexByte(item, '.')+1:], "]") + outer
	}
	name += g.suffixOf(t)
	g.types[name] = t
	return name
}

// suffixOf returns that of the name of a type: what is the same in every request has one schema.
func (g *generator) suffixOf(t reflect.Type) string {
	switch {
	case g.suffix == input && hasTag(t, "inref", ","):
		return "Create"
	case g.suffix == update && !hasUpdate(t):
		return input
	}
	return g.suffix
}

// finish makes the schema of a time, and completes those of structs.
func (g *generator) finish(p jsonschema.InterceptSchemaParams) (stop bool, err error) {
	t := p.Value.Type()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[web.Time]():
		*p.Schema = jsonschema.Schema{}
		p.Schema.WithRef(refs + "Time")
		return true, nil
	case !p.Processed || t.Kind() != reflect.Struct:
		return false, nil
	}
	p.Schema.Required = nil
	if text := g.comments[t.Name()]; text != "" {
		p.Schema.WithDescription(text)
	}
	change := g.suffixOf(t) == update
	for _, f := range Members(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		isElsewhere := !Has(f, "") || Has(f, "update") && !change || f.Tag.Get("inref") == "-"
		if g.input() && isElsewhere || !g.input() && Has(f, "only") {
			delete(p.Schema.Properties, name)
			continue
		}
		if !g.input() && options == "" || g.input() && !change && Has(f, "required") {
			p.Schema.Required = append(p.Schema.Required, name)
		}
		if s := p.Schema.Properties[name].TypeObject; s != nil {
			g.member(s, f)
			text := g.comments[declaredIn(t, f).Name()+"."+f.Name]
			if preset, ok := f.Tag.Lookup("preset"); ok {
				text = strings.TrimSpace(cmp.Or(text, f.Tag.Get("description")) + " Default `" + preset + "`.")
			}
			if text != "" {
				s.WithDescription(text)
			}
		}
	}
	return false, nil
}

// member completes the schema of a member by its tags. Lists and maps are not null.
func (g *generator) member(s *jsonschema.Schema, f reflect.StructField) {
	tag := f.Tag
	if s.Type != nil { // members of one named type share it
		own := *s.Type
		own.SliceOfSimpleTypeValues = slices.Clone(own.SliceOfSimpleTypeValues)
		s.Type = &own
	}
	if s.Items != nil && s.Items.SchemaOrBool != nil {
		g.item(s.Items.SchemaOrBool.TypeObject, tag)
	}
	if ref := g.refOf(tag); ref != "" {
		g.refer(s, ref)
	}
	missing := strings.HasSuffix(tag.Get("json"), ",omitempty")
	nullable := tag.Get("nullable") == "true" || f.Type.Kind() == reflect.Pointer && !missing
	if g.input() {
		nullable = Has(f, "null") || Has(f, "only") && f.Type.Kind() == reflect.Pointer
	}
	if name, ok := strings.CutPrefix(tag.Get("pattern"), "@"); ok {
		s.WithPattern(patterns[name])
	}
	s.RemoveType(jsonschema.Null)
	switch {
	case nullable && s.Ref != nil:
		null := (&jsonschema.Schema{}).WithType(jsonschema.Null.Type()).ToSchemaOrBool()
		one := (&jsonschema.Schema{}).WithRef(*s.Ref).ToSchemaOrBool()
		s.Ref = nil
		s.WithOneOf(one, null)
	case nullable:
		s.AddType(jsonschema.Null) // last, as people write it
	}
	if s.Enum != nil {
		s.Enum = s.Enum[:0]
		for _, word := range WordsOf(tag.Get("enum")) {
			s.Enum = append(s.Enum, word)
		}
	}
	if s.Enum != nil && nullable && !slices.Contains(s.Enum, nil) {
		s.Enum = append(s.Enum, nil)
	}
	if g.input() {
		return
	}
	if Has(f, "") {
		s.MinLength, s.MaxLength, s.Pattern, s.UniqueItems = 0, nil, nil, nil // those of requests
	}
	if s.Enum != nil {
		s.WithExtraPropertiesItem("x-extensible-enum", s.Enum)
		s.Enum = nil
	}
}

// refOf returns the component that a member refers to, "" for none.
func (g *generator) refOf(tag reflect.StructTag) string {
	create, change, differs := strings.Cut(tag.Get("inref"), ",")
	switch {
	case g.input() && differs && g.suffix == update:
		return change
	case g.input() && create != "":
		return create
	}
	return tag.Get("ref")
}

// refer makes a schema a reference to one that is written in api/openapi.
func (g *generator) refer(s *jsonschema.Schema, name string) {
	*s, g.other[name] = jsonschema.Schema{}, true
	s.WithRef(refs + name)
}

// item completes the schema of the items of a list by the tags that begin with "items.".
func (g *generator) item(s *jsonschema.Schema, tag reflect.StructTag) {
	if ref := tag.Get("items.ref"); ref != "" {
		g.refer(s, ref)
	}
	for keyword, set := range map[string]func(int64){
		"minLength": func(n int64) { s.WithMinLength(n) },
		"maxLength": func(n int64) { s.WithMaxLength(n) },
		"minimum":   func(n int64) { s.WithMinimum(float64(n)) },
		"maximum":   func(n int64) { s.WithMaximum(float64(n)) },
	} {
		if n, err := strconv.ParseInt(tag.Get("items."+keyword), 10, 64); err == nil && g.input() {
			set(n)
		}
	}
	if pattern := tag.Get("items.pattern"); pattern != "" && g.input() {
		s.WithPattern(cmp.Or(patterns[strings.TrimPrefix(pattern, "@")], pattern))
	}
	if words := tag.Get("items.enum"); words != "" {
		var values []any
		for _, word := range WordsOf(words) {
			values = append(values, word)
		}
		if g.input() {
			s.WithEnum(values...)
		} else {
			s.WithExtraPropertiesItem("x-extensible-enum", values)
		}
	}
}

// Members returns the members of a struct, those of embedded structs included.
func Members(t reflect.Type) (all []reflect.StructField) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all = append(all, f)
		}
	}
	return all
}

// Has reports whether the tag in of a member has a word; the empty word: whether clients may set it.
func Has(f reflect.StructField, word string) bool {
	words, ok := f.Tag.Lookup("in")
	return ok && (word == "" || slices.Contains(strings.Split(words, ","), word))
}

// declaredIn returns the struct, t or one that it embeds, in which a member stands.
func declaredIn(t reflect.Type, f reflect.StructField) reflect.Type {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return t
}

// inOrder returns a schema as JSON with its properties in the order of the struct.
func inOrder(s *jsonschema.Schema, t reflect.Type) (json.RawMessage, error) {
	text, err := json.Marshal(s)
	if err != nil || t == nil || t.Kind() != reflect.Struct {
		return text, err
	}
	var whole map[string]json.RawMessage
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(whole["properties"], &properties); err != nil {
		return nil, err
	}
	var ordered bytes.Buffer
	separator := byte('{')
	for _, f := range Members(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if property := properties[name]; property != nil {
			fmt.Fprintf(&ordered, "%c%q:%s", separator, name, property)
			separator = ','
		}
	}
	whole["properties"] = append(ordered.Bytes(), '}')
	return json.Marshal(whole)
}

// sources are the files of this package: their comments are the sentences of the document.
//
//go:embed *.go
var sources embed.FS

// readComments adds the comments above types and their members, by "Type" and "Type.Member".
func readComments(out map[string]string, sources fs.FS) error {
	if sources == nil {
		return nil
	}
	return fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			decl, _ := d.(*ast.GenDecl)
			for _, spec := range specsOf(decl) {
				name := spec.Name.Name
				if fields, ok := spec.Type.(*ast.StructType); ok {
					out[name] = textOf(decl.Doc)
					for _, field := range fields.Fields.List {
						for _, n := range field.Names {
							out[name+"."+n.Name] = textOf(field.Doc)
						}
					}
				}
			}
		}
		return nil
	})
}

func specsOf(d *ast.GenDecl) (all []*ast.TypeSpec) {
	if d != nil {
		for _, s := range d.Specs {
			if t, ok := s.(*ast.TypeSpec); ok {
				all = append(all, t)
			}
		}
	}
	return all
}

// textOf returns a comment as one line for each paragraph.
func textOf(c *ast.CommentGroup) string {
	return strings.ReplaceAll(strings.TrimSpace(c.Text()), "\n", " ")
}
