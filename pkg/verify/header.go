package verify

import (
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

// parseSignatureList parses a header with a timestamp and signatures: the value of one item `t=…` or `ts=…`, empty if
// there is none, and every well-formed MAC after the prefix. Other items are ignored. ok is false if there is no such
// MAC, or if there are two timestamps: only one of them can be signed.
func parseSignatureList(value, separators, prefix string, form macForm) (stamp string, signatures []string, ok bool) {
	signatures = make([]string, 0, 4)
	for value != "" {
		end := strings.IndexAny(value, separators)
		item, rest := value, ""
		if end >= 0 {
			item, rest = value[:end], value[end+1:]
		}
		value = rest
		if s, found := cutTimestamp(item); found {
			if stamp != "" {
				return "", nil, false
			}
			stamp = s
		} else if s, found := strings.CutPrefix(item, prefix); found && form.wellFormed(s) {
			signatures = append(signatures, s)
		}
	}
	return stamp, signatures, len(signatures) > 0
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

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isToken reports whether s is a valid header name (RFC 9110 §5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
