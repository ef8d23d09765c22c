package verify

import (
	"cmp"
	"crypto"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"slices"
)

// macForm is the algorithm of a MAC and its text encoding.
type macForm struct {
	algorithm string // the word of a configuration
	hash      func() hash.Hash
	size      int // bytes of the MAC; 0 for another algorithm
	encoding  string
	// check verifies a signature that only the provider can make; nil for MACs and tokens. parseKey checks its key.
	check    func(f macForm, key string, m message, signature []byte) bool
	parseKey func(key []byte) error
	// certificate is that of the request, and digest the hash that the RSA signature names.
	certificate *x509.Certificate
	digest      crypto.Hash
}

// The encodings of a MAC.
const (
	hexText    = "hex"    // lower-case
	base64Text = "base64" // standard alphabet, padded (RFC 4648 §4)
	plainText  = "text"   // of a token
)

// macForms are the algorithms, the default first.
var macForms = []macForm{
	{algorithm: "sha256", hash: sha256.New, size: sha256.Size},
	{algorithm: "sha1", hash: sha1.New, size: sha1.Size},
	{algorithm: "sha512", hash: sha512.New, size: sha512.Size},
}

// newMACForm returns the form for the words of a configuration; false if one of them is unknown.
func newMACForm(algorithm, encoding string) (macForm, bool) {
	for _, f := range macForms {
		if f.algorithm == algorithm {
			f.encoding = encoding
			return f, encoding == hexText || encoding == base64Text
		}
	}
	return macForm{}, false
}

// formOf returns the form for the words of a row.
func formOf(algorithm, encoding string) macForm {
	if f, known := newMACForm(algorithm, encoding); known {
		return f
	}
	for _, f := range otherForms {
		if f.algorithm == algorithm {
			f.encoding = cmp.Or(f.encoding, encoding)
			return f
		}
	}
	panic("providers.json: unknown algorithm " + algorithm)
}

// isMAC reports whether the form is a MAC: not a token, and not a signature by the provider's key.
func (f macForm) isMAC() bool { return f.size > 0 }

// Algorithms returns the valid values of Config.Algorithm.
func Algorithms() (all []string) {
	for _, f := range macForms {
		all = append(all, f.algorithm)
	}
	return all
}

// Encodings returns the valid values of Config.Encoding.
func Encodings() []string { return []string{hexText, base64Text} }

func hexSHA256() macForm    { return formOf("sha256", hexText) }
func base64SHA256() macForm { return formOf("sha256", base64Text) }
func base64SHA1() macForm   { return formOf("sha1", base64Text) }

// wellFormed reports whether s has the length and the characters of a MAC of this form.
func (f macForm) wellFormed(s string) bool {
	switch {
	case f.encoding == plainText:
		return s != ""
	case f.encoding == hexText:
		return (len(s) == hex.EncodedLen(f.size) || f.check != nil) && everyByte(s, isLowerHex)
	}
	return (len(s) == base64.StdEncoding.EncodedLen(f.size) || !f.isMAC()) && everyByte(s, isBase64)
}

func everyByte(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

func isLowerHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' }

func isBase64(c byte) bool { return isAlphanumeric(c) || c == '+' || c == '/' || c == '=' }

// message is a signed text, in three parts so that the body is not copied.
type message struct {
	head string
	body []byte
	tail string
}

func (m message) writeTo(h hash.Hash) {
	h.Write([]byte(m.head))
	h.Write(m.body)
	h.Write([]byte(m.tail))
}

// verify reports whether the key made one of the signatures over the message.
func (f macForm) verify(key string, m message, signatures []string) bool {
	if f.check != nil {
		return slices.ContainsFunc(signatures, func(got string) bool {
			raw, err := f.decode(got)
			return err == nil && f.check(f, key, m, raw)
		})
	}
	var space [2 * sha512.Size]byte // the longest encoded MAC: SHA-512 in hex
	want := f.appendMAC(space[:0], key, m)
	for _, got := range signatures {
		if subtle.ConstantTimeCompare([]byte(got), want) == 1 {
			return true
		}
	}
	return false
}

// appendMAC appends the encoded MAC of the message to dst.
func (f macForm) appendMAC(dst []byte, key string, m message) []byte {
	var space [sha512.Size]byte
	sum := f.appendSum(space[:0], key, m)
	switch f.encoding {
	case hexText:
		return hex.AppendEncode(dst, sum)
	case plainText:
		return append(dst, sum...)
	}
	return base64.StdEncoding.AppendEncode(dst, sum)
}

// appendSum appends the MAC of the message to dst. A token is its own.
func (f macForm) appendSum(dst []byte, key string, m message) []byte {
	if !f.isMAC() {
		return append(dst, key...)
	}
	mac := hmac.New(f.hash, []byte(key))
	m.writeTo(mac)
	return mac.Sum(dst)
}

// sign returns the encoded MAC of the message.
func (f macForm) sign(key string, m message) string { return string(f.appendMAC(nil, key, m)) }
