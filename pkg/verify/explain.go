package verify

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// shownSignature is how many characters of a signature an explanation contains. The rest of an expected signature
	// stays hidden: whoever reads an explanation must not be able to sign a request.
	shownSignature = 8
	// maxShownContent limits the signed text in an explanation, in bytes.
	maxShownContent = 64 << 10
	// shownSecret is how many characters at the end of a secret an explanation contains, if the secret has at least
	// minShownSecret.
	shownSecret, minShownSecret = 4, 12
)

// Explanation says how [Check] came to its result, without a secret and with at most eight characters of a signature.
type Explanation struct {
	Scheme string
	Reason Reason // the result of Check
	// Headers are the canonical names of the headers that the scheme reads.
	Headers []string
	// Content is the signed text, cut to 64 KiB; ContentSize is its length in bytes. Nil if a part of it is missing from
	// the request.
	Content     []byte
	ContentSize int
	// URL is the address that the scheme signs, as this service assumes it; empty if the scheme signs none. Check also
	// tries it with and without the port, and Content begins with the spelling that was signed, otherwise with URL.
	URL string
	// TimeSigned reports whether the scheme signs a time. Timestamp is its text, empty if the request has none, and
	// SignedAt the time, zero if the text cannot be parsed.
	TimeSigned bool
	Timestamp  string
	SignedAt   time.Time
	Secrets    []SecretResult // in the order of the configuration
	// SecretSent reports whether the first of Headers has the secret itself, which nobody who reads it should see.
	SecretSent bool
	// ReceivedPrefix is the beginning of the first signature in the request, empty if there is none.
	ReceivedPrefix string
	// Findings say what is probably wrong and what to change. There is at least one unless Reason is empty.
	Findings []Finding
}

// SecretResult is what one secret gives for a request.
type SecretResult struct {
	Last4          string // the end of the secret, empty for a short one
	ExpectedPrefix string // the beginning of the signature that it makes; empty if the signed text is unknown
	Matches        bool   // it made a signature of the request
}

// Finding is one probable cause of a failed verification.
type Finding struct {
	Code    string // one word for programs, such as body_newline
	Message string // one sentence: what is wrong and what to change
}

// explainer collects an explanation.
type explainer struct {
	layout
	config   Config
	request  Request
	scheme   *Scheme
	stamp    string        // text of the timestamp
	messages []message     // what the scheme signs; the first is shown; nil if a part is missing
	received []receivedMAC // signatures in the header
	out      *Explanation
}

// Explain returns how Check(c, r) came to its result. If the request is not accepted, it tries the usual mistakes: it
// makes signatures with other forms of the secrets, of the signed text and of the signature, and compares them with
// those of the request. Its work is bounded: at most 140 signatures for each secret, and 70 if the body has more than
// 64 KiB.
func Explain(c Config, r Request) *Explanation {
	out := &Explanation{Scheme: c.Type, Reason: Check(c, r)}
	l, err := c.layoutFor(r)
	if err != nil {
		out.Findings = finding("unknown_scheme", "this version does not know the type of the verification or one of its "+
			"settings: set `verification` again")
		return out
	}
	x := &explainer{layout: l, scheme: ByName(c.Type), config: c, request: r, out: out}
	x.readHeaders()
	x.buildMessages()
	x.checkSecrets()
	if out.Reason != "" {
		out.Findings = x.findings()
	}
	return out
}

// value returns the value of a header that must occur once, "" if it is missing, repeated or too long. It reads
// fields of the body too.
func (x *explainer) value(place string) string {
	value, _ := x.layout.value(x.request, place)
	return value
}

