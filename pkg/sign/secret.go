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

// Prefix is the start of the text of every symmetric secret (Standard Webhooks 1.0.0, "Secret serialization").
const Prefix = "whsec_"

// Lengths of a secret in bytes. The standard requires 24 to 64 (192 to 512 bits). A new secret has 32, the output size
// of SHA-256: a longer key does not make the HMAC stronger.
const (
	minSecretLen = 24
	maxSecretLen = 64
	newSecretLen = 32
)

// ErrSecret is what every error of [ParseSecret] wraps. The texts of these errors do not contain the secret.
var ErrSecret = errors.New("not a signing secret")

// Secret is a signing secret, or an Ed25519 key, of one destination. The zero Secret signs nothing. Copies share the
// HMAC states, and all methods may be called from any goroutine. Parse it once and keep it while the destination
// exists: reusing its states makes signing cheap.
type Secret struct{ k *key }

// key puts a second pointer between a Secret and its bytes, so that fmt cannot print them. If a Secret is an unexported
// field, fmt cannot call its methods. For a verb that does not fit a pointer (%s) it prints what the pointer points to,
// but it follows one pointer, not two.
type key struct{ m *material }

// material is the bytes of a secret and the HMAC states that use them as key.
type material struct {
	raw     []byte
	private bool      // raw is an ed25519.PrivateKey
	states  sync.Pool // of *state; HMAC only
}

// state is an HMAC keyed with a secret, and a buffer: first for id.timestamp. and then, in the same place, for the sum.
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
	rand.Read(raw) // never fails: crypto/rand ends the process instead
	return newSecret(raw)
}

// ParseSecret parses whsec_ and the base64 of 24 to 64 bytes, or whsk_ and the base64 of an Ed25519 key. It accepts
// canonical base64 only, with padding and without line breaks: receivers' libraries differ in what else they decode, so
// that another form might verify with one library and fail with the next. Its errors wrap ErrSecret.
func ParseSecret(text string) (Secret, error) {
	if encoded, ok := strings.CutPrefix(text, PrivatePrefix); ok {
		return parsePrivate(encoded)
	}
	encoded, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return Secret{}, fmt.Errorf("%w: it must begin with %q or %q", ErrSecret, Prefix, PrivatePrefix)
	}
	// Checked before decoding, so that a huge text costs nothing.
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

// Reveal returns the whole secret in the form that ParseSecret parses, empty for the zero Secret.
func (s Secret) Reveal() string {
	if s.k == nil {
		return ""
	}
	return s.prefix() + base64.StdEncoding.EncodeToString(s.k.m.raw)
}

// Last4 returns the last four characters of the secret's text, which the API shows as secret_last4 of a destination.
// They reveal at most three of the secret's 24 or more bytes.
func (s Secret) Last4() string {
	text := s.Reveal()
	return text[max(0, len(text)-4):]
}

// IsZero reports whether s is the zero Secret.
func (s Secret) IsZero() bool { return s.k == nil }

// String returns the mask, such as whsec_**** and the last four characters. It is empty for the zero Secret.
func (s Secret) String() string {
	if s.k == nil {
		return ""
	}
	return s.prefix() + "****" + s.Last4()
}

// GoString returns the mask, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue returns the mask, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the mask, so that JSON of a value with a Secret does not contain it. There is no UnmarshalText: a
// mask cannot be parsed back.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
