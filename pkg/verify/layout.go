package verify

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// layout describes how a scheme signs a request. Check, Sign and Explain read it. A place is the canonical name of a
// header or `body:$.path`.
type layout struct {
	header   string // place of the signature
	idHeader string // whose value and a full stop begin the signed text; "" for none
	// optionalHeader is for Explain: vary reads it if the request has it; "" for none.
	optionalHeader string
	// separators are the bytes between the items of the header; "" if its value is one signature.
	separators string
	timeItem   string // of a timestamp that Sign writes into the list
	prefix     string // of a signature
	form       macForm
	formAt     string             // place that names one of forms, in place of form; "" for none
	forms      map[string]macForm // by the words of the provider
	unknown    bool               // the request names a form that the scheme does not have, so its signature is malformed
	content    template           // signed text; the zero value is the body alone
	clock      string             // form of the timestamp, as in a row
	ageless    bool               // the age is not checked
	keyForm    string             // of a MAC, as in a row
	secretAt   string             // place that must equal the secret; "" for none
	// certificate is the place of the URL of an RSA certificate, which must match certificateURL; "" for none.
	certificate     string
	certificateURL  *regexp.Regexp
	certificateName *regexp.Regexp    // that a name in the certificate must match
	required        []string          // further places that a request must have
	paths           []string          // of the fields of the body that are read
	fields          map[string]string // of this request's body, by their paths; nil if it has no unambiguous fields
	signsURL        bool              // Twilio: see appendURLMessages
	decodesURL      bool              // HubSpot: see signedCharacters
	configurable    bool              // the owner of the endpoint can change the members of Config
}

// maxMessages is how many texts a provider may have signed: see signedURLs.
const maxMessages = 5

// check verifies a signature without its age. If it is valid, check returns the signed time, zero if the scheme signs
// none, and the signed text.
func (l *layout) check(secrets []string, r Request) (signedAt time.Time, signed message, reason Reason) {
	var id, stamp string
	value, reason := l.value(r, l.header)
	if reason == "" && l.idHeader != "" {
		id, reason = singleValue(r.Header, l.idHeader)
	}
	if reason == "" && l.content.header != "" {
		stamp, reason = l.value(r, l.content.header)
	}
	for _, place := range l.required {
		if reason == "" {
			_, reason = l.value(r, place)
		}
	}
	if reason != "" {
		return signedAt, signed, reason
	}
	ok := true
	if l.content.timestampInList() {
		stamp, ok = listTimestamp(value, l.separators)
	}
	if ok && l.content.placeholder != "" {
		signedAt, ok = l.parseTime(stamp)
	}
	if l.ageless {
		signedAt = time.Time{}
	}
	var space [4]string
	signatures := l.appendSignatures(space[:0], value)
	if !ok || len(signatures) == 0 || hidesTimestamp(id) {
		return signedAt, signed, SignatureMalformed
	}
	if l.signsURL && !hashMatches(r) {
		return signedAt, signed, SignatureMismatch
	}
	var messages [maxMessages]message
	for _, m := range l.appendMessages(messages[:0], r, id, stamp) {
		if l.verify(secrets, m, signatures) {
			if c := l.form.certificate; c != nil && !isCurrent(c, r.Now) {
				reason = CertificateExpired
			}
			return signedAt, m, reason
		}
	}
	return signedAt, signed, SignatureMismatch
}

// appendSignatures appends the well-formed MACs in the signature header to dst. Other items are ignored.
func (l *layout) appendSignatures(dst []string, value string) []string {
	for item := range items(value, l.separators) {
		s, found := strings.CutPrefix(item, l.prefix)
		isWellFormed := found && l.form.wellFormed(s)
		if l.keyForm == "whsec" && !isWellFormed {
			s, found = strings.CutPrefix(item, asymmetricPrefix)
			isWellFormed = found && len(s) == base64.StdEncoding.EncodedLen(ed25519.SignatureSize) && everyByte(s, isBase64)
		}
		if isWellFormed && !l.unknown {
			dst = append(dst, s)
		}
	}
	return dst
}

