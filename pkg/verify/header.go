package verify

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxHeader limits a header value, in bytes. The longest that providers send is a list of a few signatures of about 100
// bytes each.
const maxHeader = 4096

// maxSecondsDigits limits the digits of a timestamp in seconds. 12 digits reach the year 33658; a current timestamp in
// milliseconds has 13.
const maxSecondsDigits = 12

// singleValue returns the value of a header that must occur once.
func singleValue(h http.Header, name string) (string, Reason) {
	values := h.Values(name)
	if len(values) > 1 {
		return "", SignatureMalformed
	}
	if len(values) == 0 || values[0] == "" {
		return "", SignatureMissing
	}
	if len(values[0]) > maxHeader {
		return "", SignatureMalformed
	}
	return values[0], ""
}

// items yields the parts of a header value between any of the separators; the value if there are no separators.
func items(value, separators string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for value != "" {
			end := strings.IndexAny(value, separators)
			if end < 0 {
				yield(value)
				return
			}
			if !yield(value[:end]) {
				return
			}
			value = value[end+1:]
		}
	}
}

// listTimestamp returns the value of the one item `t=…` or `ts=…` of a header, empty if there is none. ok is false if
// there are two: only one of them can be signed.
func listTimestamp(value, separators string) (stamp string, ok bool) {
	for item := range items(value, separators) {
		if s, found := cutTimestamp(item); found {
			if stamp != "" {
				return "", false
			}
			stamp = s
		}
	}
	return stamp, true
}

func cutTimestamp(item string) (string, bool) {
	if s, found := strings.CutPrefix(item, "t="); found {
		return s, true
	}
	return strings.CutPrefix(item, "ts=")
}

// parseUnixSeconds parses a timestamp of 1 to 12 decimal digits. Signs and spaces are invalid: no provider sends them.
func parseUnixSeconds(s string) (time.Time, bool) {
	if len(s) > maxSecondsDigits || !isNumber(s) {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(seconds, 0), err == nil
}

func isNumber(s string) bool { return s != "" && everyByte(s, isDigit) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isAlphanumeric(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isToken reports whether s is a valid header name (RFC 9110 §5.6.2).
func isToken(s string) bool { return s != "" && everyByte(s, isTokenByte) }

func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
