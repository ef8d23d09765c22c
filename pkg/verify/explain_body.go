package verify

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// bodyForm is another body that a sender may have signed.
type bodyForm struct {
	code, message string
	body          []byte
}

// bodyForms yields the bodies that a sender may have signed before the body became what it is. Some are equal to it.
func bodyForms(body []byte) iter.Seq[bodyForm] {
	return func(yield func(bodyForm) bool) {
		for _, form := range lineForms(body) {
			if !yield(form) {
				return
			}
		}
		var compact bytes.Buffer
		if len(body) > maxThorough || json.Compact(&compact, body) != nil {
			return
		}
		sorted := sortMembers(compact.Bytes())
		for _, style := range jsonStyles {
			text := compact.Bytes()
			if style.sorted {
				text = sorted
			}
			message := fmt.Sprintf("the signature covers the same JSON %s: sign the bytes that are sent, and let no framework "+
				"or proxy write the JSON again", style.text)
			if !yield(bodyForm{"body_json", message, style.write(text)}) {
				return
			}
		}
	}
}

// lineForms returns bodies with other ends of lines, and the empty body.
func lineForms(body []byte) []bodyForm {
	const added = "the signature was made before a newline was added at the end of the body: send exactly the signed bytes"
	const removed = "the signature covers a newline at the end of the body that was removed: send exactly the signed bytes"
	const ends = "the signature was made over other ends of lines (CRLF or LF): send exactly the signed bytes, as binary"
	forms := []bodyForm{
		{"body_newline", added, bytes.TrimRight(body, "\r\n")},
		{"body_newline", removed, append(bytes.Clone(body), '\n')},
		{"body_newline", removed, append(bytes.Clone(body), "\r\n"...)},
		{"body_empty", "the signature covers an empty body: sign the body before another part of the sender reads it", nil},
	}
	if len(body) <= maxThorough {
		unix := bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
		forms = append(forms, bodyForm{"body_line_ends", ends, unix},
			bodyForm{"body_line_ends", ends, bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n"))})
	}
	return forms
}

// jsonStyle is a way to write JSON.
type jsonStyle struct {
	text               string // what is special, for the message
	item, member       string // after a comma and after a colon
	indent             string
	sorted             bool // members by name
	kept               bool // strings are not written anew; the members below are ignored
	ascii, slash, html bool // what is escaped: non-ASCII characters, slashes, and < > &
}

// jsonStyles are the defaults of common libraries.
var jsonStyles = []jsonStyle{
	{text: "without spaces", kept: true},
	{text: "without spaces"},
	{text: "without spaces, with non-ASCII characters escaped", ascii: true},
	{text: "without spaces, with slashes escaped", slash: true},
	{text: "without spaces, with slashes and non-ASCII characters escaped", slash: true, ascii: true},
	{text: "without spaces, with <, > and & escaped", html: true},
	{text: "with a space after each comma and colon", item: " ", member: " ", kept: true},
	{text: "with a space after each comma and colon, with non-ASCII characters escaped", item: " ", member: " ",
		ascii: true},
	{text: "indented by two spaces", indent: "  ", kept: true},
	{text: "indented by four spaces", indent: "    ", kept: true},
	{text: "without spaces, with sorted members", sorted: true},
	{text: "without spaces, with sorted members and non-ASCII characters escaped", sorted: true, ascii: true},
	{text: "without spaces, with sorted members, with <, > and & escaped", sorted: true, html: true},
	{text: "with spaces and sorted members", sorted: true, item: " ", member: " "},
	{text: "with spaces, sorted members and non-ASCII characters escaped", sorted: true, item: " ", member: " ",
		ascii: true},
}

// sortMembers returns JSON without spaces with the members of each object sorted by name.
func sortMembers(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return text
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return sorted
}

// write writes JSON without spaces in the style.
func (s jsonStyle) write(compact []byte) []byte {
	if s.indent != "" {
		var out bytes.Buffer
		_ = json.Indent(&out, compact, "", s.indent) // cannot fail: json.Compact has read it
		return out.Bytes()
	}
	out := make([]byte, 0, len(compact)+len(compact)/4)
	for i := 0; i < len(compact); i++ {
		switch c := compact[i]; c {
		case '"':
			end := i + stringLength(compact[i:])
			out = s.appendString(out, compact[i:end])
			i = end - 1
		case ',':
			out = append(append(out, c), s.item...)
		case ':':
			out = append(append(out, c), s.member...)
		default:
			out = append(out, c)
		}
	}
	return out
}

// stringLength returns the length of the JSON string at the beginning of text, quotes included.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// appendString appends a JSON string in the style.
func (s jsonStyle) appendString(out, literal []byte) []byte {
	if s.kept || everyByte(string(literal[1:len(literal)-1]), isPlain) {
		return append(out, literal...)
	}
	var text string
	if json.Unmarshal(literal, &text) != nil {
		return append(out, literal...)
	}
	out = append(out, '"')
	for _, r := range text {
		out = s.appendRune(out, r)
	}
	return append(out, '"')
}

// isPlain reports whether a byte of a JSON string is written in the same way in every style.
func isPlain(c byte) bool {
	return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' && c != '/' && c != '<' && c != '>' && c != '&'
}

// shortEscapes are the characters that every library escapes with one letter.
var shortEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`,
}

func (s jsonStyle) appendRune(out []byte, r rune) []byte {
	if text, ok := shortEscapes[r]; ok {
		return append(out, text...)
	}
	switch {
	case r == '/' && s.slash:
		return append(out, `\/`...)
	case r < ' ', s.html && (r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029'),
		s.ascii && r >= utf8.RuneSelf && r < 0x10000:
		return fmt.Appendf(out, `\u%04x`, r)
	case s.ascii && r >= 0x10000:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return utf8.AppendRune(out, r)
}

// maxThorough is the size of a body in bytes up to which every mistake is tried. For larger ones, forms of the
// signature, of the secret and of the end of the body are tried.
const maxThorough = 64 << 10

// search makes signatures with the usual mistakes, and returns the finding for the first that the request has.
func (x *explainer) search() []Finding {
	if len(x.received) == 0 {
		return nil
	}
	keys := make([]string, len(x.config.Secrets))
	for i, secret := range x.config.Secrets {
		keys[i] = x.keyOf(secret)
	}
	tries := []func(keys []string) []Finding{x.tryForms, x.tryContents, x.trySecrets, x.tryBodies}
	switch {
	case x.form.check != nil && !x.content.noBody:
		tries = []func(keys []string) []Finding{x.tryContents, x.tryBodies}
	case x.form.check != nil:
		tries = nil
	case x.content.noBody || !x.form.isMAC():
		tries = []func(keys []string) []Finding{x.trySecrets}
	case x.signsURL:
		tries = []func(keys []string) []Finding{x.tryForms, x.trySecrets, x.tryAddresses}
	case x.coversURL():
		tries = append(tries, x.tryAddresses)
	}
	for _, try := range tries {
		if found := try(keys); found != nil {
			return found
		}
	}
	return nil
}

// matchesAny reports whether one of the keys made a signature of the request over one of the messages.
func (x *explainer) matchesAny(keys []string, messages ...message) bool {
	_, ok := x.match(x.form, keys, messages)
	return ok
}

// trySecrets tries other forms of the secrets.
func (x *explainer) trySecrets([]string) []Finding {
	for _, secret := range x.config.Secrets {
		for _, form := range x.secretForms(secret) {
			if x.matchesAny([]string{form.key}, x.messages...) {
				return finding(form.code, "%s", form.message)
			}
		}
	}
	return nil
}

// match returns the signature of the request, in any encoding, that one of the keys made over one of the messages.
func (x *explainer) match(f macForm, keys []string, messages []message) (receivedMAC, bool) {
	for _, key := range keys {
		for _, m := range messages {
			if key == "" {
				continue
			}
			var sum []byte
			if f.check == nil {
				sum = f.appendSum(nil, key, m)
			}
			for _, got := range x.received {
				if f.check != nil && f.check(f, key, m, got.raw) ||
					f.check == nil && subtle.ConstantTimeCompare(got.raw, sum) == 1 {
					return got, true
				}
			}
		}
	}
	return receivedMAC{}, false
}

// tryForms tries other hashes, encodings and prefixes of the signature.
func (x *explainer) tryForms(keys []string) []Finding {
	for _, form := range macForms {
		if got, ok := x.match(form, keys, x.messages); ok {
			return x.formFinding(form.algorithm, got)
		}
	}
	return nil
}

// formFinding explains a received signature over the right text with the right key. Nil if its form is right too.
func (x *explainer) formFinding(algorithm string, got receivedMAC) []Finding {
	switch {
	case algorithm != x.form.algorithm && x.configurable:
		return finding("algorithm", "the signature is an HMAC-%s: set `verification.algorithm` to `%s`",
			strings.ToUpper(algorithm), algorithm)
	case algorithm != x.form.algorithm && x.signsURL:
		return finding("algorithm", "the signature is an HMAC-%s, and by %s it would be an HMAC-%s: let no proxy change "+
			"this header", strings.ToUpper(algorithm), twilioSettings, strings.ToUpper(x.form.algorithm))
	case algorithm != x.form.algorithm:
		return finding("algorithm", "the signature is an HMAC-%s, and %s signs with HMAC-%s: change the sender",
			strings.ToUpper(algorithm), x.scheme.Title, strings.ToUpper(x.form.algorithm))
	case got.encoding != x.form.encoding && x.configurable && slices.Contains(Encodings(), got.encoding):
		return finding("encoding", "the signature is in %s: set `verification.encoding` to `%s`", got.encoding, got.encoding)
	case got.encoding != x.form.encoding:
		return finding("encoding", "the signature is in %s, and it must be in %s: change the sender", got.encoding,
			x.encodingText())
	}
	switch before := x.textBefore(got); {
	case before == x.prefix:
		return nil
	case x.configurable && before == "":
		return finding("prefix", "the signature in %s has no prefix: set `verification.prefix` to an empty text", x.header)
	case x.configurable:
		return finding("prefix", "the signature in %s stands after `%s`: set `verification.prefix` to that text", x.header,
			before)
	default:
		return finding("prefix", "the signature in %s must stand after `%s`: send that text in front of it", x.header,
			x.prefix)
	}
}

// textBefore returns what precedes a signature in its item of the header.
func (x *explainer) textBefore(got receivedMAC) string {
	before, _, _ := strings.Cut(x.value(x.header), got.text)
	if x.separators != "" {
		before = before[strings.LastIndexAny(before, x.separators)+1:]
	}
	return before
}

func (x *explainer) encodingText() string {
	if x.form.encoding == hexText {
		return "lower-case hex"
	}
	return "base64 with padding"
}

// tryContents tries other signed texts: without the timestamp, and for the configurable scheme with one.
func (x *explainer) tryContents(keys []string) []Finding {
	if len(x.request.Body) > maxThorough {
		return nil
	}
	if !x.configurable {
		if x.content.head+x.content.tail != "" && x.matchesAny(keys, message{body: x.request.Body}) {
			return finding("content", "the signature covers the body alone, and %s signs the timestamp with it: sign the "+
				"content that is shown here", x.scheme.Title)
		}
		return nil
	}
	for _, stamp := range x.timestamps() {
		for _, text := range contentTemplates {
			text = strings.ReplaceAll(text, "{timestamp}", stamp.placeholder)
			t, err := parseTemplate(text)
			if err != nil || text == x.config.template() || stamp.value == "" && t.placeholder != "" {
				continue
			}
			if x.matchesAny(keys, t.render(stamp.value, x.request.Body)) {
				return finding("content", "the signature covers another text: set `verification.signed_content` to `%s`", text)
			}
		}
	}
	return nil
}

// contentTemplates are the signed texts that senders use most.
var contentTemplates = []string{
	"{body}", "{timestamp}.{body}", "{timestamp}{body}", "{timestamp}:{body}", "v0:{timestamp}:{body}",
	"{body}{timestamp}",
}

// namedTimestamp is a possible timestamp of a request, and its placeholder in a template.
type namedTimestamp struct{ placeholder, value string }

// maxTimestamps limits the headers that are tried as the timestamp.
const maxTimestamps = 3

// timestamps returns the possible timestamps of a request: that of the signature header, and headers whose names say
// so.
func (x *explainer) timestamps() []namedTimestamp {
	stamp, _ := listTimestamp(x.value(x.header), listSeparators)
	all := []namedTimestamp{{"{timestamp}", stamp}}
	for _, name := range slices.Sorted(maps.Keys(x.request.Header)) {
		if strings.Contains(strings.ToLower(name), "timestamp") && len(name) <= maxName && isToken(name) &&
			len(all) <= maxTimestamps {
			all = append(all, namedTimestamp{"{timestamp:" + name + "}", x.value(name)})
		}
	}
	return all
}

// tryBodies tries other bodies: what a framework or a proxy makes of a body after it was signed.
func (x *explainer) tryBodies(keys []string) []Finding {
	for form := range bodyForms(x.request.Body) {
		if bytes.Equal(form.body, x.request.Body) {
			continue
		}
		changed := x.request
		changed.Body = form.body
		if x.matchesAny(keys, x.messagesOf(changed)...) {
			return finding(form.code, "%s", form.message)
		}
	}
	return nil
}

// secretForm is another key that a sender may make from a secret.
type secretForm struct{ code, key, message string }

// secretForms returns the keys that a sender may use by mistake, or because the secret was copied wrongly.
func (x *explainer) secretForms(secret string) []secretForm {
	bare, prefixed := strings.CutPrefix(secret, standardPrefixText)
	forms := x.decodedForms(secret, bare)
	switch {
	case prefixed && x.keyForm == "":
		forms = append(forms, secretForm{"secret_prefix", bare, "the sender signs with the secret without `whsec_`: enter " +
			"the secret without it"})
	case x.keyForm == "":
		forms = append(forms, secretForm{"secret_prefix", standardPrefixText + secret, "the sender signs with `whsec_` in " +
			"front of the secret: enter the secret with it"})
	}
	key := x.keyOf(secret)
	const endsWith = "the sender's secret ends with %, often from a file or from `echo`: remove it there"
	for _, end := range []struct{ text, name string }{{"\n", "a newline"}, {"\r\n", "a newline"}, {" ", "a space"}} {
		forms = append(forms, secretForm{"secret_whitespace", key + end.text, strings.Replace(endsWith, "%", end.name, 1)})
	}
	for _, quote := range []string{`"`, "'"} {
		forms = append(forms, secretForm{"secret_quotes", quote + key + quote,
			"the sender's secret stands in quotes, often from a settings file: remove them there"})
		if bare := strings.Trim(secret, quote); bare != secret {
			forms = append(forms, secretForm{"secret_quotes", x.keyOf(bare), "the secret was entered in quotes: enter it " +
				"without them"})
		}
	}
	return forms
}

