package verify

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// twilioSettings is a header of signatures that a shared key made: `key=<id>,algorithm=<name>`.
const twilioSettings = "X-Twilio-Webhooks-Signature-Settings"

// maxFormFields limits the parameters of a Twilio request. Twilio sends some dozens. Without a limit, sorting a body of
// `a&a&a…` would need thirty times its size in memory.
const maxFormFields = 1000

// varyTwilio sets the algorithm that the request names, HMAC-SHA1 if it names none.
func varyTwilio(l layout, _ Config, r Request) (layout, error) {
	l.optionalHeader = twilioSettings
	settings, reason := singleValue(r.Header, twilioSettings)
	l.unknown = reason == SignatureMalformed
	for item := range strings.SplitSeq(settings, ",") {
		name, algorithm, _ := strings.Cut(item, "=")
		if algorithm = strings.TrimSpace(algorithm); strings.TrimSpace(name) != "algorithm" || algorithm == "" {
			continue
		}
		if strings.EqualFold(algorithm, "HMAC_SHA256") {
			l.form = base64SHA256()
		} else {
			l.unknown = !strings.EqualFold(algorithm, "HMAC_SHA1")
		}
		break
	}
	return l, nil
}

// appendURLMessages appends the texts that Twilio may have signed to dst: each spelling of the URL, first that of the
// request, followed by the parameters of the form. If the body is not a form, its SHA-256 is in the query parameter
// bodySHA256 and the signature covers only the URL. None if the body is no form and the URL has no hash of it.
//
// Without bodySHA256 the body is always parsed as a form, whatever its Content-Type. Otherwise the signature of a
// request without a body would be valid for any JSON body.
func appendURLMessages(dst []message, r Request) []message {
	var fields []byte
	if _, hashed := bodyHash(r.URL); !hashed {
		var ok bool
		if fields, ok = signedFields(r.Body); !ok {
			return dst
		}
	}
	dst = append(dst, message{head: r.URL, body: fields})
	for _, spelling := range signedURLs(r.URL) {
		if spelling != r.URL {
			dst = append(dst, message{head: spelling, body: fields})
		}
	}
	return dst
}

// bodyHash returns the query parameter bodySHA256.
func bodyHash(address string) (string, bool) {
	_, query, _ := strings.Cut(address, "?")
	for item := range strings.SplitSeq(query, "&") {
		if value, found := strings.CutPrefix(item, "bodySHA256="); found {
			return value, true
		}
	}
	return "", false
}

// hashMatches reports whether the URL's hash, if it has one, is that of the body.
func hashMatches(r Request) bool {
	want, hashed := bodyHash(r.URL)
	if !hashed {
		return true
	}
	var space [2 * sha256.Size]byte
	sum := sha256.Sum256(r.Body)
	return subtle.ConstantTimeCompare([]byte(want), hex.AppendEncode(space[:0], sum[:])) == 1
}

// field is one decoded form parameter.
type field struct{ name, value string }

func (f field) compare(g field) int {
	return cmp.Or(strings.Compare(f.name, g.name), strings.Compare(f.value, g.value))
}

// parseField decodes `name=value`; false for an invalid escape.
func parseField(text string) (field, bool) {
	name, value, _ := strings.Cut(text, "=")
	name, nameErr := url.QueryUnescape(name)
	value, valueErr := url.QueryUnescape(value)
	return field{name, value}, nameErr == nil && valueErr == nil
}

// signedFields returns the text of a form that Twilio signs: all names and values without separators, sorted by name
// and then by value, equal pairs once. False if the body is not a valid form or has more than maxFormFields parameters.
func signedFields(body []byte) ([]byte, bool) {
	if bytes.Count(body, []byte("&")) >= maxFormFields {
		return nil, false
	}
	fields := make([]field, 0, 32)
	for item := range strings.SplitSeq(string(body), "&") {
		f, ok := parseField(item)
		if !ok {
			return nil, false
		}
		fields = append(fields, f)
	}
	slices.SortFunc(fields, field.compare)
	signed := make([]byte, 0, len(body)) // decoded text is never longer
	for _, f := range slices.Compact(fields) {
		signed = append(append(signed, f.name...), f.value...)
	}
	return signed, true
}

// signedURLs returns the spellings of an address that Twilio may have signed, at most four. Twilio's servers differ in
// whether they write the port and how they escape the query; Twilio's own library tries them all too.
func signedURLs(address string) []string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return []string{address}
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[:end], rest[end:]
	bare, port := cutPort(host)
	if port == "" {
		port = ":443"
		if scheme == "http" {
			port = ":80"
		}
	}
	urls := make([]string, 0, 4)
	urls = append(urls, scheme+"://"+bare+path, scheme+"://"+bare+port+path)
	if legacy, ok := legacyQuery(path); ok {
		urls = append(urls, scheme+"://"+bare+legacy, scheme+"://"+bare+port+legacy)
	}
	return urls
}

// cutPort splits `host:port` and returns the port with its colon. The colons of an IPv6 address in brackets belong to
// the host.
func cutPort(host string) (bare, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || i < strings.LastIndexByte(host, ']') {
		return host, ""
	}
	return host[:i], host[i:]
}

// legacyQuery returns path with its query escaped as Twilio's older servers do: everything but letters, digits and
// -_.!~*'() as %XX, and each name followed by `=`. False if that changes nothing or the query has an invalid escape.
func legacyQuery(path string) (string, bool) {
	before, query, _ := strings.Cut(path, "?")
	if query == "" {
		return "", false
	}
	var out strings.Builder
	out.WriteString(before)
	separator := "?"
	for item := range strings.SplitSeq(query, "&") {
		if item == "" {
			continue
		}
		f, ok := parseField(item)
		if !ok {
			return "", false
		}
		out.WriteString(separator + legacyEscape(f.name) + "=" + legacyEscape(f.value))
		separator = "&"
	}
	return out.String(), out.String() != path
}

func legacyEscape(s string) string { return legacyUnescaped.Replace(url.QueryEscape(s)) }

// legacyUnescaped are the differences to url.QueryEscape.
var legacyUnescaped = strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")
