package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// TimeFormat is how times are written: UTC, milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Time is a time as the API writes it; the zero value is null.
type Time time.Time

// MarshalJSON writes TimeFormat.
func (t Time) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	b := make([]byte, 0, len(TimeFormat)+2)
	b = append(b, '"')
	b = time.Time(t).UTC().AppendFormat(b, TimeFormat)
	return append(b, '"'), nil
}

// typicalAnswer is what most answers fit in, in bytes: an event's row, an error.
const typicalAnswer = 768

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) { WriteEncoded(w, status, Encode(v)) }

// Encode is v as it is answered. HTML is not escaped: nothing here is ever shown as a page.
//
// A value that cannot be encoded is a fault of the program; it panics before the first byte is sent.
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

// WriteEncoded answers with what Encode returned.
func WriteEncoded(w http.ResponseWriter, status int, body []byte) {
	h, values := w.Header(), []string{"application/json", strconv.Itoa(len(body))}
	h["Content-Type"], h["Content-Length"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left cannot be told
}
