package frame

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of members that several resources have: the characters of a name, of a URL and of other texts, the bytes of a
// header. IDs and times in bodies are bounded so that an error does not repeat a megabyte.
const (
	MaxName        = 100
	MaxURL         = 2048
	MaxHeaderValue = 2048
	MaxIDText      = 200
)

// DefaultNameLength is the length of a default name: the last characters of the id.
const DefaultNameLength = 8

// Warning says that a member was ignored, or that a setting will not work as it is.
type Warning = wire.Warning

// MaxUnknownMembers bounds the warnings about unknown members in one response, and with them the searches for
// similar names: a request may contain a hundred thousand members.
const MaxUnknownMembers = 20

// unknownMember begins the warning about an unknown member.
const unknownMember = "unknown member, ignored"

// UnknownMember returns the warning about an unknown member. Its name is the client's choice, so a long one is cut.
func UnknownMember(param, name string, known []string) Warning {
	return Warning{Param: web.TruncateParam(param), Message: unknownMember + didYouMean(name, known)}
}

// Input collects the warnings about a request body and its first error, which becomes the response.
type Input struct {
	Err            error
	Warnings       []Warning
	unknownMembers int // how many of the warnings are about unknown members
}

// Fail records the error of a parameter, if it is the first.
func (in *Input) Fail(param, format string, args ...any) {
	if in.Err == nil {
		in.Err = web.Invalid(param, format, args...)
	}
}

// Warn adds a warning about a parameter.
func (in *Input) Warn(param, message string) {
	in.Warnings = append(in.Warnings, Warning{Param: param, Message: message})
}

// MaskName masks the secrets in a name.
func (in *Input) MaskName(leaks *secrets.Scanner, param string, name *string) {
	in.MaskText(leaks, param, name, "names are shown to everybody and stand in alerts")
}

// MaskText masks the secrets in a text, and warns why it did.
func (in *Input) MaskText(leaks *secrets.Scanner, param string, text *string, why string) {
	if masked, n := leaks.MaskAll(nil, []byte(*text)); n > 0 {
		*text = string(masked)
		in.Warn(param, "contained a secret, which was masked: "+why)
	}
}

// ErrOtherVersion is the error of a request that changes another version of a thing than the current one.
func ErrOtherVersion(thing string, current int) error {
	return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: "version",
		Message: fmt.Sprintf("is not that of the %s, which has been changed meanwhile and is now %d; read it and try again",
			thing, current)}
}

// Object reads the members of one JSON object. A read method changes its target only if the member is present and
// valid. The targets hold the defaults for POST and the current values for PATCH, so the same code serves both.
type Object struct {
	In      *Input
	Path    string
	Members []web.Member
	known   []string
	Unnamed bool // the request has the value of the only member in place of the object
}

// NewObject parses raw, the JSON object at path in the request.
func (in *Input) NewObject(path string, raw []byte) *Object {
	o := &Object{In: in, Path: path}
	members, err := web.ParseObject(nil, raw)
	if err != nil && in.Err == nil {
		if path != "" && KindOf(raw) != KindObject {
			in.Fail(path, "must be an object")
		} else {
			in.Err = web.InvalidJSON(path, err)
		}
	}
	o.Members = members
	return o
}

// Kinds of JSON values, as error messages call them.
const (
	KindNull   = "null"
	KindString = "a string"
	kindNumber = "a number"
	kindBool   = "true or false"
	KindObject = "an object"
	KindArray  = "an array"
)

// KindOf returns the kind of a JSON value, empty without a value.
func KindOf(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case 'n':
		return KindNull
	case '"':
		return KindString
	case 't', 'f':
		return kindBool
	case '{':
		return KindObject
	case '[':
		return KindArray
	default:
		return kindNumber
	}
}

// Param returns the name of a member in error messages: its path in the request.
func (o *Object) Param(name string) string {
	if o.Unnamed {
		return o.Path + strings.TrimPrefix(name, o.Members[0].Name)
	}
	return web.JoinPath(o.Path, name)
}

// Fail records the error of a member, if it is the first of the request.
func (o *Object) Fail(name, format string, args ...any) { o.In.Fail(o.Param(name), format, args...) }

