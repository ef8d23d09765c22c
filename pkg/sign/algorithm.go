package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
)

// Algorithm is how a secret signs.
type Algorithm string

// The algorithms of Standard Webhooks 1.0.0. With Ed25519 (identifier v1a) the receiver has no secret: it verifies with
// the public key.
const (
	HMAC    Algorithm = "hmac-sha256"
	Ed25519 Algorithm = "ed25519"
)

// Algorithms returns both as texts, the default first.
func Algorithms() []string { return []string{string(HMAC), string(Ed25519)} }

// Starts of the texts of private and public keys (Standard Webhooks 1.0.0, "Secret serialization").
const (
	PrivatePrefix = "whsk_"
	publicPrefix  = "whpk_"
)

// New makes a secret of that algorithm from random bytes.
func New(a Algorithm) Secret {
	if a != Ed25519 {
		return NewSecret()
	}
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails: crypto/rand ends the process instead
	return newPrivate(ed25519.NewKeyFromSeed(seed))
}

func newPrivate(private ed25519.PrivateKey) Secret {
	return Secret{&key{&material{raw: private, private: true}}}
}

// parsePrivate parses the base64 of a private key: the 32 bytes of RFC 8032, or these and the 32 of its public key.
func parsePrivate(encoded string) (Secret, error) {
	// Checked before decoding, so that a huge text costs nothing.
	if len(encoded) <= base64.StdEncoding.EncodedLen(ed25519.PrivateKeySize) {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err == nil && base64.StdEncoding.EncodeToString(raw) == encoded &&
			(len(raw) == ed25519.SeedSize || len(raw) == ed25519.PrivateKeySize) {
			private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
			if len(raw) == ed25519.SeedSize || bytes.Equal(private, raw) {
				return newPrivate(private), nil
			}
			return Secret{}, fmt.Errorf("%w: its last 32 bytes are not the public key of its first 32", ErrSecret)
		}
	}
	return Secret{}, fmt.Errorf("%w: after %q it must be the standard base64 of an Ed25519 key, 32 or 64 bytes",
		ErrSecret, PrivatePrefix)
}

// Algorithm returns how s signs.
func (s Secret) Algorithm() Algorithm {
	if s.k != nil && s.k.m.private {
		return Ed25519
	}
	return HMAC
}

// PublicKey returns the 32 bytes of the public key, nil if s is no Ed25519 key.
func (s Secret) PublicKey() ed25519.PublicKey {
	if s.Algorithm() != Ed25519 {
		return nil
	}
	return ed25519.PrivateKey(s.k.m.raw).Public().(ed25519.PublicKey)
}

// PublicText returns the text of the public key, whpk_ and base64; nil if s is no Ed25519 key.
func (s Secret) PublicText() *string {
	public := s.PublicKey()
	if public == nil {
		return nil
	}
	text := publicPrefix + base64.StdEncoding.EncodeToString(public)
	return &text
}

// appendPrivate appends an Ed25519 signature. It copies the body: Ed25519 reads what it signs twice (RFC 8032, 5.1.6).
func (m *material) appendPrivate(dst []byte, id string, unix int64, body []byte) []byte {
	text := make([]byte, 0, len(id)+len(body)+24)
	text = strconv.AppendInt(append(append(text, id...), '.'), unix, 10)
	text = append(append(text, '.'), body...)
	return base64.StdEncoding.AppendEncode(append(dst, "v1a,"...), ed25519.Sign(m.raw, text))
}

// prefix is the start of the text of s.
func (s Secret) prefix() string {
	if s.Algorithm() == Ed25519 {
		return PrivatePrefix
	}
	return Prefix
}
