package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/web"
)

// fieldKind is how a value of the API is entered in a field. read returns the entered text as JSON; a text that has not
// the form goes to the API as a string, and its error says what it must be.
type fieldKind struct {
	read    func(text string) any
	between string // elements of a list, in the field
}

// Kinds of fields.
var (
	textField      = fieldKind{func(text string) any { return text }, ", "}
	trimmedField   = fieldKind{func(text string) any { return strings.TrimSpace(text) }, ", "}
	optionalText   = fieldKind{asTextOrNull, ", "}
	checkbox       = fieldKind{func(text string) any { return text == "true" }, ""}
	numberField    = fieldKind{asNumber, ""}
	optionalNumber = fieldKind{asNumberOrNull, ""}
	jsonField      = fieldKind{asJSONOrNull, ""}
	lineField      = fieldKind{func(text string) any { return asLines(text) }, "\n"}
	wordField      = fieldKind{func(text string) any { return append([]string{}, asList(text)...) }, ", "}
	numbersField   = fieldKind{asNumbers, ", "}
)

// fieldTable has the fields of a form: their names are the paths of the API's members, separated by spaces.
type fieldTable []struct {
	fieldKind
	names string
}

// values returns what the fields show of a thing of the API. A field whose member is missing is empty.
func (t fieldTable) values(thing any) url.Values {
	var object map[string]any
	text, err := json.Marshal(thing)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(&object)
	}
	if err != nil {
		panic(fmt.Sprintf("values of %T: %v", thing, err)) // it was decoded from JSON
	}
	values := url.Values{}
	for _, row := range t {
		for name := range strings.FieldsSeq(row.names) {
			values.Set(name, shownText(member(object, name), row.between))
		}
	}
	return values
}

// shownText returns a decoded JSON value as its field shows it.
func shownText(value any, between string) string {
	switch value := value.(type) {
	case bool:
		return boolText(value)
	case map[string]any:
		if len(value) == 0 {
			return ""
		}
		return jsonText(value)
	case []any:
		texts := make([]string, len(value))
		for i := range value {
			texts[i] = shownText(value[i], between)
		}
		return strings.Join(texts, between)
	}
	return textOfJSON(value)
}

// textOfJSON is a decoded JSON value as one text; elements of a list are separated by commas.
func textOfJSON(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case []any:
		return shownText(value, ", ")
	}
	return fmt.Sprint(value)
}

// member returns a member of an object by its path, such as actor.id; nil if there is none.
func member(object map[string]any, path string) any {
	name, inside, nested := strings.Cut(path, ".")
	if !nested {
		return object[name]
	}
	inner, _ := object[name].(map[string]any)
	return member(inner, inside)
}

// edit makes the body of a PATCH or POST from a form: the members that differ from what is stored, so that a mask that
// was not touched is not sent, and that a change of somebody else to another member stays.
type edit struct {
	f      *form
	stored url.Values // what the fields showed of the stored thing
	body   map[string]any
}

func newEdit(f *form, stored url.Values) *edit { return &edit{f, stored, map[string]any{}} }

// changes returns the members that a form changes.
func (t fieldTable) changes(f *form, stored url.Values) map[string]any {
	x := newEdit(f, stored)
	x.set(t)
	return x.body
}

// all returns all members of a form.
func (t fieldTable) all(f *form) map[string]any { return t.changes(f, url.Values{}) }

// value returns the text of a field. Browsers send new lines as CR LF.
func (x *edit) value(name string) string { return unixLines(x.f.Value(name)) }

func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// changed reports whether one of the fields differs from what is stored.
func (x *edit) changed(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		sent, stored := slices.Clone(x.f.values[name]), slices.Clone(x.stored[name])
		for _, list := range [][]string{sent, stored} {
			for i := range list {
				list[i] = unixLines(list[i])
			}
			slices.Sort(list)
		}
		return strings.Join(sent, "\x00") != strings.Join(stored, "\x00")
	})
}

// set sets the members whose fields differ from what is stored; without stored values all.
func (x *edit) set(t fieldTable) {
	for _, row := range t {
		for name := range strings.FieldsSeq(row.names) {
			if len(x.stored) == 0 || x.changed(name) {
				x.put(name, row.read(x.value(name)))
			}
		}
	}
}