// readHeaders sets what the headers contain. It reads more forms of a signature than the scheme allows.
func (x *explainer) readHeaders() {
	for _, place := range append([]string{x.header, x.content.header, x.idHeader}, x.required...) {
		if place != "" && !strings.HasPrefix(place, bodyPlace) && !slices.Contains(x.out.Headers, place) {
			x.out.Headers = append(x.out.Headers, place)
		}
	}
	if x.optionalHeader != "" && x.has(x.optionalHeader) {
		x.out.Headers = append(x.out.Headers, x.optionalHeader)
	}
	value := x.value(x.header)
	x.received = receivedMACs(value)
	if !x.form.isMAC() {
		x.received = x.receivedItem(value)
	}
	if x.out.SecretSent = !x.form.isMAC() && x.form.check == nil; !x.out.SecretSent {
		x.out.ReceivedPrefix = firstCharacters(x.firstSignature(value))
	}
	x.out.TimeSigned = x.content.placeholder != ""
	switch {
	case x.content.header != "":
		x.stamp = x.value(x.content.header)
	case x.out.TimeSigned:
		x.stamp, _ = listTimestamp(value, listSeparators)
	}
	x.out.Timestamp = x.stamp
	if x.out.TimeSigned {
		x.out.SignedAt, _ = x.parseTime(x.stamp)
	}
}

// firstSignature returns the first item of the signature header that has the scheme's prefix, without the prefix. If
// none has it, it returns the first signature in any form, or the value.
func (x *explainer) firstSignature(value string) string {
	for item := range items(value, x.separators) {
		if s, found := strings.CutPrefix(item, x.prefix); found && s != "" {
			if _, isTimestamp := cutTimestamp(item); !isTimestamp {
				return s
			}
		}
	}
	switch {
	case len(x.received) > 0:
		return x.received[0].text
	case x.separators != "":
		return ""
	}
	return value
}

// receivedItem returns a token, or a signature by the provider's key, if the header has one in the right form.
func (x *explainer) receivedItem(value string) []receivedMAC {
	text, found := strings.CutPrefix(value, x.prefix)
	if raw, err := x.form.decode(text); found && value != "" && err == nil {
		return []receivedMAC{{text, x.form.encoding, raw}}
	}
	return nil
}

// buildMessages sets the signed text, unless a part of it is missing.
func (x *explainer) buildMessages() {
	if x.coversURL() {
		x.out.URL = x.request.URL
	}
	if _, signed, reason := x.check(x.config.Secrets, x.request); reason == "" {
		x.messages = []message{signed}
	} else {
		x.messages = x.messagesOf(x.request)
	}
	if len(x.messages) == 0 {
		return
	}
	m := x.messages[0]
	x.out.ContentSize = len(m.head) + len(m.body) + len(m.tail)
	x.out.Content = make([]byte, 0, min(x.out.ContentSize, maxShownContent))
	for _, part := range [][]byte{[]byte(m.head), m.body, []byte(m.tail)} {
		room := maxShownContent - len(x.out.Content)
		x.out.Content = append(x.out.Content, part[:min(len(part), room)]...)
	}
}

// coversURL reports whether the signature covers the URL.
func (x *explainer) coversURL() bool { return x.signsURL || slices.Contains(x.content.fields, "{url}") }

// messagesOf returns what the scheme signs in a request with the headers of this one. Nil if a part of it is missing.
func (x *explainer) messagesOf(r Request) []message {
	return x.appendMessages(nil, r, x.value(x.idHeader), x.stamp)
}

// keyOf returns the key of a secret, "" if the secret is invalid or a public key, which signs nothing.
func (x *explainer) keyOf(secret string) string {
	if x.signsAsymmetrically(secret) {
		return ""
	}
	key, _ := x.key(secret)
	return key
}

// checkSecrets sets the result of each secret. Check decides what matches.
func (x *explainer) checkSecrets() {
	for _, secret := range x.config.Secrets {
		result := SecretResult{}
		if len(secret) >= minShownSecret {
			result.Last4 = secret[len(secret)-shownSecret:]
		}
		if key := x.keyOf(secret); key != "" && len(x.messages) > 0 && x.form.isMAC() {
			result.ExpectedPrefix = firstCharacters(x.form.sign(key, x.messages[0]))
		}
		_, _, reason := x.check([]string{secret}, x.request)
		result.Matches = reason == ""
		x.out.Secrets = append(x.out.Secrets, result)
	}
}

// firstCharacters returns the part of a signature that an explanation may contain.
func firstCharacters(s string) string { return s[:min(len(s), shownSignature)] }

