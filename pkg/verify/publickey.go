package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"time"
)

// otherForms are the algorithms that the configurable scheme does not have: a text that is sent as it is, and
// signatures that only the provider can make.
var otherForms = []macForm{
	{algorithm: "token", encoding: plainText},
	{algorithm: "basic", encoding: base64Text},
	{algorithm: "ed25519", check: checkEd25519, parseKey: isEd25519},
	{algorithm: "ecdsa", hash: sha256.New, check: checkECDSA, parseKey: isECDSA},
	{algorithm: "rsa-sha1", hash: sha1.New, check: checkRSA, digest: crypto.SHA1},
	{algorithm: "rsa-sha256", hash: sha256.New, check: checkRSA, digest: crypto.SHA256},
}

var errKey = errors.New("not a public key of the algorithm")

func isEd25519(key []byte) error {
	if len(key) != ed25519.PublicKeySize {
		return errKey
	}
	return nil
}

func isECDSA(key []byte) error {
	_, err := ecdsaKey(string(key))
	return err
}

func ecdsaKey(der string) (*ecdsa.PublicKey, error) {
	parsed, err := x509.ParsePKIXPublicKey([]byte(der))
	if key, ok := parsed.(*ecdsa.PublicKey); ok {
		return key, err
	}
	return nil, errors.Join(err, errKey)
}

func checkEd25519(_ macForm, key string, m message, signature []byte) bool {
	text := append(append([]byte(m.head), m.body...), m.tail...)
	return ed25519.Verify(ed25519.PublicKey(key), text, signature)
}

func checkECDSA(f macForm, der string, m message, signature []byte) bool {
	key, err := ecdsaKey(der)
	return err == nil && ecdsa.VerifyASN1(key, f.sum(m), signature)
}

func checkRSA(f macForm, _ string, m message, signature []byte) bool {
	if f.certificate == nil {
		return false
	}
	key, ok := f.certificate.PublicKey.(*rsa.PublicKey)
	return ok && rsa.VerifyPKCS1v15(key, f.digest, f.sum(m), signature) == nil
}

// sum returns the hash of the message.
func (f macForm) sum(m message) []byte {
	h := f.hash()
	m.writeTo(h)
	return h.Sum(nil)
}

// decode decodes a public key, or a signature by one.
func (f macForm) decode(text string) ([]byte, error) {
	switch f.encoding {
	case hexText:
		return hex.DecodeString(text)
	case plainText:
		return []byte(text), nil
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}

// isCurrent reports whether a time is in the validity period of a certificate.
func isCurrent(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && !now.After(c.NotAfter)
}

// IsOfProvider reports whether a certificate names the provider.
func (c Config) IsOfProvider(cert *x509.Certificate) bool {
	name := ByName(c.Type).layout.certificateName
	return name != nil && slices.ContainsFunc(append(cert.DNSNames, cert.Subject.CommonName), name.MatchString)
}

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
