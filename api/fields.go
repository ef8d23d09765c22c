package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/nearest"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of members that several resources have: the characters of a name, of a URL and of other texts, the bytes of a
// header. Ids and times in bodies are bounded so that an error does not repeat a megabyte.
const (
	maxName        = 100
	maxURL         = 2048
	maxHeaderValue = 2048
	maxIDText      = 200
)

// defaultNameLength is how many characters at the end of its id name what was created without a name.
const defaultNameLength = 8

// warning says that a member was ignored, or that a setting will not work as it is.
type warning = wire.Warning

// maxUnknownMembers bounds the warnings about unknown members in one response, and with them the searches for
// similar names: a request may contain a hundred thousand members.
const maxUnknownMembers = 20

// unknownMember returns the warning about an unknown member. Its name is the client's choice, so a long one is cut.
func unknownMember(param, name string, known []string) warning {
	return warning{Param: web.TruncateParam(param), Message: "unknown member, ignored" + didYouMean(name, known)}
}

// input collects the warnings about a request body and its first error, which becomes the response.
type input struct {
	err            error
	warnings       []warning
	unknownMembers int // how many of the warnings are about unknown members
}

func (in *input) fail(param, format string, args ...any) {
	if in.err == nil {
		in.err = web.Invalid(param, format, args...)
	}
}

func (in *input) warn(param, message string) {
	in.warnings = append(in.warnings, warning{Param: param, Message: message})
}

// maskName masks the secrets in a name.
func (in *input) maskName(leaks *secrets.Scanner, param string, name *string) {
	in.maskText(leaks, param, name, "names are shown to everybody and stand in alerts")
}

// maskText masks the secrets in a text, and warns why it did.
func (in *input) maskText(leaks *secrets.Scanner, param string, text *string, why string) {
	if masked, n := leaks.MaskAll(nil, []byte(*text)); n > 0 {
		*text = string(masked)
		in.warn(param, "contained a secret, which was masked: "+why)
	}
}

// errOtherVersion is the error of a request that changes another version of a thing than the current one.
func errOtherVersion(thing string, current int) error {
	return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: "version",
		Message: fmt.Sprintf("is not that of the %s, which has been changed meanwhile and is now %d; read it and try again",
			thing, current)}
}

// object reads the members of one JSON object. A read method changes its target only if the member is present and
// valid. The targets hold the defaults for POST and the current values for PATCH, so the same code serves both.
type object struct {
	in      *input
	path    string
	members []web.Member
	known   []string
	unnamed bool // the request has the value of the only member in place of the object
}

// newObject parses raw, the JSON object at path in the request.
func (in *input) newObject(path string, raw []byte) *object {
	o := &object{in: in, path: path}
	members, err := web.ParseObject(nil, raw)
	if err != nil && in.err == nil {
		if path != "" && kindOf(raw) != kindObject {
			in.fail(path, "must be an object")
		} else {
			in.err = web.InvalidJSON(path, err)
		}
	}
	o.members = members
	return o
}

// Kinds of JSON values, as error messages call them.
const (
	kindNull   = "null"
	kindString = "a string"
	kindNumber = "a number"
	kindBool   = "true or false"
	kindObject = "an object"
	kindArray  = "an array"
)

func kindOf(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case 'n':
		return kindNull
	case '"':
		return kindString
	case 't', 'f':
		return kindBool
	case '{':
		return kindObject
	case '[':
		return kindArray
	default:
		return kindNumber
	}
}

func (o *object) param(name string) string {
	if o.unnamed {
		return o.path + strings.TrimPrefix(name, o.members[0].Name)
	}
	return web.JoinPath(o.path, name)
}

func (o *object) fail(name, format string, args ...any) { o.in.fail(o.param(name), format, args...) }

// raw returns the bytes of a member.
func (o *object) raw(name string) ([]byte, bool) {
	o.known = append(o.known, name)
	for _, m := range o.members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return nil, false
}

