package secrets

// Canonical returns the secret as it was before a wrapper escaped it: of a private key the base64 of its body, without
// white space. A fingerprint is one of this text, so that a key in JSON and the same key in a URL are one secret. The
// result shares memory with secret if nothing is escaped.
func (r *Rule) Canonical(secret []byte) []byte {
	if r.isTripwire != nil { // the URL before the token may be written in many ways
		return secret[max(0, len(secret)-tokenLength):]
	}
	body := 0
	if r.Kind == KindPEM {
		if body = labelEnd(secret, len(r.Prefixes[0])); body < 0 {
			return secret
		}
	} else if !hasEscape(secret) {
		return secret
	}
	out := make([]byte, 0, len(secret))
	for i := body; i < len(secret); {
		c, next := readChar(secret, i)
		if r.Kind == KindPEM && c == '-' && readText(secret, i, "-----END") > 0 {
			break
		}
		if r.Kind == KindPEM && isQuote(c) {
			if joint := skipJoint(secret, i, true); joint >= 0 {
				i = joint
				continue
			}
		}
		if r.Kind != KindPEM || charsets["base64"][c] {
			out = append(out, c)
		}
		i = next
	}
	return out
}

func hasEscape(b []byte) bool {
	for i := range b {
		if _, next := readChar(b, i); next > i+1 {
			return true
		}
	}
	return false
}
