package verify

// CertificateURL returns the URL of the certificate that verifies a request: only one of the provider's own hosts and
// paths. It is "" if the scheme needs none, or the request names no such URL; then Check rejects it.
func (c Config) CertificateURL(r Request) string {
	if ByName(c.Type).layout.certificate == "" {
		return ""
	}
	l, err := c.layoutFor(r)
	address, reason := l.value(r, l.certificate)
	if err != nil || reason != "" || !l.certificateURL.MatchString(address) {
		return ""
	}
	return address
}