// Raw returns the bytes of a member.
func (o *Object) Raw(name string) ([]byte, bool) {
	o.known = append(o.known, name)
	for _, m := range o.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return nil, false
}

// RawOfKind returns the bytes of a member that must have that kind.
func (o *Object) RawOfKind(name, kind string) ([]byte, bool) {
	raw, ok := o.Raw(name)
	if !ok {
		return nil, false
	}
	if KindOf(raw) != kind {
		o.Fail(name, "must be %s", kind)
		return nil, false
	}
	return raw, true
}

// IsNull reports whether a member is present and null.
func (o *Object) IsNull(name string) bool {
	raw, ok := o.Raw(name)
	return ok && KindOf(raw) == KindNull
}

// Text reads a string of lo to hi characters.
func (o *Object) Text(name string, lo, hi int, dst *string) {
	raw, ok := o.RawOfKind(name, KindString)
	if !ok {
		return
	}
	if s, problem := TextOf(raw, lo, hi); problem != "" {
		o.Fail(name, "%s", problem)
	} else {
		*dst = s
	}
}

// subdivisionFlag matches the flag of a region such as Scotland: a black flag, then the code of the region in tag
// characters. Elsewhere tag characters can hide a text.
var subdivisionFlag = regexp.MustCompile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f")

// invisible returns the first character that a name may not have, "" if there is none. All spaces are allowed, such as
// that of Japanese keyboards, and the invisible characters that words and emoji need: soft hyphens and joiners.
func invisible(s string) string {
	if strings.ContainsRune(s, '\U0001f3f4') {
		s = subdivisionFlag.ReplaceAllString(s, "")
	}
	for _, r := range s {
		allowed := unicode.Is(unicode.Zs, r) || r == '\u00ad' || r == '\u200c' || r == '\u200d'
		if !allowed && !web.IsPrintable(string(r)) {
			return fmt.Sprintf("%U", r)
		}
	}
	return ""
}

// name reads a name of lo to MaxName printable characters: names stand in lists, alerts and logs. One that was saved
// before this was required may be sent back unchanged.
func (o *Object) name(name string, lo int, dst *string) {
	before := *dst
	if o.Text(name, lo, MaxName, dst); *dst == before {
		return
	}
	if bad := invisible(*dst); bad != "" {
		o.Fail(name, "must have printable characters only, without line breaks and direction marks: it has %s", bad)
	}
}

// TextOf decodes a string of lo to hi characters and returns what is wrong with it, "" if nothing.
func TextOf(raw []byte, lo, hi int) (string, string) {
	s, err := web.DecodeString(raw)
	switch n := utf8.RuneCountInString(s); {
	case err != nil:
		return "", "must be a JSON string"
	case n < lo && n == 0:
		return "", "must not be empty"
	case n < lo || n > hi:
		return "", "must have " + strconv.Itoa(lo) + " to " + strconv.Itoa(hi) + " characters"
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }):
		return "", "must not contain control characters"
	}
	return s, ""
}

// SameVersion refuses a request whose member version is not the current version of a thing: somebody else has changed
// it since the client read it.
func (o *Object) SameVersion(thing string, current int) {
	version := current
	o.Integer("version", 1, 1<<53, &version)
	if version != current && o.In.Err == nil {
		o.In.Err = ErrOtherVersion(thing, current)
	}
}

// Enum reads a string that must be one of words.
func (o *Object) Enum(name string, dst *string, words ...string) {
	raw, ok := o.RawOfKind(name, KindString)
	if !ok {
		return
	}
	s, err := web.DecodeString(raw)
	if err != nil || !slices.Contains(words, s) {
		o.Fail(name, "must be one of %s%s", strings.Join(words, ", "), didYouMean(s, words))
		return
	}
	*dst = s
}

// Boolean reads true or false.
func (o *Object) Boolean(name string, dst *bool) {
	if raw, ok := o.RawOfKind(name, kindBool); ok {
		*dst = raw[0] == 't'
	}
}

// Integer reads an integer from lo to hi. 5.0 and 5e0 are refused.
func (o *Object) Integer(name string, lo, hi int, dst *int) {
	raw, ok := o.Raw(name)
	if !ok {
		return
	}
	n, good := integerOf(raw, lo, hi)
	if !good {
		o.Fail(name, "must be an integer from %d to %d", lo, hi)
		return
	}
	*dst = n
}

