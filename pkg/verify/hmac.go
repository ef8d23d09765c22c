package verify

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// listSeparators separate the items of a signature header that is a list. Each of them is used by some provider.
const listSeparators = ",; "

// varyCustom makes the layout of the configurable scheme: one header with prefix and MAC. The MAC covers the text of a
// template, by default only the body.
//
// `{timestamp}` in the template is taken from the signature header itself, which then is a list such as
// `t=1760000000,v1=<MAC>` (or `ts=`; separated by commas, semicolons or spaces; any item with the prefix may be the
// signature). `{timestamp:X-Sent-At}` is the value of the header of that name. The MAC covers the timestamp's unchanged
// text; parseCustomTime parses it to check the age.
func varyCustom(l layout, c Config, _ Request) (_ layout, err error) {
	var known bool
	if l.form, known = newMACForm(c.algorithm(), c.encoding()); !known {
		return l, fmt.Errorf("invalid hmac configuration: unknown algorithm %q or encoding %q", c.algorithm(), c.encoding())
	}
	if l.content, err = parseTemplate(c.template()); err != nil {
		return l, fmt.Errorf("invalid hmac configuration: signed_content %w", err)
	}
	l.header, l.prefix = http.CanonicalHeaderKey(cmp.Or(c.Header, l.header)), c.Prefix
	if l.content.timestampInList() {
		l.separators = listSeparators
	}
	return l, nil
}

func (c Config) algorithm() string { return cmp.Or(c.Algorithm, macForms[0].algorithm) }
func (c Config) encoding() string  { return cmp.Or(c.Encoding, hexText) }
func (c Config) template() string  { return cmp.Or(c.SignedContent, "{body}") }

// template is a parsed signed_content.
type template struct {
	head, tail  string // around {body}
	placeholder string // for the timestamp, with braces; "" if none is signed
	header      string // place of the timestamp; "" for the signature header
	// Only rows use the fields below, see parseContent.
	fields    []string // further placeholders, with braces
	noBody    bool     // the body is not signed, only fields of it
	hasSecret bool     // {secret} stands for the secret
}

// parseTemplate parses literal text with exactly one {body} and any number of either {timestamp} or one
// {timestamp:Header-Name}. Its errors complete a sentence that begins with the parameter.
func parseTemplate(text string) (template, error) {
	var t template
	var found bool
	if t.head, t.tail, found = strings.Cut(text, "{body}"); !found {
		return t, errors.New("must contain {body}: a signature that does not cover the body proves nothing about it")
	}
	if _, rest, stamped := strings.Cut(text, "{timestamp"); stamped {
		name, _, closed := strings.Cut(rest, "}")
		if !closed {
			return t, errors.New("has an open {timestamp without }")
		}
		t.placeholder = "{timestamp" + name + "}"
		if name != "" {
			if t.header, found = strings.CutPrefix(name, ":"); !found || !isToken(t.header) {
				return t, errors.New("must name a header in {timestamp:Header-Name}")
			}
		}
	}
	t.header = http.CanonicalHeaderKey(t.header)
	for _, part := range []string{t.head, t.tail} {
		if t.placeholder != "" {
			part = strings.ReplaceAll(part, t.placeholder, "")
		}
		if strings.ContainsAny(part, "{}") {
			return t, errors.New("may hold one {body}, one kind of {timestamp}, and no other braces")
		}
	}
	return t, nil
}

// placeholders matches those of a row's content.
var placeholders = regexp.MustCompile(`\{([a-z0-9]+):?([^{}]*)\}`)

// parseContent parses the content of a row. Beside {body} and {timestamp:place} it may have {header:Name},
// {body:$.path}, {line:Name} (a member of the body after its name, each with a newline; nothing if the body has
// none), {url}, {method}, {crc32} (of the body, in decimal digits) and {secret}.
func parseContent(text string) (t template) {
	var hasBody bool
	t.head, t.tail, hasBody = strings.Cut(text, "{body}")
	t.noBody, t.hasSecret = !hasBody, strings.Contains(text, "{secret}")
	for _, found := range placeholders.FindAllStringSubmatch(t.head+t.tail, -1) {
		switch found[1] {
		case "timestamp":
			t.placeholder, t.header = found[0], canonicalPlace(found[2])
		case "secret":
		default:
			t.fields = append(t.fields, found[0])
		}
	}
	return t
}

// isBody reports whether the signed text is the body alone.
func (t template) isBody() bool { return t.head+t.tail+t.placeholder == "" && !t.noBody }

// places returns the places of the further placeholders.
func (t template) places() (all []string) {
	for _, field := range t.fields {
		switch kind, name, _ := strings.Cut(field[1:len(field)-1], ":"); kind {
		case "header":
			all = append(all, http.CanonicalHeaderKey(name))
		case "body":
			all = append(all, kind+":"+name)
		case "line":
			all = append(all, bodyPlace+name)
		}
	}
	return all
}

