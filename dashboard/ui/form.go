package ui

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// filterChoices are the values of a filter of the API.
func filterChoices(name string) []Option {
	i := slices.IndexFunc(event.Filters, func(f event.Filter) bool { return f.Name == name })
	return PlainOptions(event.Filters[i].AllowedValues...)
}

// Form is what a page draws of a form: its values, the errors of its fields, and a nonce.
type Form struct {
	// Nonce is the Idempotency-Key of the call that the form leads to.
	Nonce string
	// Version is the state of the resource when the form was drawn, such as its updated_at; empty for a new one.
	Version string
	// Error is why the form was not accepted; empty for a new form. Param is the field at fault, and Label its label:
	// known once the field is drawn.
	Error, Param, Label string
	// ReadOnly says that the form asks for something and changes nothing. Refused begins the message of a
	// refused form, such as "Not sent"; empty: "Not saved".
	ReadOnly bool
	Refused  string
	// Unconfirmed says that the service did not confirm what the form asked for.
	Unconfirmed bool
	// Stale says that somebody has changed the resource since the form was drawn; see SetStale.
	Stale  bool
	Values url.Values
	stored map[string]string // what is stored now, by field, where it differs from the value in the form
	// now and present are the arguments of AddVersion.
	now     url.Values
	present string
}

// NewForm returns a form with these values. Names of fields are the API's names of parameters, so that errors find
// them.
func NewForm(values url.Values, version string) *Form {
	return &Form{Nonce: NewNonce(), Version: version, Values: values}
}

// NewNonce returns a random text that no other form has.
func NewNonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

var nonceFormat = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// Form returns the form that was sent, with its values, nonce and version.
func (v *Visit) Form() (*Form, error) {
	f := &Form{Nonce: v.Values.Get("nonce"), Version: v.Values.Get("version"), Values: v.Values}
	if !nonceFormat.MatchString(f.Nonce) {
		return nil, web.Invalid("", "The form is incomplete. Open the page again and send it once more.")
	}
	return f, nil
}

// Value returns the value of a field; empty if it has none.
func (f *Form) Value(name string) string { return f.Values.Get(name) }

// Has reports whether value is one of the values of a field, for checkboxes and options.
func (f *Form) Has(name, value string) bool { return slices.Contains(f.Values[name], value) }

// SetError shows an error of the API in the form, at the field that it names, and returns the status of the page. A
// form that may have taken effect keeps its nonce, so that sending it again does nothing twice; a rejected one gets a
// new one, since it will be sent with other values.
func (f *Form) SetError(e *APIError) (status int) {
	f.Error, f.Param = Sentence(e.Message), e.Param
	f.Unconfirmed = !f.ReadOnly && e.Status >= http.StatusInternalServerError
	if e.Status == http.StatusBadRequest {
		f.Nonce = NewNonce()
	}
	return e.Status
}

// SetStale marks the form as drawn from an older state: version is the present one, stored the present values of its
// fields. The page then shows both and asks again.
func (f *Form) SetStale(version string, stored map[string]string) (status int) {
	f.Stale, f.Version, f.Nonce, f.stored = true, version, NewNonce(), map[string]string{}
	for name, value := range stored {
		if value != f.Value(name) {
			f.stored[name] = value
		}
	}
	return http.StatusBadRequest
}

// field is one control of a form for the template "field".
type field struct {
	ID, Name, Label, Hint, Value, Error string
	Stored                              *string // what is stored now, if it differs
	Again                               bool    // a secret was entered, and the page that is shown again does not have it
	Type, Autocomplete, Placeholder     string
	Max, Min, Pattern, Rows, List       string // List is the id of a datalist
	Required, Focus, ReadOnly           bool
	Options                             []Option
	Empty                               string // text of the empty option; "" = none
	Many                                bool   // boxes in place of circles
}

// Option is one choice of a select or of a group of options.
type Option struct {
	Value, Text, Hint string
	Chosen            bool
}