// put sets a member by its path, such as alerts.enabled.
func (x *edit) put(path string, value any) {
	object := x.body
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

func asTextOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func asNumber(text string) any {
	text = strings.TrimSpace(text)
	var n json.Number
	if json.Unmarshal([]byte(text), &n) == nil && text != "" && text[0] != '"' && text != "null" {
		return json.RawMessage(text)
	}
	return text
}

func asNumberOrNull(text string) any {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return asNumber(text)
}

func asJSONOrNull(text string) any {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return nil
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	return text
}

// asLines returns the lines that are not empty.
func asLines(text string) []string {
	lines := []string{}
	for line := range strings.SplitSeq(unixLines(text), "\n") {
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
		numbers = append(numbers, asNumber(word))
	}
	return numbers
}

// entered returns those of the fields that are not empty, without the spaces around them.
func (f *form) entered(names ...string) map[string]any {
	body := map[string]any{}
	for name, values := range filtersOf(f.values, names) {
		body[name] = values[0]
	}
	return body
}

// fingerprint identifies what a form shows of a stored thing. A form whose fingerprint is another was drawn before
// somebody changed one of its fields.
func fingerprint(values url.Values) string {
	sum := sha256.Sum256([]byte(values.Encode()))
	return hex.EncodeToString(sum[:8])
}

// editForm returns a form that shows values.
func editForm(values url.Values) *form { return newForm(maps.Clone(values), fingerprint(values)) }

// isStale reports whether the stored fields have changed since the form was drawn. It then marks the form, which shows
// both, and returns the status of the page.
func (f *form) isStale(stored url.Values) (status int, stale bool) {
	version := fingerprint(stored)
	if f.Version == version {
		return 0, false
	}
	return f.setStale(version, f.textsOf(stored)), true
}

// textsOf returns stored values as one text for each field: that of the form where they are the same.
func (f *form) textsOf(stored url.Values) map[string]string {
	texts := map[string]string{}
	for name, values := range stored {
		texts[name] = strings.Join(values, ", ")
		if shown := strings.Join(f.values[name], ", "); unixLines(shown) == unixLines(texts[name]) {
			texts[name] = f.Value(name)
		}
	}
	return texts
}

// addVersion adds the version that the form was drawn from to the body of a change: the API refuses one of another
// version, which would overwrite what somebody else has changed since. The form then shows the present version, and
// stored, what it has in its fields.
func (f *form) addVersion(body map[string]any, present int, stored url.Values) {
	if version, err := strconv.Atoi(f.Version); err == nil {
		body["version"] = version
	}
	f.present, f.now = strconv.Itoa(present), stored
}

// unchanged says why there is nothing to save. A form that was sent before may have been saved without an answer.
func (f *form) unchanged(stored url.Values) string {
	if f.Version == fingerprint(stored) {
		return "Nothing was changed."
	}
	return "It is stored already as you entered it."
}

// reject shows an error of the API in the form, at the field whose name is the longest part of the parameter at fault,
// and returns the status of the page.
func (f *form) reject(e *apiError) (status int) {
	if e.Type == web.Conflict && e.Param == "version" && f.now != nil {
		return f.setStale(f.present, f.textsOf(f.now))
	}
	x := *e
	if name := fieldOf(e.Param, f.values); name != e.Param && name != "" {
		x.Message = strings.TrimPrefix(e.Param[len(name):], ".") + " " + e.Message
		x.Param = name
	}
	return f.setError(&x)
}

// fieldOf returns the field for a parameter of the API: the parameter itself, or the one that it is a part of.
func fieldOf[T any](param string, fields map[string]T) string {
	found := ""
	for name := range fields {
		inside := param == name || strings.HasPrefix(param, name+".") || strings.HasPrefix(param, name+"[")
		if inside && len(name) > len(found) {
			found = name
		}
	}
	return found
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// jsonText returns a value as indented JSON.
func jsonText(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		return "" // cannot happen: it was decoded from JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}