// fieldValue returns the value of a further placeholder.
func fieldValue(field string, r Request, fields map[string]string) string {
	switch kind, name, _ := strings.Cut(field[1:len(field)-1], ":"); kind {
	case "header":
		return r.Header.Get(name)
	case "body":
		return fields[strings.TrimPrefix(name, "$.")]
	case "line":
		if value, ok := fields[name]; ok {
			return name + "\n" + value + "\n"
		}
	case "url":
		return r.URL
	case "method":
		return r.Method
	case "crc32":
		return strconv.FormatUint(uint64(crc32.ChecksumIEEE(r.Body)), 10)
	}
	return ""
}

// timestampInList reports whether the timestamp is an item of the signature header.
func (t template) timestampInList() bool { return t.placeholder != "" && t.header == "" }

// render returns the signed text: the template with the timestamp and the body.
func (t template) render(stamp string, body []byte) message {
	if t.placeholder == "" {
		return message{head: t.head, body: body, tail: t.tail}
	}
	return message{
		head: strings.ReplaceAll(t.head, t.placeholder, stamp),
		body: body,
		tail: strings.ReplaceAll(t.tail, t.placeholder, stamp),
	}
}

// renderRow returns the signed text of a row. fields are those of the body.
func (t template) renderRow(stamp string, r Request, fields map[string]string) message {
	body := r.Body
	if t.noBody {
		body = nil
	}
	if t.fields == nil {
		return t.render(stamp, body)
	}
	pairs := []string{cmp.Or(t.placeholder, "{timestamp}"), stamp}
	for _, field := range t.fields {
		pairs = append(pairs, field, fieldValue(field, r, fields))
	}
	values := strings.NewReplacer(pairs...) // in one pass, so that no value is taken for a placeholder
	return message{head: values.Replace(t.head), body: body, tail: values.Replace(t.tail)}
}

// timestampTouchesBody reports whether nothing separates the timestamp from the body. Call it only if a timestamp is
// signed.
func (t template) timestampTouchesBody() bool {
	return strings.HasSuffix(t.head, t.placeholder) || strings.HasPrefix(t.tail, t.placeholder)
}

// parseCustomTime parses seconds, milliseconds (13 digits) or RFC 3339. Milliseconds are invalid if the timestamp
// touches the body. Otherwise an attacker could move three digits of the body into a timestamp in seconds, which then
// reads as milliseconds, without invalidating the signature.
func parseCustomTime(s string, touchesBody bool) (time.Time, bool) {
	if len(s) == maxSecondsDigits+1 && !touchesBody && isNumber(s) {
		ms, err := strconv.ParseInt(s, 10, 64)
		return time.UnixMilli(ms), err == nil
	}
	if at, ok := parseUnixSeconds(s); ok {
		return at, true
	}
	at, err := time.Parse(time.RFC3339, s)
	return at, err == nil && !at.IsZero()
}

func validateCustom(c Config, add addFault) {
	if c.Header != "" && (!isToken(c.Header) || len(c.Header) > maxName) {
		add("header", "must be a header name of at most %d characters", maxName)
	}
	if _, known := newMACForm(c.algorithm(), hexText); !known {
		add("algorithm", "must be sha256, sha1 or sha512")
	}
	if _, known := newMACForm(macForms[0].algorithm, c.encoding()); !known {
		add("encoding", "must be hex or base64")
	}
	if len(c.Prefix) > maxPrefix || !isPrintable(c.Prefix) || strings.HasPrefix(c.Prefix, " ") {
		add("prefix", "must be at most %d printable ASCII characters, the first not a space", maxPrefix)
	}
	t, err := parseTemplate(c.template())
	switch {
	case len(c.SignedContent) > maxTemplate:
		add("signed_content", "must be at most %d bytes", maxTemplate)
	case err != nil:
		add("signed_content", "%s", err.Error())
	case t.timestampInList() && !isListPrefix(c.Prefix):
		add("prefix", "must hold no comma, semicolon or space and not begin with t= or ts=: {timestamp} makes the "+
			"header a list")
	}
}

// isPrintable reports whether s is printable ASCII (RFC 9110 §5.5 allows more in a header value, but no provider uses
// it).
func isPrintable(s string) bool {
	return everyByte(s, func(c byte) bool { return c >= ' ' && c <= '~' })
}

// isListPrefix reports whether s can be the prefix of an item in a list with a timestamp.
func isListPrefix(s string) bool {
	_, isTimestamp := cutTimestamp(s)
	return !isTimestamp && !strings.ContainsAny(s, listSeparators)
}