// parseTime parses the timestamp.
func (l *layout) parseTime(stamp string) (time.Time, bool) {
	switch {
	case l.configurable:
		return parseCustomTime(stamp, l.content.timestampTouchesBody())
	case l.clock == clockMillis:
		ms, err := strconv.ParseInt(stamp, 10, 64)
		return time.UnixMilli(ms), err == nil && len(stamp) == maxSecondsDigits+1 && isNumber(stamp)
	case l.clock == clockRFC3339:
		at, err := time.Parse(time.RFC3339, stamp)
		return at, err == nil
	}
	return parseUnixSeconds(stamp)
}

// Forms of a timestamp in rows; the default is seconds.
const (
	clockMillis  = "milliseconds"
	clockRFC3339 = "rfc3339"
)

// timestamp returns the text of a time.
func (l *layout) timestamp(at time.Time) string {
	switch l.clock {
	case clockMillis:
		return strconv.FormatInt(at.UnixMilli(), 10)
	case clockRFC3339:
		return at.UTC().Format(time.RFC3339)
	}
	return strconv.FormatInt(at.Unix(), 10)
}

// appendMessages appends to dst what the provider may have signed: one text, several if it signs the URL, none if a
// part of it is missing from the request.
func (l *layout) appendMessages(dst []message, r Request, id, stamp string) []message {
	if l.signsURL {
		return appendURLMessages(dst, r)
	}
	if l.content.placeholder != "" && stamp == "" || l.idHeader != "" && id == "" {
		return dst
	}
	m := l.content.renderRow(stamp, r, l.fields)
	if l.idHeader != "" {
		m.head = id + "." + m.head
	}
	dst = append(dst, m)
	if decoded := signedCharacters.Replace(r.URL); l.decodesURL && decoded != r.URL {
		r.URL = decoded
		dst = append(dst, l.content.renderRow(stamp, r, l.fields))
	}
	return dst
}

// signedCharacters decodes the characters of a URL that HubSpot decodes before it signs. Its own library does not.
var signedCharacters = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$",
	"%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2C", ",", "%3B", ";")

// verify reports whether one of the secrets made one of the signatures over the message.
func (l *layout) verify(secrets []string, m message, signatures []string) bool {
	for _, secret := range secrets {
		key, _ := l.key(secret)
		if l.secretAt != "" && l.fields[strings.TrimPrefix(l.secretAt, bodyPlace)] != secret {
			continue
		}
		signed := m
		if l.content.hasSecret {
			signed.head = strings.ReplaceAll(m.head, "{secret}", secret)
		}
		form := l.formFor(secret)
		if key != "" && form.verify(key, signed, signatures) { // anyone can sign with the empty key
			return true
		}
	}
	return false
}

// key returns the key of a secret.
func (l *layout) key(secret string) (string, error) {
	switch {
	case l.keyForm == "whsec":
		return decodeStandardSecret(secret)
	case l.keyForm == hexText:
		key, err := hex.DecodeString(secret)
		return string(key), err
	case l.form.parseKey == nil:
		return secret, nil
	}
	key, err := l.form.decode(secret)
	if err == nil {
		err = l.form.parseKey(key)
	}
	if err != nil {
		return "", err
	}
	return string(key), nil
}

// sign sets the headers that check reads.
func (l *layout) sign(secret string, r Request) error {
	key, err := l.key(secret)
	if err == nil && l.signsAsymmetrically(secret) {
		err = errors.New("only the sender has the private key")
	}
	if err != nil {
		return err
	}
	stamp := l.timestamp(r.Now)
	if l.content.header != "" && !strings.HasPrefix(l.content.header, bodyPlace) {
		setHeader(r, l.content.header, stamp)
	}
	messages := l.appendMessages(nil, r, r.Header.Get(l.idHeader), stamp)
	if len(messages) == 0 {
		return errors.New("body is not a form, or the request has no id")
	}
	value := l.prefix + l.form.sign(key, messages[0])
	if l.content.timestampInList() {
		value = cmp.Or(l.timeItem, "t=") + stamp + cmp.Or(l.separators, ",")[:1] + value
	}
	setHeader(r, l.header, value)
	return nil
}

