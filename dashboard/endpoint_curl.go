package dashboard

import (
	"cmp"
	"regexp"

	"github.com/eventrelay/relay/pkg/verify"
)

// exampleBody is the body of the example of a request.
const exampleBody = `{"type":"order.paid","id":1}`

// bodySignature says how a provider signs the body alone with HMAC, which a shell can do too.
type bodySignature struct{ Header, Prefix, Algorithm, Encoding string }

// harmlessText matches what can stand in double quotes of a shell. Headers and prefixes are texts of people.
var harmlessText = regexp.MustCompile(`^[A-Za-z0-9=_:. -]*$`)

// bodySignature returns how requests to the endpoint are signed. ok is false if a shell cannot do it in a line.
func (e *endpointData) bodySignature() (s bodySignature, ok bool) {
	v := e.Verification
	if v == nil {
		return s, false
	}
	switch v.Type {
	case verify.GitHub:
		return bodySignature{"X-Hub-Signature-256", "sha256=", "sha256", "hex"}, true
	case verify.Shopify:
		return bodySignature{"X-Shopify-Hmac-Sha256", "", "sha256", "base64"}, true
	case verify.HMAC:
		s = bodySignature{cmp.Or(v.Header, "X-Signature"), v.Prefix, cmp.Or(v.Algorithm, "sha256"), cmp.Or(v.Encoding, "hex")}
		return s, (v.SignedContent == "" || v.SignedContent == "{body}") && harmlessText.MatchString(s.Header+s.Prefix)
	}
	return s, false
}

// Curl is a request from a shell that the endpoint accepts, with the provider's secret in the variable SECRET if it
// verifies signatures. Empty if it would be rejected.
func (p *waitPage) Curl() string {
	curl := "curl " + plain(p.IngestURL) + " \\\n  -H \"Content-Type: application/json\" \\\n"
	s, ok := p.bodySignature()
	switch {
	case ok:
		encode := map[string]string{"hex": `-r | cut -d " " -f 1`, "base64": "-binary | openssl base64 -A"}[s.Encoding]
		return "BODY='" + exampleBody + "'\n" + curl + "  -H \"" + s.Header + ": " + s.Prefix +
			"$(printf %s \"$BODY\" | openssl dgst -" + s.Algorithm + " -hmac \"$SECRET\" " + encode + ")\" \\\n  -d \"$BODY\""
	case p.Verification != nil && p.Verification.Mode == "enforce":
		return ""
	}
	return curl + "  -d '" + exampleBody + "'"
}

// CurlNeedsSecret reports whether the example signs its body.
func (p *waitPage) CurlNeedsSecret() bool {
	_, ok := p.bodySignature()
	return ok
}
