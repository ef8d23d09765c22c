package frame

import (
	"strings"
	"time"
)

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