func integerOf(raw []byte, lo, hi int) (int, bool) {
	n, err := strconv.Atoi(string(raw))
	return n, err == nil && KindOf(raw) == kindNumber && n >= lo && n <= hi
}

// integers reads an array of 1 to limit integers.
func (o *Object) integers(name string, lo, hi, limit int, dst *[]int) {
	if _, ok := o.Raw(name); !ok {
		return
	}
	elements := o.Array(name, limit)
	if len(elements) == 0 {
		o.Fail(name, "must be an array of 1 to %d integers", limit)
		return
	}
	*dst = make([]int, len(elements))
	for i, raw := range elements {
		n, ok := integerOf(raw, lo, hi)
		if !ok {
			o.Fail(Indexed(name, i), "must be an integer from %d to %d", lo, hi)
			return
		}
		(*dst)[i] = n
	}
}

// Indexed returns the path of an array element, such as destinations[2].
func Indexed(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// Require refuses an object without a member.
func (o *Object) Require(name string) {
	if _, ok := o.Raw(name); !ok {
		o.Fail(name, "is required")
	}
}

// Optional reads a member that may be absent or null; then it returns nil.
func Optional[T any](o *Object, name string, read func(name string, dst *T)) *T {
	if _, ok := o.Raw(name); !ok || o.IsNull(name) {
		return nil
	}
	v := new(T)
	read(name, v)
	return v
}

func (o *Object) number(name string, lo, hi float64, dst *float64) {
	raw, ok := o.Raw(name)
	if !ok {
		return
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || KindOf(raw) != kindNumber || math.IsNaN(f) || f < lo || f > hi {
		o.Fail(name, "must be a number from %g to %g", lo, hi)
		return
	}
	*dst = f
}

// Object returns a member that is an object, nil if it is absent or null. Other kinds are an error.
func (o *Object) Object(name string) *Object {
	if o.IsNull(name) {
		return nil
	}
	raw, ok := o.RawOfKind(name, KindObject)
	if !ok {
		return nil
	}
	return o.In.NewObject(o.Param(name), raw)
}

// Array returns the elements of an array of at most limit elements, nil if it is absent or null.
func (o *Object) Array(name string, limit int) [][]byte {
	if o.IsNull(name) {
		return nil
	}
	raw, ok := o.RawOfKind(name, KindArray)
	if !ok {
		return nil
	}
	elements, err := web.ParseArray(raw, limit)
	if err != nil {
		o.Fail(name, "must have at most %d elements", limit)
		return nil
	}
	if elements == nil {
		elements = [][]byte{}
	}
	return elements
}

// FixedValue accepts a member of a feature that this version does not have, with its neutral values only. Other
// values are refused, because they would have no effect.
func (o *Object) FixedValue(name string, values ...string) {
	raw, ok := o.Raw(name)
	if !ok {
		return
	}
	var compact []byte
	if b, err := json.Marshal(json.RawMessage(raw)); err == nil {
		compact = b
	}
	if !slices.Contains(values, string(compact)) {
		o.Fail(name, "must be %s in this version", values[0])
	}
}

// ReadOnly declares members of a response that a request may repeat; they are ignored.
func (o *Object) ReadOnly(names ...string) { o.known = append(o.known, names...) }

// Ignore makes a member absent, whatever its value is.
func (o *Object) Ignore(name string) {
	o.ReadOnly(name)
	o.Members = slices.DeleteFunc(o.Members, func(m web.Member) bool { return m.Name == name })
}

// IgnoreNulls makes the named members absent where they are null. A member that selects what is sent is not among them.
func (o *Object) IgnoreNulls(names ...string) {
	o.Members = slices.DeleteFunc(o.Members, func(m web.Member) bool {
		return KindOf(m.Value) == KindNull && slices.Contains(names, m.Name)
	})
}

// WarnMisplaced adds a warning for each of the named members that the object has; hint says where they belong. It is
// called before warnUnknown, and counts with it.
func (o *Object) WarnMisplaced(hint string, names ...string) {
	for _, m := range o.Members {
		if o.In.unknownMembers < MaxUnknownMembers && slices.Contains(names, m.Name) {
			o.In.unknownMembers++
			o.known = append(o.known, m.Name)
			o.In.Warn(o.Param(m.Name), "unknown member, ignored; "+hint)
		}
	}
}

// WarnUnknown adds a warning for each member that no method has read, at most MaxUnknownMembers in a request.
func (o *Object) WarnUnknown() {
	for _, m := range o.Members {
		if o.In.unknownMembers < MaxUnknownMembers && !slices.Contains(o.known, m.Name) {
			o.In.unknownMembers++
			o.In.Warnings = append(o.In.Warnings, UnknownMember(o.Param(m.Name), m.Name, o.known))
		}
	}
}

// NameUnknown adds the members that no method has read to the error of a request, whose cause one may be: a warning
// is not sent with an error. Call it after WarnUnknown.
func (o *Object) NameUnknown() {
	e, ok := errors.AsType[*web.Error](o.In.Err)
	if !ok || len(o.In.Warnings) == 0 {
		return
	}
	for _, w := range o.In.Warnings {
		if strings.HasPrefix(w.Message, unknownMember) {
			named := *e
			named.Message += fmt.Sprintf(" (%q is an unknown member%s)", w.Param, strings.TrimPrefix(w.Message, unknownMember))
			o.In.Err = &named
			return // report only the first
		}
	}
}

// RefuseUnknown refuses members that no method has read. Use it where members select what is sent: if one were
// ignored, too much would be sent.
func (o *Object) RefuseUnknown() {
	var names []string // each once: a member may be read by several methods
	for _, name := range o.known {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, m := range o.Members {
		if o.In.Err == nil && !slices.Contains(o.known, m.Name) {
			o.Fail(m.Name, "is not a member of this request%s; the members are %s", didYouMean(m.Name, names),
				strings.Join(names, ", "))
		}
	}
}

// didYouMean suggests the known name that is most similar to a mistyped one, "" if none is.
func didYouMean(name string, known []string) string {
	// At most a third of the name may differ, plus one character.
	if best := web.Nearest(strings.ToLower(name), known, len(name)/3+1); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// Decode reads the members of x that clients may set; members that the request does not have stay unchanged. x points
// to a type of package wire, whose tags say what is allowed. decode enforces the length of texts, minimum, maximum, the
// number of items, and enum. The caller checks patterns, and reads members with in:"own" and in:"update". null sets a
// member to its value in defaults, which has the type that x points to, or to zero without defaults.
func (o *Object) Decode(x any, defaults ...any) {
	v := reflect.ValueOf(x).Elem()
	fallback := reflect.Zero(v.Type())
	if len(defaults) > 0 {
		fallback = reflect.ValueOf(defaults[0])
	}
	for _, f := range wire.Members(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !wire.Has(f, ""):
			o.ReadOnly(name)
		case !wire.Has(f, "own") && !wire.Has(f, "update"):
			o.member(name, f, v.FieldByIndex(f.Index), fallback.FieldByIndex(f.Index))
		}
	}
}

// member reads one member by its tags.
func (o *Object) member(name string, f reflect.StructField, at, fallback reflect.Value) {
	bound := func(keyword string) int {
		n, _ := strconv.Atoi(f.Tag.Get(keyword))
		return n
	}
	if _, given := o.Raw(name); !given {
		return
	}
	if wire.Has(f, "null") && o.IsNull(name) {
		at.Set(fallback)
		return
	}
	if at.Kind() == reflect.Pointer {
		o.pointed(name, f, at)
		return
	}
	words := f.Tag.Get("enum")
	if at.Kind() == reflect.String {
		at = at.Addr().Convert(reflect.TypeFor[*string]()).Elem() // its type may have a name
	}
	switch to := at.Addr().Interface().(type) {
	case *string:
		switch {
		case words != "":
			o.Enum(name, to, wire.WordsOf(words)...)
		case wire.Has(f, "name"):
			o.name(name, bound("minLength"), to)
		default:
			o.Text(name, bound("minLength"), cmp.Or(bound("maxLength"), MaxName), to)
		}
	case *bool:
		o.Boolean(name, to)
	case *int:
		o.Integer(name, bound("minimum"), bound("maximum"), to)
	case *float64:
		least, _ := strconv.ParseFloat(f.Tag.Get("minimum"), 64)
		most, _ := strconv.ParseFloat(f.Tag.Get("maximum"), 64)
		o.number(name, least, most, to)
	case *[]int:
		o.integers(name, bound("items.minimum"), bound("items.maximum"), bound("maxItems"), to)
		if f.Tag.Get("uniqueItems") == "true" {
			o.distinct(name, *to)
		}
	case *[]string:
		o.texts(name, bound("maxItems"), to)
		if words := f.Tag.Get("items.enum"); words != "" {
			o.eachOnce(name, *to, wire.WordsOf(words))
		}
	case *web.Time:
		o.time(name, wire.Has(f, "null"), to)
	default: // a struct, or a list of them
		if at.Kind() == reflect.Slice {
			o.objects(name, bound("maxItems"), at)
		} else if inner := o.Object(name); inner != nil {
			inner.Decode(to, fallback.Interface())
			inner.WarnUnknown()
		}
	}
}

// objects reads an array of at most limit objects, which replaces the present one.
func (o *Object) objects(name string, limit int, at reflect.Value) {
	elements := o.Array(name, limit)
	if elements == nil {
		o.Fail(name, "must be %s", KindArray)
		return
	}
	all := reflect.MakeSlice(at.Type(), len(elements), len(elements))
	for i, raw := range elements {
		inner := o.In.NewObject(o.Param(Indexed(name, i)), raw)
		inner.Decode(all.Index(i).Addr().Interface())
		inner.WarnUnknown()
	}
	at.Set(all)
}

// pointed reads a member into a copy of what at points to. null makes it nil, or empty if that says what to remove.
func (o *Object) pointed(name string, f reflect.StructField, at reflect.Value) {
	next := reflect.New(at.Type().Elem())
	switch isNull := o.IsNull(name); {
	case isNull && wire.Has(f, "only"):
	case isNull && next.Elem().Kind() == reflect.Struct && next.Type() != reflect.TypeFor[*web.Time]():
		next = reflect.Zero(at.Type())
	default:
		if !at.IsNil() {
			next.Elem().Set(at.Elem())
		}
		o.member(name, f, next.Elem(), reflect.Zero(next.Elem().Type()))
	}
	at.Set(next)
}

// time reads a time.
func (o *Object) time(name string, orNull bool, to *web.Time) {
	raw, ok := o.RawOfKind(name, KindString)
	if !ok {
		return
	}
	text, err := web.DecodeString(raw)
	t, good := web.ParseTime(text)
	if err != nil || !good {
		null := ""
		if orNull {
			null = ", or null"
		}
		o.Fail(name, "must be a time such as 2026-08-21T22:24:36Z%s", null)
	}
	*to = web.Time(t)
}

// distinct rejects a list that has a number twice.
func (o *Object) distinct(name string, numbers []int) {
	for i, n := range numbers {
		if slices.Contains(numbers[:i], n) {
			o.Fail(Indexed(name, i), "is there twice")
		}
	}
}

// eachOnce rejects a list that has a text twice, or one that is not among words.
func (o *Object) eachOnce(name string, texts, words []string) {
	for i, text := range texts {
		if !slices.Contains(words, text) || slices.Contains(texts[:i], text) {
			o.Fail(Indexed(name, i), "must be one of %s, each once", strings.Join(words, ", "))
		}
	}
}

// texts reads an array of at most limit strings.
func (o *Object) texts(name string, limit int, to *[]string) {
	elements := o.Array(name, limit)
	if elements == nil {
		o.Fail(name, "must be %s", KindArray)
		return
	}
	all := make([]string, len(elements))
	for i, raw := range elements {
		if KindOf(raw) != KindString {
			o.Fail(Indexed(name, i), "must be %s", KindString)
			return
		}
		if all[i], _ = TextOf(raw, 0, len(raw)); all[i] == "" && len(raw) > 2 {
			o.Fail(Indexed(name, i), "must be a JSON string")
		}
	}
	*to = all
}