// newField returns a field of f. Each setting is a word ("required", "focus", "readonly") or name=value with the names
// label, hint, type, autocomplete, placeholder, max (characters), min, pattern, rows, list.
func newField(f *Form, name string, settings ...string) (field, error) {
	x := field{ID: "f-" + name, Name: name, Label: name, Type: "text"}
	if f != nil {
		x.Value = f.Value(name)
		if f.Error != "" && f.Param == name {
			x.Error = f.Error
		}
		if stored, ok := f.stored[name]; ok {
			x.Stored = &stored
		}
	}
	texts := map[string]*string{"label": &x.Label, "hint": &x.Hint, "type": &x.Type, "autocomplete": &x.Autocomplete,
		"placeholder": &x.Placeholder, "max": &x.Max, "min": &x.Min, "pattern": &x.Pattern, "rows": &x.Rows,
		"empty": &x.Empty, "list": &x.List}
	words := map[string]*bool{"required": &x.Required, "focus": &x.Focus, "readonly": &x.ReadOnly, "many": &x.Many}
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		switch {
		case ok && texts[name] != nil:
			*texts[name] = value
		case !ok && words[name] != nil:
			*words[name] = true
		default:
			return field{}, fmt.Errorf("field %s: unknown setting %q", x.Name, s)
		}
	}
	switch {
	case x.Error != "":
		x.Focus, f.Label = true, x.Label
	case f != nil && f.Label != "":
		x.Focus = false // the field at fault has it
	}
	if x.Type == "password" { // a person's own password, which a browser fills in, needs no note
		x.Again = x.Value != "" && x.Autocomplete == "off" && (f.Error != "" || f.Stale)
		x.Value = ""
	}
	return x, nil
}

// OptionText returns the text of a choice; the value itself if it is none.
func OptionText(options []Option, value string) string {
	for _, o := range options {
		if o.Value == value {
			return o.Text
		}
	}
	return value
}

// NewOptions returns choices, each of the form value=text or value=text|hint; a word is both value and text.
func NewOptions(choices ...string) []Option {
	options := make([]Option, len(choices))
	for i, choice := range choices {
		value, text, ok := strings.Cut(choice, "=")
		if text, options[i].Hint, _ = strings.Cut(text, "|"); !ok {
			text = value
		}
		options[i].Value, options[i].Text = value, text
	}
	return options
}

// PlainOptions returns options that show their values.
func PlainOptions(values ...string) []Option {
	options := make([]Option, len(values))
	for i, value := range values {
		options[i] = Option{Value: value, Text: value}
	}
	return options
}

// newChoice returns a field of f with options, for the templates "select" and "options".
func newChoice(f *Form, name string, options []Option, settings ...string) (field, error) {
	x, err := newField(f, name, settings...)
	x.Options = slices.Clone(options)
	for i := range x.Options {
		x.Options[i].Chosen = f != nil && f.Has(name, x.Options[i].Value)
	}
	return x, err
}

// FieldKind is how a value of the API is entered in a field. read returns the entered text as JSON. Invalid
// text goes to the API as a string, so that the API's error says what the value must be.
type FieldKind struct {
	Read    func(text string) any
	Between string // elements of a list, in the field
}

// Kinds of fields.
var (
	TextField      = FieldKind{func(text string) any { return text }, ", "}
	TrimmedField   = FieldKind{func(text string) any { return strings.TrimSpace(text) }, ", "}
	OptionalText   = FieldKind{AsTextOrNull, ", "}
	Checkbox       = FieldKind{func(text string) any { return text == "true" }, ""}
	NumberField    = FieldKind{AsNumber, ""}
	OptionalNumber = FieldKind{asNumberOrNull, ""}
	JSONField      = FieldKind{AsJSONOrNull, ""}
	LineField      = FieldKind{func(text string) any { return AsLines(text) }, "\n"}
	WordField      = FieldKind{func(text string) any { return append([]string{}, asList(text)...) }, ", "}
	NumbersField   = FieldKind{asNumbers, ", "}
)

// FieldTable has the fields of a form: their names are the paths of the API's members, separated by spaces.
type FieldTable []struct {
	FieldKind
	Names string
}

// Values returns the values of the fields for a resource of the API. A field whose member is missing is empty.
func (t FieldTable) Values(thing any) url.Values {
	text, values := web.Encode(thing), url.Values{}
	for _, row := range t {
		for name := range strings.FieldsSeq(row.Names) {
			shown := shownText(gjson.GetBytes(text, elements.Replace(name)), row.Between)
			if isSeconds(name) {
				shown = eachWord(shown, shortDuration)
			}
			values.Set(name, shown)
		}
	}
	return values
}

// elements makes the path of an element of a list one of gjson.
var elements = strings.NewReplacer("[", ".", "]", "")

// shownText returns a JSON value as its field shows it. between separates the elements of a list.
func shownText(value gjson.Result, between string) string {
	switch {
	case value.IsArray():
		var texts []string
		for _, x := range value.Array() {
			texts = append(texts, shownText(x, between))
		}
		return strings.Join(texts, between)
	case value.Type == gjson.False, value.Raw == "{}":
		return ""
	case value.IsObject():
		return Indented([]byte(value.Raw))
	case value.Type == gjson.Number:
		return value.Raw
	}
	return value.String()
}

