package sign

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"strings"
	"sync"
)

// Prefix begins every symmetric secret (Standard Webhooks 1.0.0, "Secret serialization").
const Prefix = "whsec_"

// The standard asks for 24 to 64 bytes (192 to 512 bits). A new secret has 32, the output size of
// SHA-256: a longer key does not make the MAC stronger.
const (
	minSecretLen = 24
	maxSecretLen = 64
	newSecretLen = 32
)

// ErrSecret is what every refusal of [ParseSecret] wraps. Its text never contains the secret.
var ErrSecret = errors.New("not a signing secret")

// Secret is the signing secret of one destination. The zero Secret signs nothing. Copies share the
// hash states, and all methods may be called from any goroutine. Keep it for as long as the
// destination lives: the reuse of its states is what makes signing cheap.
type Secret struct{ k *key }

// key stands between a Secret and its bytes, which are two pointers away on purpose. Where a Secret is
// an unexported field fmt cannot call our methods, and for a verb that does not fit a pointer (%s) it
// prints what the pointer points to; it follows one pointer, not two.
type key struct{ m *material }

// material is the secret itself and the hash states made from it.
type material struct {
	raw    []byte
	states sync.Pool // of *state, keyed with raw
}

// state is an HMAC ready for Reset, with room for id.timestamp. and, after it, the sum.
type state struct {
	mac     hash.Hash
	scratch []byte
}

func newSecret(raw []byte) Secret {
	m := &material{raw: raw}
	m.states.New = func() any {
		return &state{mac: hmac.New(sha256.New, m.raw), scratch: make([]byte, 0, 64)}
	}
	return Secret{&key{m}}
}

// NewSecret makes a secret of 32 random bytes.
func NewSecret() Secret {
	raw := make([]byte, newSecretLen)
	rand.Read(raw) // never fails: it ends the process rather than return weak bytes
	return newSecret(raw)
}

// ParseSecret reads whsec_ and the base64 of 24 to 64 bytes. Only the canonical form is taken, padded
// and without line breaks: the libraries that receivers use differ in what else they decode, and a
// secret that two of them read differently verifies at one and fails at the other.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return Secret{}, fmt.Errorf("%w: it must begin with %q", ErrSecret, Prefix)
	}
	// The bound comes before the decoding, so that a huge text costs nothing.
	if len(encoded) > base64.StdEncoding.EncodedLen(maxSecretLen) {
		return Secret{}, fmt.Errorf("%w: it must hold at most %d bytes", ErrSecret, maxSecretLen)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != encoded {
		return Secret{}, fmt.Errorf("%w: after %q it must be standard base64 with padding", ErrSecret, Prefix)
	}
	if len(raw) < minSecretLen || len(raw) > maxSecretLen {
		return Secret{}, fmt.Errorf(
			"%w: it must hold %d to %d bytes, not %d", ErrSecret, minSecretLen, maxSecretLen, len(raw))
	}
	return newSecret(raw), nil
}

// Reveal returns the whole secret as ParseSecret reads it, empty for the zero Secret.
func (s Secret) Reveal() string {
	if s.k == nil {
		return ""
	}
	return Prefix + base64.StdEncoding.EncodeToString(s.k.m.raw)
}

// Last4 returns the last four characters of the secret's text, what a read of a destination shows
// as secret_last4. They give away at most three of its 24 or more bytes.
func (s Secret) Last4() string {
	text := s.Reveal()
	return text[max(0, len(text)-4):]
}

// IsZero reports whether s is the zero Secret.
func (s Secret) IsZero() bool { return s.k == nil }

// String returns the mask: whsec_**** and the last four characters.
func (s Secret) String() string {
	if s.k == nil {
		return ""
	}
	return Prefix + "****" + s.Last4()
}

// GoString returns the mask too: %#v must not be a way around it.
func (s Secret) GoString() string { return s.String() }

// LogValue returns the mask, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the mask, so that a Secret left in a value that becomes JSON does no harm. There
// is no UnmarshalText: a mask is not a secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
