package web

import (
	"strconv"
	"strings"
	"time"
)

// inputLayouts are RFC 3339 with any precision (time.Parse accepts fractions), the same without a zone (UTC), and a
// date (midnight UTC).
var inputLayouts = [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02"}

// ParseTime parses a time in a request. A space before a trailing hh:mm is read as a plus sign, which query strings
// decode to a space.
func ParseTime(s string) (time.Time, bool) {
	const day = 24 * 60 * 60 // seconds
	if i := len(s) - len(" 00:00"); i > 0 && s[i] == ' ' && s[len(s)-3] == ':' {
		s = s[:i] + "+" + s[i+1:]
	}
	s = strings.ToUpper(s) // RFC 3339, 5.6: t and z may be lower case
	for _, layout := range inputLayouts {
		t, err := time.Parse(layout, s)
		if _, offset := t.Zone(); err == nil && (offset <= -day || offset >= day) { // time.Parse takes +24:00
			return time.Time{}, false
		}
		if year := t.UTC().Year(); err == nil && year >= 1 && year <= 9999 {
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