// TextOfJSON is a decoded JSON value as one text; elements of a list are separated by commas.
func TextOfJSON(value any) string { return shownText(gjson.ParseBytes(web.Encode(value)), ", ") }

// Edit makes the body of a PATCH or POST from a form: the members that differ from what is stored, so that a mask that
// was not touched is not sent, and that a change of somebody else to another member stays.
type Edit struct {
	F      *Form
	Stored url.Values // the values that the fields showed for the stored resource
	Body   map[string]any
}

// NewEdit returns a change without members yet. stored is what the fields showed before.
func NewEdit(f *Form, stored url.Values) *Edit { return &Edit{f, stored, map[string]any{}} }

// Changes returns the members that a form changes.
func (t FieldTable) Changes(f *Form, stored url.Values) map[string]any {
	x := NewEdit(f, stored)
	x.Set(t)
	return x.Body
}

// All returns all members of a form.
func (t FieldTable) All(f *Form) map[string]any { return t.Changes(f, url.Values{}) }

// Value returns the text of a field. Browsers send new lines as CR LF.
func (x *Edit) Value(name string) string { return UnixLines(x.F.Value(name)) }

// entered is the text of a field as the API takes it.
func (x *Edit) entered(name string) string {
	if isSeconds(name) {
		return eachWord(x.Value(name), SecondsOf)
	}
	return x.Value(name)
}

// isSeconds reports whether a member is a number of seconds, which its field shows and takes as 90s, 5m, 12h or 7d.
func isSeconds(name string) bool { return strings.HasSuffix(name, "seconds") }

// durationUnits are the units of durations in fields, the longest first.
var durationUnits = []struct {
	name    string
	seconds int64
}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}

// shortDuration returns a number of seconds in the longest unit that it is a multiple of, such as 12h. Other text
// stays.
func shortDuration(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return text
	}
	for _, u := range durationUnits {
		if n%u.seconds == 0 {
			return strconv.FormatInt(n/u.seconds, 10) + u.name
		}
	}
	return text
}

// SecondsOf returns a duration such as 12h or 1h30m as its number of seconds. Other text stays as it is.
func SecondsOf(text string) string {
	rest, sum := strings.TrimSpace(text), int64(0)
	for _, u := range durationUnits {
		digits, after, found := strings.Cut(rest, u.name)
		if n, err := strconv.ParseInt(digits, 10, 32); found && err == nil && n >= 0 {
			sum, rest = sum+n*u.seconds, after
		}
	}
	if rest != "" || strings.TrimSpace(text) == "" {
		return text
	}
	return strconv.FormatInt(sum, 10)
}

// eachWord changes the words of a list that are separated by commas or spaces.
func eachWord(text string, change func(string) string) string {
	words := asList(text)
	for i, word := range words {
		words[i] = change(word)
	}
	return strings.Join(words, ", ")
}

// UnixLines replaces the line ends of browsers, CR LF, by LF.
func UnixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// Changed reports whether one of the fields differs from what is stored.
func (x *Edit) Changed(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		sent, stored := slices.Clone(x.F.Values[name]), slices.Clone(x.Stored[name])
		for _, list := range [][]string{sent, stored} {
			for i := range list {
				if list[i] = UnixLines(list[i]); isSeconds(name) {
					list[i] = eachWord(list[i], SecondsOf)
				}
			}
			slices.Sort(list)
		}
		return strings.Join(sent, "\x00") != strings.Join(stored, "\x00")
	})
}

// Set sets the members whose fields differ from what is stored; without stored values all.
func (x *Edit) Set(t FieldTable) {
	for _, row := range t {
		for name := range strings.FieldsSeq(row.Names) {
			if len(x.Stored) == 0 || x.Changed(name) {
				x.Put(name, row.Read(x.entered(name)))
			}
		}
	}
}

// Put sets a member by its path, such as alerts.enabled.
func (x *Edit) Put(path string, value any) {
	object := x.Body
	for {
		name, inside, nested := strings.Cut(path, ".")
		if !nested {
			object[name] = value
			return
		}
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		object, path = inner, inside
	}
}

// AsTextOrNull returns a text, and null for an empty one.
func AsTextOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// AsNumber returns a number as it was typed. Other text stays text, so that the API names it in its error.
func AsNumber(text string) any {
	text = strings.TrimSpace(text)
	if json.Valid([]byte(text)) && gjson.Parse(text).Type == gjson.Number {
		return json.RawMessage(text)
	}
	return text
}

func asNumberOrNull(text string) any {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return AsNumber(text)
}