// findings returns what is probably wrong. The reason is not empty.
func (x *explainer) findings() []Finding {
	if c := x.form.certificate; x.out.Reason == CertificateExpired {
		return finding("certificate", "the signature is right, but its certificate is valid from %s to %s: ask %s to sign "+
			"with a current one", c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339), x.scheme.Title)
	}
	if x.out.Reason == TimestampOutsideTolerance {
		return x.ageFinding()
	}
	found := x.headerFindings()
	if x.signsURL {
		found = append(found, x.twilioFindings()...)
	}
	found = append(found, x.search()...)
	if len(found) == 0 {
		found = x.secretFindings()
	}
	switch {
	case len(found) > 0:
		return found
	case x.out.Reason == SignatureMalformed:
		return finding("malformed", "%s has no signature in the form of %s, which is %s: send it in that form", x.header,
			x.scheme.Title, x.formText())
	default:
		return finding("no_cause", "no usual mistake explains the signature: copy the signing secret again from the "+
			"settings of this webhook at the sender, and compare the signed content with what the sender signs")
	}
}

// finding returns one finding. format and args make its sentence, without the capital and the full stop.
func finding(code, format string, args ...any) []Finding {
	text := fmt.Sprintf(format, args...)
	return []Finding{{code, strings.ToUpper(text[:1]) + text[1:] + "."}}
}

// formText describes the signature in the header: `v1=` and a SHA-256 in hex.
func (x *explainer) formText() string {
	text := map[string]string{"token": "the secret itself", "basic": "`user:password` in base64"}[x.form.algorithm]
	switch {
	case x.form.check != nil:
		text = "a signature (" + x.form.algorithm + ") in " + x.form.encoding
	case x.form.isMAC():
		text = "HMAC-" + strings.ToUpper(x.form.algorithm) + " in " + x.form.encoding
	}
	if x.prefix != "" {
		return "`" + x.prefix + "` and " + text
	}
	return text
}

// ageFinding explains a signature whose time is outside the tolerance.
func (x *explainer) ageFinding() []Finding {
	age := x.request.Now.Sub(x.out.SignedAt)
	tolerance := x.config.Tolerance / time.Second
	if age < 0 {
		return finding("timestamp_future", "the signature is right, but its time is %d seconds after the request came, and "+
			"the endpoint allows %d: set the clock of the sender or of this service", -age/time.Second, tolerance)
	}
	return finding("timestamp_old", "the signature is right, but it was made %d seconds before the request came, and the "+
		"endpoint allows %d: set the sender's clock, or raise `verification.tolerance_seconds` if it sends old requests "+
		"again", age/time.Second, tolerance)
}

// headerFindings explains headers that are missing, repeated or malformed.
func (x *explainer) headerFindings() (found []Finding) {
	if found = x.bodyFindings(); found != nil {
		return found
	}
	missing := false
	for _, name := range x.out.Headers {
		switch values := x.request.Header[name]; {
		case len(values) > 1:
			found = append(found, finding("header_repeated", "the request has %s %d times, and it must come once: remove the "+
				"header that a proxy adds", name, len(values))...)
		case len(values) == 0 || values[0] == "":
			missing = true
			found = append(found, x.missingHeader(name)...)
		case len(values[0]) > maxHeader:
			found = append(found, finding("header_too_long", "%s has more than %d bytes: send one signature", name,
				maxHeader)...)
		}
	}
	if len(found) > 0 && (missing || x.stamp == "") {
		return found
	}
	return append(found, x.valueFindings()...)
}

// bodyFindings explains what is wrong with the fields of the body that the scheme reads, and with its certificate.
func (x *explainer) bodyFindings() []Finding {
	field, inBody := strings.CutPrefix(x.header, bodyPlace)
	switch {
	case len(x.paths) > 0 && x.fields == nil:
		return finding("body_fields", "the body is no JSON with each of %s once, in these letters: send what %s sends, and "+
			"let nothing add to it", strings.Join(x.paths, ", "), x.scheme.Title)
	case inBody && x.value(x.header) == "":
		return finding("field_missing", "the body has no %s, which holds the signature: choose the provider that sends it, "+
			"or turn signatures on at %s", field, x.scheme.Title)
	case x.secretAt != "" && !slices.Contains(x.config.Secrets, x.value(x.secretAt)):
		return finding("secret_other", "%s is `%s`, which is not the one that this endpoint has: enter it as the secret if "+
			"you expect its events", strings.TrimPrefix(x.secretAt, bodyPlace), firstBytes(x.value(x.secretAt)))
	case x.certificate != "" && x.form.certificate == nil:
		return finding("certificate", "the request names no certificate of %s that could be fetched: `%s`", x.scheme.Title,
			firstBytes(x.value(x.certificate)))
	}
	return nil
}

