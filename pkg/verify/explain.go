package verify

import (
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

// keyOf returns the key of a secret, "" if the secret is invalid.
func (x *explainer) keyOf(secret string) string {
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
