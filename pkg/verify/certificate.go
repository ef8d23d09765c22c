package verify

import "slices"

// CertificateURL returns the URL of the certificate that verifies a request: only one of the provider's own hosts and
// paths. It is "" if the scheme needs none, or the request names no such URL or another topic; then Check rejects it.
// So a stranger who does not know the topic makes nobody fetch anything.
func (c Config) CertificateURL(r Request) string {
	if ByName(c.Type).layout.certificate == "" {
		return ""
	}
	l, err := c.layoutFor(r)
	address, reason := l.value(r, l.certificate)
	secret, _ := l.value(r, l.secretAt)
	if err != nil || reason != "" || !l.certificateURL.MatchString(address) ||
		l.secretAt != "" && !slices.Contains(c.Secrets, secret) {
		return ""
	}
	return address
}