// decodedForms returns the keys of a sender that decodes the secret, or fails to. bare is the secret without whsec_.
func (x *explainer) decodedForms(secret, bare string) (forms []secretForm) {
	if x.keyForm != "" {
		text := "the sender signs with the text of the secret: decode it from base64, without `whsec_`, and sign with " +
			"these bytes"
		if x.keyForm == hexText {
			text = "the sender signs with the text of the secret: decode it from hex, and sign with these bytes"
		}
		forms = append(forms, secretForm{"secret_text", secret, text}, secretForm{"secret_text", bare, text})
	} else {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			if key, err := encoding.DecodeString(bare); err == nil {
				forms = append(forms, secretForm{"secret_base64", string(key), "the sender decodes the secret from base64, and " +
					x.scheme.Title + " signs with its text: sign with the text of the secret"})
				break
			}
		}
	}
	if key, err := hex.DecodeString(bare); err == nil && x.keyForm != hexText {
		forms = append(forms, secretForm{"secret_hex", string(key), "the sender decodes the secret from hex: sign with the " +
			"key that " + x.scheme.Title + " uses, " + x.keyText()})
	}
	return forms
}

func (x *explainer) keyText() string {
	switch x.keyForm {
	case "":
		return "the text of the secret"
	case hexText:
		return "the secret decoded from hex"
	}
	return "the secret decoded from base64"
}
