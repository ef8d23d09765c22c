package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// TimeFormat is the format of times in the API: UTC with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Time is a time that is encoded in TimeFormat, the zero time as null.
type Time time.Time

// MarshalJSON returns the time in TimeFormat, truncated to milliseconds, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	b := make([]byte, 0, len(TimeFormat)+2)
	b = append(b, '"')
	b = time.Time(t).UTC().AppendFormat(b, TimeFormat)
	return append(b, '"'), nil
}

// UnmarshalJSON reads a time in RFC 3339, or null.
func (t *Time) UnmarshalJSON(text []byte) error { return (*time.Time)(t).UnmarshalJSON(text) }

// IsZero reports whether there is no time.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// String returns the time in TimeFormat; empty for the zero time.
func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return time.Time(t).UTC().Format(TimeFormat)
}

// typicalAnswer is the first size of a response buffer in bytes; one event or an error fits.
const typicalAnswer = 768

// WriteJSON writes a response with v as JSON. It panics if v cannot be encoded.
func WriteJSON(w http.ResponseWriter, status int, v any) { WriteEncoded(w, status, Encode(v)) }

// Answer is WriteJSON at the end of a handler. It returns nil.
func Answer(w http.ResponseWriter, status int, v any) error {
	WriteJSON(w, status, v)
	return nil
}

// Encode returns v as JSON for a response, with a newline. It does not escape HTML: browsers do not show JSON responses
// as pages (see SetSandbox).
//
// It panics if v cannot be encoded, which is a bug; no byte of the response has been sent by then.
func Encode(v any) []byte {
	var buf bytes.Buffer
	buf.Grow(typicalAnswer)
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("BUG: encode answer %T: %v", v, err))
	}
	return buf.Bytes()
}

// WriteEncoded writes a response with body, the result of Encode.
func WriteEncoded(w http.ResponseWriter, status int, body []byte) {
	h, values := w.Header(), []string{"application/json", strconv.Itoa(len(body))}
	h["Content-Type"], h["Content-Length"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has gone
}
