package verify

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// bodyPlace begins the place of a field of a JSON body; other places are names of headers.
const bodyPlace = "body:$."

// maxFieldBody limits the bodies whose fields are read, in bytes. Messages of SNS have up to 256 KiB before they are
// escaped.
const maxFieldBody = 4 << 20

// canonicalPlace returns a place with the canonical name of its header.
func canonicalPlace(place string) string {
	if strings.HasPrefix(place, bodyPlace) {
		return place
	}
	return http.CanonicalHeaderKey(place)
}

// readBody reads the fields of the body that the layout needs.
func (l *layout) readBody(r Request) {
	if len(l.paths) > 0 {
		l.fields = bodyFields(r.Body, l.paths)
	}
}

// value returns the value at a place: of a header that must occur once, or of a field of the body.
func (l *layout) value(r Request, place string) (string, Reason) {
	path, inBody := strings.CutPrefix(place, bodyPlace)
	switch {
	case !inBody:
		return singleValue(r.Header, place)
	case l.fields == nil:
		return "", SignatureMalformed
	case l.fields[path] == "":
		return "", SignatureMissing
	}
	return l.fields[path], ""
}

// bodyFields returns the texts, numbers and truth values at the paths of a JSON body. It returns nil if the body is not
// JSON, or ambiguous: if a name on a path occurs twice or in other letters, or an array has elements beside the one on
// the path, then the receiver could read another value than the signed one.
func bodyFields(body []byte, paths []string) map[string]string {
	if len(body) > maxFieldBody {
		return nil
	}
	f := fieldReader{d: json.NewDecoder(bytes.NewReader(body)), steps: map[string]string{}, fields: map[string]string{}}
	f.d.UseNumber()
	for _, path := range paths {
		for i := range path + "." {
			if i == len(path) || path[i] == '.' {
				f.steps[strings.ToLower(path[:i])] = path[:i]
			}
		}
	}
	if !f.read("") {
		return nil
	}
	if _, err := f.d.Token(); err != io.EOF {
		return nil
	}
	return f.fields
}

// fieldReader reads fields of a JSON text in one pass.
type fieldReader struct {
	d      *json.Decoder
	steps  map[string]string // the paths and their beginnings, by their lower-case text; "" when it was read
	fields map[string]string
	skip   json.RawMessage
}

// read reads the value at a path, which is a step; false if it is invalid or ambiguous.
func (f *fieldReader) read(path string) bool {
	token, err := f.d.Token()
	switch t := token.(type) {
	case json.Delim:
		for i := 0; f.d.More(); i++ {
			name := strconv.Itoa(i)
			if t == '{' {
				key, keyErr := f.d.Token()
				name, _ = key.(string)
				err = keyErr
			}
			if err != nil || !f.member(strings.TrimPrefix(path+"."+name, "."), t == '[') {
				return false
			}
		}
		_, err = f.d.Token()
	case string:
		f.fields[path] = t
	case json.Number:
		f.fields[path] = t.String()
	case bool:
		f.fields[path] = strconv.FormatBool(t)
	}
	return err == nil
}

// member reads a member of an object or an element of an array.
func (f *fieldReader) member(path string, isElement bool) bool {
	step, known := f.steps[strings.ToLower(path)]
	if !known {
		return !isElement && f.d.Decode(&f.skip) == nil
	}
	f.steps[strings.ToLower(path)] = ""
	return step == path && f.read(path)
}
