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
	"strings"
)

// macForm is the algorithm of a MAC and its text encoding.
type macForm struct {
	hash     func() hash.Hash
	size     int // bytes of the MAC
	encoding string
}

// newMACForm returns the form for the words of a configuration; false if one of them is unknown.
func newMACForm(algorithm, encoding string) (macForm, bool) {
	f := macForm{encoding: encoding}
	switch algorithm {
	case "sha256":
		f.hash, f.size = sha256.New, sha256.Size
	case "sha1":
		f.hash, f.size = sha1.New, sha1.Size
	case "sha512":
		f.hash, f.size = sha512.New, sha512.Size
	}
	return f, f.hash != nil && (encoding == hexText || encoding == base64Text)
}

// Algorithms returns the valid values of Config.Algorithm.
func Algorithms() []string { return []string{"sha256", "sha1", "sha512"} }

// Encodings returns the valid values of Config.Encoding.
func Encodings() []string { return []string{hexText, base64Text} }

// The encodings of a MAC.
const (
	hexText    = "hex"    // lower-case
	base64Text = "base64" // standard alphabet, padded (RFC 4648 §4)
)

func hexSHA256() macForm { return macForm{hash: sha256.New, size: sha256.Size, encoding: hexText} }
func base64SHA256() macForm {
	return macForm{hash: sha256.New, size: sha256.Size, encoding: base64Text}
}
func base64SHA1() macForm { return macForm{hash: sha1.New, size: sha1.Size, encoding: base64Text} }

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

func isLowerHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func isBase64(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '+' || c == '/' || c == '='
}

// message is a signed text, in three parts so that the body is not copied.
type message struct {
	head string
	body []byte
	tail string
}

// verify returns the empty Reason if one of the keys made one of the signatures over the message.
func (f macForm) verify(keys []string, m message, signatures ...string) Reason {
	var space [2 * sha512.Size]byte // the longest encoded MAC: SHA-512 in hex
	for _, key := range keys {
		if key == "" {
			continue // anyone can sign with the empty key
		}
		want := f.appendMAC(space[:0], key, m)
		for _, got := range signatures {
			if subtle.ConstantTimeCompare([]byte(got), want) == 1 {
				return ""
			}
		}
	}
	return SignatureMismatch
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
	mac.Write([]byte(m.head))
	mac.Write(m.body)
	mac.Write([]byte(m.tail))
	return mac.Sum(dst)
}

// sign returns the encoded MAC of the message, made with the first secret.
func (f macForm) sign(c Config, m message) string { return string(f.appendMAC(nil, c.Secrets[0], m)) }

// checkBodySignature verifies the simplest scheme: one header with a prefix and one MAC over the body alone.
func checkBodySignature(c Config, r Request, header, prefix string, form macForm) Reason {
	value, reason := singleValue(r.Header, header)
	if reason != "" {
		return reason
	}
	signature, found := strings.CutPrefix(value, prefix)
	if !found || !form.wellFormed(signature) {
		return SignatureMalformed
	}
	return form.verify(c.Secrets, message{body: r.Body}, signature)
}
