package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// edit makes the body of a PATCH or POST from a form: the members that differ from what is stored, so that a mask that
// was not touched is not sent, and that a change of somebody else to another member stays.
type edit struct {
	f      *form
	stored url.Values // what the fields showed of the stored thing
	body   map[string]any
}

func newEdit(f *form, stored url.Values) *edit { return &edit{f, stored, map[string]any{}} }

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

// set sets the member of that name to encode of the text, if the text differs from what is stored.
func (x *edit) set(name string, encode func(text string) any) {
	if x.changed(name) {
		x.body[name] = encode(x.value(name))
	}
}

// Encodings of a text field as JSON. A text that has not the form goes to the API as a string, and its error says what
// the member must be.

func asText(text string) any { return text }

func asTextOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func asBool(text string) any { return text == "true" }

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
	now := map[string]string{}
	for name, values := range stored {
		now[name] = strings.Join(values, ", ")
		if shown := strings.Join(f.values[name], ", "); unixLines(shown) == unixLines(now[name]) {
			now[name] = f.Value(name)
		}
	}
	return f.setStale(version, now), true
}

// unchanged says why there is nothing to save. A form that was sent before may have been saved without an answer.
func (f *form) unchanged(stored url.Values) string {
	if f.Version == fingerprint(stored) {
		return "Nothing was changed."
	}
	return "It is stored already as you entered it."
}

// reject shows an error of the API in the form, at the field whose name is the longest part of the parameter at fault.
func (f *form) reject(e *apiError, fields url.Values) (status int) {
	x := *e
	if name := fieldOf(e.Param, fields); name != e.Param && name != "" {
		x.Message = strings.TrimPrefix(e.Param[len(name):], ".") + " " + e.Message
		x.Param = name
	}
	return f.setError(&x)
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
