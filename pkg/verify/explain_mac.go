package verify

import (
	"crypto/sha1"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"slices"
	"strings"
)

// maxReceived limits the signatures that are read from a header.
const maxReceived = 16

// Encodings of a received signature, besides hexText and base64Text.
const (
	upperHexText    = "upper-case hex"
	otherBase64Text = "base64 without padding or in the URL alphabet"
)

// receivedMAC is a text in a signature header that may be a MAC.
type receivedMAC struct {
	text     string
	encoding string
	raw      []byte
}

// receivedMACs returns the texts in a header that may be MACs, in any form that a sender may use: hex or base64, alone,
// in a list, after a prefix.
func receivedMACs(value string) (all []receivedMAC) {
	for item := range items(value, listSeparators) {
		starts := []int{0}
		if i := strings.IndexAny(item, "=:"); i >= 0 {
			starts = append(starts, i+1)
		}
		for _, start := range starts {
			if raw, encoding := decodeMAC(item[start:]); raw != nil && len(all) < maxReceived {
				all = append(all, receivedMAC{item[start:], encoding, raw})
			}
		}
	}
	return all
}

// decodeMAC decodes a MAC in hex or base64 and returns its encoding; nil if the text is none.
func decodeMAC(text string) (raw []byte, encoding string) {
	isMAC := func(b []byte, err error) bool {
		return err == nil && slices.Contains([]int{sha1.Size, 32, sha512.Size}, len(b))
	}
	if b, err := hex.DecodeString(text); isMAC(b, err) {
		if !everyByte(text, isLowerHex) {
			return b, upperHexText
		}
		return b, hexText
	}
	if b, err := base64.StdEncoding.DecodeString(text); isMAC(b, err) {
		return b, base64Text
	}
	for _, other := range []*base64.Encoding{base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if b, err := other.DecodeString(text); isMAC(b, err) {
			return b, otherBase64Text
		}
	}
	return nil, ""
}

// twilioFindings explains a body that cannot be the one that Twilio signed, or an unknown algorithm.
func (x *explainer) twilioFindings() []Finding {
	_, hashed := bodyHash(x.request.URL)
	kind, _, _ := mime.ParseMediaType(x.value("Content-Type"))
	_, isForm := signedFields(x.request.Body)
	switch {
	case x.unknown && x.value(twilioSettings) != "":
		return finding("algorithm", "%s names an algorithm other than HMAC_SHA1 and HMAC_SHA256: choose one of them at "+
			"Twilio", twilioSettings)
	case !hashMatches(x.request):
		return finding("body_changed", "the body is not the one whose hash Twilio put into bodySHA256: let no proxy change "+
			"the body")
	case !hashed && (!isForm || kind == jsonType):
		return finding("body_not_form", "Twilio signs the parameters of a form, or the hash of another body in the query "+
			"parameter bodySHA256, and the request has neither: let no proxy remove the query")
	}
	return nil
}

// tryAddresses tries other addresses under which the provider may have called this service.
func (x *explainer) tryAddresses(keys []string) []Finding {
	scheme, rest, found := strings.Cut(x.request.URL, "://")
	if !found || len(x.request.Body) > maxThorough {
		return nil
	}
	host, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	before, query, hasQuery := strings.Cut(path, "?")
	if hasQuery {
		query = "?" + query
	}
	for _, address := range x.origins(scheme, host) {
		for _, path := range []struct{ text, fault string }{
			{path, "begins with `" + address + "`"}, {before + "/" + query, "has a slash at the end of its path"},
			{before, "has no query"},
		} {
			if address+path.text == x.request.URL {
				continue
			}
			called := x.request
			called.URL = address + path.text
			if x.matchesAny(keys, x.messagesOf(called)...) {
				return finding("url", "the signature covers an address that %s, and this service assumes one at `%s://%s`: "+
					"enter the ingest URL at %s as it is shown, or set RELAY_BASE_URL to the address that callers use",
					path.fault, scheme, host, x.scheme.Title)
			}
		}
	}
	return nil
}

// origins returns the schemes and hosts that a caller may have used: those of the base URL and of the request.
func (x *explainer) origins(scheme, host string) (all []string) {
	forwarded, _, _ := strings.Cut(x.value("X-Forwarded-Host"), ",")
	other := map[string]string{"http": "https", "https": "http"}[scheme]
	seen := map[string]bool{}
	for _, name := range []string{host, x.value("Host"), strings.TrimSpace(forwarded)} {
		if name == "" || len(name) > maxHost || seen[name] || !everyByte(name, isHostByte) {
			continue
		}
		seen[name] = true
		all = append(all, scheme+"://"+name, other+"://"+name)
	}
	return all
}

// maxHost limits a host name with its port, in bytes.
const maxHost = 260

func isHostByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte(".:-[]_", c) >= 0
}
