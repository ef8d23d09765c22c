// Package sign signs deliveries by Standard Webhooks 1.0.0: with HMAC-SHA256 (identifier v1), or with Ed25519 (v1a).
//
// [Sign] takes the webhook id of a delivery, the time of the attempt, the body exactly as it is sent, and the secrets
// of the destination. It returns the value of the webhook-signature header. During the rotation of a secret a
// destination has two: the header then contains one signature for each, so that a receiver can verify with either.
//
// The package does not print secrets: fmt, slog and JSON show at most the last four characters of a [Secret]. Only
// [Secret.Reveal] returns all of it, for the API response that creates it and for encrypting it into the configuration
// log.
//
// The package starts no goroutines and has no global state. A Secret owns HMAC states, which it reuses between
// signatures. Start reading at [Sign].
package sign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Scheme is the name of this signature scheme in the API.
const Scheme = "standard_webhooks"

// version is the identifier of symmetric (HMAC-SHA256) signatures and the comma after it.
const version = "v1,"

// signatureLen is the length of one signature in the header, in bytes: the version and the 44 characters of a base64
// SHA-256 sum.
const signatureLen = len(version) + 44

// Sign returns the value of the webhook-signature header: one signature per secret, separated by a space, those of v1
// first: there are receivers that read the first one only. It skips the zero Secret.
//
// The signed text is id.timestamp.body. The timestamp is ts in whole unix seconds; the webhook-timestamp header must
// have the same number. The standard forbids a full stop in ids and timestamps, so that nobody can shift the borders of
// the three parts. Sign does not check id: the service's ids are base32 and have none.
func Sign(secrets []Secret, id string, ts time.Time, body []byte) string {
	return string(appendSignatures(make([]byte, 0, len(secrets)*(signatureLen+1)), secrets, id, ts, body))
}

// appendSignatures appends to dst what [Sign] returns. It allocates nothing if dst has room for 48 bytes per secret,
// none is an Ed25519 key, and the secret has signed before.
func appendSignatures(dst []byte, secrets []Secret, id string, ts time.Time, body []byte) []byte {
	start := len(dst)
	for _, a := range [...]Algorithm{HMAC, Ed25519} {
		for _, s := range secrets {
			if s.k == nil || s.Algorithm() != a {
				continue
			}
			if len(dst) > start {
				dst = append(dst, ' ')
			}
			if a == Ed25519 {
				dst = s.k.m.appendPrivate(dst, id, ts.Unix(), body)
			} else {
				dst = s.k.m.appendSignature(dst, id, ts.Unix(), body)
			}
		}
	}
	return dst
}

// appendSignature appends one signature. It takes the HMAC state from the secret's pool: creating one costs two SHA-256
// blocks and five allocations, most of the cost of signing a small body.
func (m *material) appendSignature(dst []byte, id string, unix int64, body []byte) []byte {
	st := m.states.Get().(*state)
	defer m.states.Put(st)
	st.mac.Reset()

	head := append(st.scratch[:0], id...)
	head = append(head, '.')
	head = strconv.AppendInt(head, unix, 10)
	head = append(head, '.')
	st.mac.Write(head)
	st.mac.Write(body)
	sum := st.mac.Sum(head[:0])
	st.scratch = head[:0]

	dst = append(dst, version...)
	return base64.StdEncoding.AppendEncode(dst, sum)
}

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
