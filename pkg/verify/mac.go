package verify

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"hash"
)

// macForm is the algorithm of a MAC and its text encoding.
type macForm struct {
	algorithm string // the word of a configuration
	hash      func() hash.Hash
	size      int // bytes of the MAC
	encoding  string
}

// The encodings of a MAC.
const (
	hexText    = "hex"    // lower-case
	base64Text = "base64" // standard alphabet, padded (RFC 4648 §4)
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

// Algorithms returns the valid values of Config.Algorithm.
func Algorithms() (all []string) {
	for _, f := range macForms {
		all = append(all, f.algorithm)
	}
	return all
}

// Encodings returns the valid values of Config.Encoding.
func Encodings() []string { return []string{hexText, base64Text} }

func hexSHA256() macForm    { f, _ := newMACForm("sha256", hexText); return f }
func base64SHA256() macForm { f, _ := newMACForm("sha256", base64Text); return f }
func base64SHA1() macForm   { f, _ := newMACForm("sha1", base64Text); return f }

// wellFormed reports whether s has the length and the characters of a MAC of this form.
func (f macForm) wellFormed(s string) bool {
	if f.encoding == hexText {
		return len(s) == hex.EncodedLen(f.size) && everyByte(s, isLowerHex)
	}
	return len(s) == base64.StdEncoding.EncodedLen(f.size) && everyByte(s, isBase64)
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
	if f.encoding == hexText {
		return hex.AppendEncode(dst, sum)
	}
	return base64.StdEncoding.AppendEncode(dst, sum)
}

// appendSum appends the MAC of the message to dst.
func (f macForm) appendSum(dst []byte, key string, m message) []byte {
	mac := hmac.New(f.hash, []byte(key))
	m.writeTo(mac)
	return mac.Sum(dst)
}

// sign returns the encoded MAC of the message.
func (f macForm) sign(key string, m message) string { return string(f.appendMAC(nil, key, m)) }
