package verify

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// layout describes how a scheme signs a request. Check, Sign and Explain read it.
type layout struct {
	header   string // that contains the signature
	idHeader string // whose value and a full stop begin the signed text; "" for none
	// optionalHeader is for Explain: vary reads it if the request has it; "" for none.
	optionalHeader string
	// separators are the bytes between the items of the header; "" if its value is one signature.
	separators string
	prefix     string // of a signature
	form       macForm
	unknown    bool     // the request names a form that the scheme does not have, so its signature is malformed
	content    template // signed text; the zero value is the body alone
	// base64Secrets: the key is a secret's bytes in base64, after `whsec_`. Otherwise it is the text of the secret.
	base64Secrets bool
	signsURL      bool // Twilio: see appendURLMessages
	configurable  bool // the owner of the endpoint can change the members of Config
}

// maxMessages is how many texts a provider may have signed: see signedURLs.
const maxMessages = 5

// check verifies a signature without its age. If it is valid, check returns the signed time, zero if the scheme signs
// none, and the signed text.
func (l *layout) check(secrets []string, r Request) (signedAt time.Time, signed message, reason Reason) {
	var id, stamp string
	value, reason := singleValue(r.Header, l.header)
	if reason == "" && l.idHeader != "" {
		id, reason = singleValue(r.Header, l.idHeader)
	}
	if reason == "" && l.content.header != "" {
		stamp, reason = singleValue(r.Header, l.content.header)
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
			return signedAt, m, ""
		}
	}
	return signedAt, signed, SignatureMismatch
}

// appendSignatures appends the well-formed MACs in the signature header to dst. Other items are ignored.
func (l *layout) appendSignatures(dst []string, value string) []string {
	for item := range items(value, l.separators) {
		if s, found := strings.CutPrefix(item, l.prefix); found && l.form.wellFormed(s) && !l.unknown {
			dst = append(dst, s)
		}
	}
	return dst
}

// parseTime parses the timestamp.
func (l *layout) parseTime(stamp string) (time.Time, bool) {
	if l.configurable {
		return parseCustomTime(stamp, l.content.timestampTouchesBody())
	}
	return parseUnixSeconds(stamp)
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
	m := l.content.render(stamp, r.Body)
	if l.idHeader != "" {
		m.head = id + "." + m.head
	}
	return append(dst, m)
}

// verify reports whether one of the secrets made one of the signatures over the message.
func (l *layout) verify(secrets []string, m message, signatures []string) bool {
	for _, secret := range secrets {
		key, _ := l.key(secret)
		if key != "" && l.form.verify(key, m, signatures) { // anyone can sign with the empty key
			return true
		}
	}
	return false
}

// key returns the key of a secret.
func (l *layout) key(secret string) (string, error) {
	if l.base64Secrets {
		return decodeStandardSecret(secret)
	}
	return secret, nil
}

// sign sets the headers that check reads; stamp is the time of the request in Unix seconds.
func (l *layout) sign(secret string, r Request, stamp string) error {
	key, err := l.key(secret)
	if err != nil {
		return err
	}
	messages := l.appendMessages(nil, r, r.Header.Get(l.idHeader), stamp)
	if len(messages) == 0 {
		return errors.New("body is not a form, or the request has no id")
	}
	value := l.prefix + l.form.sign(key, messages[0])
	if l.content.timestampInList() {
		value = "t=" + stamp + "," + value
	} else if l.content.header != "" {
		setHeader(r, l.content.header, stamp)
	}
	setHeader(r, l.header, value)
	return nil
}

// setHeader sets a header of a request and replaces its former values.
func setHeader(r Request, name, value string) {
	r.Header[http.CanonicalHeaderKey(name)] = []string{value}
}
