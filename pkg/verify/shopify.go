package verify

import "strings"

// shopify reads `X-Shopify-Hmac-Sha256: <base64>`, HMAC-SHA256 of the body, keyed with the app's client secret.
func shopify(c Config, r Request) Reason {
	return bodySignature(c, r, "X-Shopify-Hmac-Sha256", "", base64SHA256())
}

// bodySignature judges the simplest kind of scheme: one header with one MAC, over the body alone.
func bodySignature(c Config, r Request, header, prefix string, form macForm) Reason {
	value, reason := single(r.Header, header)
	if reason != "" {
		return reason
	}
	signature, found := strings.CutPrefix(value, prefix)
	if !found || !form.wellFormed(signature) {
		return SignatureMalformed
	}
	return form.verify(c.Secrets, message{body: r.Body}, signature)
}