// firstBytes returns as much of a received text as a finding may contain.
func firstBytes(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxName)], "") }

// valueFindings explains a malformed timestamp or id. The headers exist.
func (x *explainer) valueFindings() (found []Finding) {
	switch {
	case !x.out.TimeSigned || !x.out.SignedAt.IsZero():
	case x.stamp == "" && x.content.header == "":
		found = finding("timestamp_missing", "%s must have the time once, as an item such as `t=1760000000`: send it as %s "+
			"does", x.header, x.scheme.Title)
	case x.clock == clockMillis:
		found = finding("timestamp_malformed", "the timestamp is no number of 13 digits: send the milliseconds since 1970")
	case len(x.stamp) > maxSecondsDigits && isNumber(x.stamp):
		found = finding("timestamp_milliseconds", "the timestamp has %d digits, as in milliseconds: send and sign it in "+
			"seconds", len(x.stamp))
	case x.configurable || x.clock == clockRFC3339:
		found = finding("timestamp_malformed", "the timestamp is no time: send seconds since 1970 or RFC 3339, such as "+
			"2026-01-31T12:00:00Z")
	default:
		found = finding("timestamp_malformed", "the timestamp is no number: send the seconds since 1970")
	}
	if x.idHeader != "" && hidesTimestamp(x.value(x.idHeader)) {
		found = append(found, finding("id_malformed", "%s has a number after a full stop, which could pass for the "+
			"timestamp: send an id without full stops", x.idHeader)...)
	}
	return found
}

// missingHeader explains a header that is absent or empty.
func (x *explainer) missingHeader(name string) []Finding {
	switch name {
	case x.content.header:
		return finding("timestamp_missing", "the request has no %s, which is signed with the body: send it, and check that "+
			"no proxy removes it", name)
	case x.idHeader:
		return finding("id_missing", "the request has no %s, which is signed with the body: send it, and check that no "+
			"proxy removes it", name)
	}
	for _, s := range schemes {
		if !s.Signs() || s == x.scheme || s.layout.form.algorithm == "basic" {
			continue
		}
		if l, _ := (Config{Type: s.Name}).layoutFor(x.request); x.has(l.header) {
			return finding("other_scheme", "the request has no %s but %s, the header of %s: set `provider` and "+
				"`verification.type` of the endpoint to `%s`", name, l.header, s.Title, s.Name)
		}
	}
	if other := x.similarHeader(); other != "" && x.configurable {
		return finding("other_header", "the request has no %s but %s: set `verification.header` to the header that carries "+
			"the signature", name, other)
	} else if other != "" {
		return finding("other_header", "the request has no %s but %s, which %s does not use: set the `provider` of the "+
			"endpoint to `hmac` and name that header, if this sender is right", name, other, x.scheme.Title)
	}
	return finding("header_missing", "the request has no %s: enter a signing secret for this webhook at the sender, and "+
		"check that no proxy removes the header", name)
}

func (x *explainer) has(name string) bool { return x.request.Header.Get(name) != "" }

// similarHeader returns the first header of the request whose name looks like one of a signature, "" if there is none.
func (x *explainer) similarHeader() string {
	for _, name := range slices.Sorted(maps.Keys(x.request.Header)) {
		lower := strings.ToLower(name)
		similar := strings.Contains(lower, "signature") || strings.Contains(lower, "hmac")
		if similar && x.has(name) && len(name) <= maxName && isToken(name) {
			return name
		}
	}
	return ""
}

// secretFindings explains a secret that is none for signing, by the prefix that the provider gives to other secrets.
func (x *explainer) secretFindings() []Finding {
	for _, prefix := range slices.Sorted(maps.Keys(x.scheme.NotSecrets)) {
		for _, secret := range x.config.Secrets {
			if strings.HasPrefix(secret, prefix) {
				return finding("secret_kind", "the secret begins with `%s`, as %s of %s does: enter the signing secret of this "+
					"webhook", prefix, x.scheme.NotSecrets[prefix], x.scheme.Title)
			}
		}
	}
	return nil
}
