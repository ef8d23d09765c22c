package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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

// Gzip compresses a document that is sent many times.
func Gzip(body []byte) []byte {
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression) // the level is valid
	_, _ = z.Write(body)                                    // a buffer takes everything
	_ = z.Close()
	return buf.Bytes()
}

// AcceptsGzip reports whether Accept-Encoding names gzip, with a weight other than 0.
func AcceptsGzip(r *http.Request) bool {
	for element := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(element, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			_, q, _ := strings.Cut(strings.ReplaceAll(weight, " ", ""), "=")
			zero, err := strconv.ParseFloat(q, 64)
			return err != nil || zero > 0
		}
	}
	return false
}

// inputLayouts are RFC 3339 with any precision (time.Parse accepts fractions), the same without a zone (UTC), and a
// date (midnight UTC).
var inputLayouts = [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02"}

// ParseTime parses a time in a request. A space before a trailing hh:mm is read as a plus sign, which query strings
// decode to a space.
func ParseTime(s string) (time.Time, bool) {
	if i := len(s) - len(" 00:00"); i > 0 && s[i] == ' ' && s[len(s)-3] == ':' {
		s = s[:i] + "+" + s[i+1:]
	}
	s = strings.ToUpper(s) // RFC 3339, 5.6: t and z may be lower case
	for _, layout := range inputLayouts {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1 && t.Year() <= 9999 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// minuteLayouts are what people and date fields of browsers write, in UTC.
var minuteLayouts = [...]string{"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02 15:04:05"}

// agoUnits are the units in which a filter says how long ago something was.
var agoUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

// maxAgo is the longest time ago that a filter names, in its unit: four digits.
const maxAgo = 9_999

// MomentForms says which texts ParseMoment reads, for error messages.
const MomentForms = "must be a time such as 2026-08-21T22:24:36Z, a day such as 2026-08-21, or how long ago, such as " +
	"15m, 24h, 7d or yesterday"

// ParseMoment parses a time of a filter: all that ParseTime reads, a time to the minute, how long ago it was in one
// unit (s, m, h or d), now, today and yesterday, which begin at midnight UTC.
func ParseMoment(text string, now time.Time) (t time.Time, ok bool) {
	today := now.UTC().Truncate(24 * time.Hour)
	switch strings.ToLower(text) {
	case "":
		return t, false
	case "now":
		return now.UTC(), true
	case "today":
		return today, true
	case "yesterday":
		return today.AddDate(0, 0, -1), true
	default:
		unit := agoUnits[text[len(text)-1]]
		if n, err := strconv.ParseUint(text[:len(text)-1], 10, 32); err == nil && unit > 0 && n <= maxAgo {
			return now.UTC().Add(-time.Duration(n) * unit), true
		}
	}
	for _, layout := range minuteLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, t.Year() >= 1
		}
	}
	return ParseTime(text)
}
