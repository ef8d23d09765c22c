package verify

import (
	"cmp"
	"crypto"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// macForm is the algorithm of a MAC and its text encoding.
type macForm struct {
	algorithm string // the word of a configuration
	hash      func() hash.Hash
	size      int // bytes of the MAC; 0 for another algorithm
	encoding  string
	// check verifies a signature that only the provider can make; nil for MACs and tokens. parseKey checks its key.
	check    func(f macForm, key string, m message, signature []byte) bool
	parseKey func(key []byte) error
	// certificate is that of the request, and digest the hash that the RSA signature names.
	certificate *x509.Certificate
	digest      crypto.Hash
}

// The encodings of a MAC.
const (
	hexText    = "hex"    // lower-case
	base64Text = "base64" // standard alphabet, padded (RFC 4648 §4)
	plainText  = "text"   // of a token
)

// macForms are the algorithms, the default first.
var macForms = []macForm{
	{algorithm: "sha256", hash: sha256.New, size: sha256.Size},
	{algorithm: "sha1", hash: sha1.New, size: sha1.Size},
	{algorithm: "sha512", hash: sha512.New, size: sha512.Size},
}

// newMACForm returns the form for the words of a configuration; false if one of them is unknown.
func newMACForm(algorithm, encoding string) (macForm, bool) {
	for _, f := range macForms {
		if f.algorithm == algorithm {
			f.encoding = encoding
			return f, encoding == hexText || encoding == base64Text
		}
	}
	return macForm{}, false
}

// formOf returns the form for the words of a row.
func formOf(algorithm, encoding string) macForm {
	if f, known := newMACForm(algorithm, encoding); known {
		return f
	}
	for _, f := range otherForms {
		if f.algorithm == algorithm {
			f.encoding = cmp.Or(f.encoding, encoding)
			return f
		}
	}
	panic("providers.json: unknown algorithm " + algorithm)
}

// isMAC reports whether the form is a MAC: not a token, and not a signature by the provider's key.
func (f macForm) isMAC() bool { return f.size > 0 }

// Algorithms returns the valid values of Config.Algorithm.
func Algorithms() (all []string) {
	for _, f := range macForms {
		all = append(all, f.algorithm)
	}
	return all
}

// Encodings returns the valid values of Config.Encoding.
func Encodings() []string { return []string{hexText, base64Text} }

func hexSHA256() macForm    { return formOf("sha256", hexText) }
func base64SHA256() macForm { return formOf("sha256", base64Text) }

// wellFormed reports whether s has the length and the characters of a MAC of this form.
func (f macForm) wellFormed(s string) bool {
	switch {
	case f.encoding == plainText:
		return s != ""
	case f.encoding == hexText:
		return (len(s) == hex.EncodedLen(f.size) || f.check != nil) && everyByte(s, isLowerHex)
	}
	return (len(s) == base64.StdEncoding.EncodedLen(f.size) || !f.isMAC()) && everyByte(s, isBase64)
}

func everyByte(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

func isLowerHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' }

func isBase64(c byte) bool { return isAlphanumeric(c) || c == '+' || c == '/' || c == '=' }

// message is a signed text, in three parts so that the body is not copied.
type message struct {
	head string
	body []byte
	tail string
}

func (m message) writeTo(h hash.Hash) {
	h.Write([]byte(m.head))
	h.Write(m.body)
	h.Write([]byte(m.tail))
}

// verify reports whether the key made one of the signatures over the message.
func (f macForm) verify(key string, m message, signatures []string) bool {
	if f.check != nil {
		return slices.ContainsFunc(signatures, func(got string) bool {
			raw, err := f.decode(got)
			return err == nil && f.check(f, key, m, raw)
		})
	}
	var space [2 * sha512.Size]byte // the longest encoded MAC: SHA-512 in hex
	want := f.appendMAC(space[:0], key, m)
	for _, got := range signatures {
		if subtle.ConstantTimeCompare([]byte(got), want) == 1 {
			return true
		}
	}
	return false
}

// appendMAC appends the encoded MAC of the message to dst.
func (f macForm) appendMAC(dst []byte, key string, m message) []byte {
	var space [sha512.Size]byte
	sum := f.appendSum(space[:0], key, m)
	switch f.encoding {
	case hexText:
		return hex.AppendEncode(dst, sum)
	case plainText:
		return append(dst, sum...)
	}
	return base64.StdEncoding.AppendEncode(dst, sum)
}

// appendSum appends the MAC of the message to dst. A token is its own.
func (f macForm) appendSum(dst []byte, key string, m message) []byte {
	if !f.isMAC() {
		return append(dst, key...)
	}
	mac := hmac.New(f.hash, []byte(key))
	m.writeTo(mac)
	return mac.Sum(dst)
}

// sign returns the encoded MAC of the message.
func (f macForm) sign(key string, m message) string { return string(f.appendMAC(nil, key, m)) }

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