// rawOfKind returns the bytes of a member that must have that kind.
func (o *object) rawOfKind(name, kind string) ([]byte, bool) {
	raw, ok := o.raw(name)
	if !ok {
		return nil, false
	}
	if kindOf(raw) != kind {
		o.fail(name, "must be %s", kind)
		return nil, false
	}
	return raw, true
}

// isNull reports whether a member is present and null.
func (o *object) isNull(name string) bool {
	raw, ok := o.raw(name)
	return ok && kindOf(raw) == kindNull
}

// text reads a string of lo to hi characters.
func (o *object) text(name string, lo, hi int, dst *string) {
	raw, ok := o.rawOfKind(name, kindString)
	if !ok {
		return
	}
	if s, problem := textOf(raw, lo, hi); problem != "" {
		o.fail(name, "%s", problem)
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

// name reads a name of lo to maxName printable characters: names stand in lists, alerts and logs. One that was saved
// before this was required may be sent back unchanged.
func (o *object) name(name string, lo int, dst *string) {
	before := *dst
	if o.text(name, lo, maxName, dst); *dst == before {
		return
	}
	if bad := invisible(*dst); bad != "" {
		o.fail(name, "must have printable characters only, without line breaks and direction marks: it has %s", bad)
	}
}

// textOf decodes a string of lo to hi characters and returns what is wrong with it, "" if nothing.
func textOf(raw []byte, lo, hi int) (string, string) {
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

// sameVersion refuses a request whose member version is not the current version of a thing: somebody else has changed
// it since the client read it.
func (o *object) sameVersion(thing string, current int) {
	version := current
	o.integer("version", 1, 1<<53, &version)
	if version != current && o.in.err == nil {
		o.in.err = errOtherVersion(thing, current)
	}
}

// enum reads a string that must be one of words.
func (o *object) enum(name string, dst *string, words ...string) {
	raw, ok := o.rawOfKind(name, kindString)
	if !ok {
		return
	}
	s, err := web.DecodeString(raw)
	if err != nil || !slices.Contains(words, s) {
		o.fail(name, "must be one of %s%s", strings.Join(words, ", "), didYouMean(s, words))
		return
	}
	*dst = s
}

func (o *object) boolean(name string, dst *bool) {
	if raw, ok := o.rawOfKind(name, kindBool); ok {
		*dst = raw[0] == 't'
	}
}

// integer reads an integer from lo to hi. 5.0 and 5e0 are refused.
func (o *object) integer(name string, lo, hi int, dst *int) {
	raw, ok := o.raw(name)
	if !ok {
		return
	}
	n, good := integerOf(raw, lo, hi)
	if !good {
		o.fail(name, "must be an integer from %d to %d", lo, hi)
		return
	}
	*dst = n
}

func integerOf(raw []byte, lo, hi int) (int, bool) {
	n, err := strconv.Atoi(string(raw))
	return n, err == nil && kindOf(raw) == kindNumber && n >= lo && n <= hi
}

// integers reads an array of 1 to limit integers.
func (o *object) integers(name string, lo, hi, limit int, dst *[]int) {
	if _, ok := o.raw(name); !ok {
		return
	}
	elements := o.array(name, limit)
	if len(elements) == 0 {
		o.fail(name, "must be an array of 1 to %d integers", limit)
		return
	}
	*dst = make([]int, len(elements))
	for i, raw := range elements {
		n, ok := integerOf(raw, lo, hi)
		if !ok {
			o.fail(indexed(name, i), "must be an integer from %d to %d", lo, hi)
			return
		}
		(*dst)[i] = n
	}
}

// indexed returns the path of an array element, such as destinations[2].
func indexed(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// require refuses an object without a member.
func (o *object) require(name string) {
	if _, ok := o.raw(name); !ok {
		o.fail(name, "is required")
	}
}

// optional reads a member that may be absent or null; then it returns nil.
func optional[T any](o *object, name string, read func(name string, dst *T)) *T {
	if _, ok := o.raw(name); !ok || o.isNull(name) {
		return nil
	}
	v := new(T)
	read(name, v)
	return v
}

func (o *object) number(name string, lo, hi float64, dst *float64) {
	raw, ok := o.raw(name)
	if !ok {
		return
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || kindOf(raw) != kindNumber || math.IsNaN(f) || f < lo || f > hi {
		o.fail(name, "must be a number from %g to %g", lo, hi)
		return
	}
	*dst = f
}

// object returns a member that is an object, nil if it is absent or null. Other kinds are an error.
func (o *object) object(name string) *object {
	if o.isNull(name) {
		return nil
	}
	raw, ok := o.rawOfKind(name, kindObject)
	if !ok {
		return nil
	}
	return o.in.newObject(o.param(name), raw)
}

// array returns the elements of an array of at most limit elements, nil if it is absent or null.
func (o *object) array(name string, limit int) [][]byte {
	if o.isNull(name) {
		return nil
	}
	raw, ok := o.rawOfKind(name, kindArray)
	if !ok {
		return nil
	}
	elements, err := web.ParseArray(raw, limit)
	if err != nil {
		o.fail(name, "must have at most %d elements", limit)
		return nil
	}
	if elements == nil {
		elements = [][]byte{}
	}
	return elements
}

// fixedValue accepts a member of a feature that this version does not have, with its neutral values only. Other
// values are refused, because they would have no effect.
func (o *object) fixedValue(name string, values ...string) {
	raw, ok := o.raw(name)
	if !ok {
		return
	}
	var compact []byte
	if b, err := json.Marshal(json.RawMessage(raw)); err == nil {
		compact = b
	}
	if !slices.Contains(values, string(compact)) {
		o.fail(name, "must be %s in this version", values[0])
	}
}

// readOnly declares members of a response that a request may repeat; they are ignored.
func (o *object) readOnly(names ...string) { o.known = append(o.known, names...) }

// ignore makes a member absent, whatever its value is.
func (o *object) ignore(name string) {
	o.readOnly(name)
	o.members = slices.DeleteFunc(o.members, func(m web.Member) bool { return m.Name == name })
}

// ignoreNulls makes the named members absent where they are null. A member that selects what is sent is not among them.
func (o *object) ignoreNulls(names ...string) {
	o.members = slices.DeleteFunc(o.members, func(m web.Member) bool {
		return kindOf(m.Value) == kindNull && slices.Contains(names, m.Name)
	})
}

// warnMisplaced adds a warning for each of the named members that the object has; hint says where they belong. It is
// called before warnUnknown, and counts with it.
func (o *object) warnMisplaced(hint string, names ...string) {
	for _, m := range o.members {
		if o.in.unknownMembers < maxUnknownMembers && slices.Contains(names, m.Name) {
			o.in.unknownMembers++
			o.known = append(o.known, m.Name)
			o.in.warn(o.param(m.Name), "unknown member, ignored; "+hint)
		}
	}
}

// warnUnknown adds a warning for each member that no method has read, at most maxUnknownMembers in a request.
func (o *object) warnUnknown() {
	for _, m := range o.members {
		if o.in.unknownMembers < maxUnknownMembers && !slices.Contains(o.known, m.Name) {
			o.in.unknownMembers++
			o.in.warnings = append(o.in.warnings, unknownMember(o.param(m.Name), m.Name, o.known))
		}
	}
}

// refuseUnknown refuses members that no method has read. Use it where members select what is sent: if one were
// ignored, too much would be sent.
func (o *object) refuseUnknown() {
	var names []string // each once: a member may be read by several methods
	for _, name := range o.known {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, m := range o.members {
		if o.in.err == nil && !slices.Contains(o.known, m.Name) {
			o.fail(m.Name, "is not a member of this request%s; the members are %s", didYouMean(m.Name, names),
				strings.Join(names, ", "))
		}
	}
}

// didYouMean suggests the known name that is most similar to a mistyped one, "" if none is.
func didYouMean(name string, known []string) string {
	// At most a third of the name may differ, plus one character.
	if best := nearest.Name(strings.ToLower(name), known, len(name)/3+1); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}