// AsJSONOrNull returns the JSON that was typed, and null for none.
func AsJSONOrNull(text string) any {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return text
}

// AsLines returns the lines that are not empty.
func AsLines(text string) []string {
	lines := []string{}
	for line := range strings.SplitSeq(UnixLines(text), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// asList returns the words of a text that are separated by commas or spaces.
func asList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' })
}

func asNumbers(text string) any {
	numbers := []any{}
	for _, word := range asList(text) {
		numbers = append(numbers, AsNumber(word))
	}
	return numbers
}

// Entered returns those of the fields that are not empty, without the spaces around them.
func (f *Form) Entered(names ...string) map[string]any {
	body := map[string]any{}
	for name, values := range FiltersOf(f.Values, names) {
		body[name] = values[0]
	}
	return body
}

// Fingerprint identifies the stored values that a form was drawn from. If the fingerprint of a form differs from the
// current one, somebody has changed one of its fields since.
func Fingerprint(values url.Values) string {
	sum := sha256.Sum256([]byte(values.Encode()))
	return hex.EncodeToString(sum[:8])
}

// EditForm returns a form that shows values.
func EditForm(values url.Values) *Form { return NewForm(maps.Clone(values), Fingerprint(values)) }

// IsStale reports whether the stored fields have changed since the form was drawn. It then marks the form, which shows
// both.
func (f *Form) IsStale(v *Visit, stored url.Values) bool {
	version := Fingerprint(stored)
	if f.Version == version {
		return false
	}
	v.Status = f.SetStale(version, f.textsOf(stored))
	return true
}

// textsOf returns stored values as one text for each field: that of the form where they are the same.
func (f *Form) textsOf(stored url.Values) map[string]string {
	texts := map[string]string{}
	for name, values := range stored {
		texts[name] = strings.Join(values, ", ")
		if shown := strings.Join(f.Values[name], ", "); UnixLines(shown) == UnixLines(texts[name]) {
			texts[name] = f.Value(name)
		}
	}
	return texts
}

// AddVersion adds the version that the form was drawn from to the body of a change: the API refuses one of another
// version, which would overwrite what somebody else has changed since. The form then shows the present version, and
// stored, what it has in its fields.
func (f *Form) AddVersion(body map[string]any, present int, stored url.Values) {
	if version, err := strconv.Atoi(f.Version); err == nil {
		body["version"] = version
	}
	f.present, f.now = strconv.Itoa(present), stored
}

// Unchanged says why there is nothing to save. A form that was sent before may have been saved without an answer.
func (f *Form) Unchanged(stored url.Values) string {
	if f.Version == Fingerprint(stored) {
		return "Nothing was changed."
	}
	return "It is stored already as you entered it."
}

// reject shows an error of the API in the form, at the field whose name is the longest part of the parameter at fault,
// and returns the status of the page.
func (f *Form) reject(e *APIError) (status int) {
	if e.Type == web.Conflict && e.Param == "version" && f.now != nil {
		return f.SetStale(f.present, f.textsOf(f.now))
	}
	x := *e
	if name := fieldOf(e.Param, f.Values); name != e.Param && name != "" {
		x.Message = strings.TrimPrefix(e.Param[len(name):], ".") + " " + e.Message
		x.Param = name
	}
	return f.SetError(&x)
}

// fieldOf returns the field for a parameter of the API: the parameter itself, or the one that it is a part of.
func fieldOf(param string, fields url.Values) string {
	found := ""
	for name := range fields {
		inside := param == name || strings.HasPrefix(param, name+".") || strings.HasPrefix(param, name+"[")
		if inside && len(name) > len(found) {
			found = name
		}
	}
	return found
}

// jsonText returns a value as indented JSON.
func jsonText(value any) string { return Indented(bytes.TrimSpace(web.Encode(value))) }

// LineNumber turns an index of the API, from 0, into the number of a line.
func LineNumber(index string) string {
	n, err := strconv.Atoi(index)
	if err != nil {
		return index
	}
	return strconv.Itoa(n + 1)
}

// maxIndented is how large a body may become by indenting, in bytes.
const maxIndented = 512 << 10

// Indented returns JSON indented for editing, or as it is if it is nested so deep that this would be large.
func Indented(body []byte) string {
	depth, lines := event.JSONDepth(body), bytes.Count(body, []byte(","))+bytes.Count(body, []byte(":"))
	var out bytes.Buffer
	if len(body)+2*depth*(lines+2*depth) > maxIndented || json.Indent(&out, body, "", "  ") != nil {
		return string(body)
	}
	return out.String()
}