// setHeader sets a header of a request and replaces its former values.
func setHeader(r Request, name, value string) {
	r.Header[http.CanonicalHeaderKey(name)] = []string{value}
}

// bodyPlace begins the place of a field of a JSON body; other places are names of headers.
const bodyPlace = "body:$."

// maxFieldBody limits the bodies whose fields are read, in bytes. Messages of SNS have up to 256 KiB before they are
// escaped.
const maxFieldBody = 4 << 20

// canonicalPlace returns a place with the canonical name of its header.
func canonicalPlace(place string) string {
	if strings.HasPrefix(place, bodyPlace) {
		return place
	}
	return http.CanonicalHeaderKey(place)
}

// readBody reads the fields of the body that the layout needs.
func (l *layout) readBody(r Request) {
	if len(l.paths) > 0 {
		l.fields = bodyFields(r.Body, l.paths)
	}
}

// value returns the value at a place: of a header that must occur once, or of a field of the body.
func (l *layout) value(r Request, place string) (string, Reason) {
	path, inBody := strings.CutPrefix(place, bodyPlace)
	switch {
	case !inBody:
		return singleValue(r.Header, place)
	case l.fields == nil:
		return "", SignatureMalformed
	case l.fields[path] == "":
		return "", SignatureMissing
	}
	return l.fields[path], ""
}

// bodyFields returns the texts, numbers and truth values at the paths of a JSON body. It returns nil if the body is not
// JSON, or ambiguous: if a name on a path occurs twice or in other letters, or an array has elements beside the one on
// the path, then the receiver could read another value than the signed one.
func bodyFields(body []byte, paths []string) map[string]string {
	if len(body) > maxFieldBody {
		return nil
	}
	f := fieldReader{d: json.NewDecoder(bytes.NewReader(body)), steps: map[string]string{}, fields: map[string]string{}}
	f.d.UseNumber()
	for _, path := range paths {
		for i := range path + "." {
			if i == len(path) || path[i] == '.' {
				f.steps[strings.ToLower(path[:i])] = path[:i]
			}
		}
	}
	if !f.read("") {
		return nil
	}
	if _, err := f.d.Token(); err != io.EOF {
		return nil
	}
	return f.fields
}

// fieldReader reads fields of a JSON text in one pass.
type fieldReader struct {
	d      *json.Decoder
	steps  map[string]string // the paths and their beginnings, by their lower-case text; "" when it was read
	fields map[string]string
	skip   json.RawMessage
}

// read reads the value at a path, which is a step; false if it is invalid or ambiguous.
func (f *fieldReader) read(path string) bool {
	token, err := f.d.Token()
	switch t := token.(type) {
	case json.Delim:
		for i := 0; f.d.More(); i++ {
			name := strconv.Itoa(i)
			if t == '{' {
				key, keyErr := f.d.Token()
				name, _ = key.(string)
				err = keyErr
			}
			if err != nil || !f.member(strings.TrimPrefix(path+"."+name, "."), t == '[') {
				return false
			}
		}
		_, err = f.d.Token()
	case string:
		f.fields[path] = t
	case json.Number:
		f.fields[path] = t.String()
	case bool:
		f.fields[path] = strconv.FormatBool(t)
	}
	return err == nil
}

// member reads a member of an object or an element of an array.
func (f *fieldReader) member(path string, isElement bool) bool {
	step, known := f.steps[strings.ToLower(path)]
	if !known {
		return !isElement && f.d.Decode(&f.skip) == nil
	}
	f.steps[strings.ToLower(path)] = ""
	return step == path && f.read(path)
}
