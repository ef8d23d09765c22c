package verify

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

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
