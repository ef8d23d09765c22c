// Package seal encrypts the secrets of the configuration that must be shown or used again, with AES-256-GCM under the
// master keys. A sealed secret opens only for the entity and field that it was sealed for.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/eventrelay/relay/pkg/conflog"
)

// Fields under which secrets are sealed. The additional data of AES-GCM is "<entity id>/<field>", so a sealed secret
// that is copied to another entity or field cannot be opened:
//
// \tep_…/token            ingest tokens         Endpoint.Token and its FormerToken
// \tep_…/verification     provider's secrets    Verification.Secrets, each
// \tdst_…/secret          signing secrets       SigningSecret.Secret, each
// \tdst_…/header/<Name>   added header values   Destination.Headers[Name], the name as stored
// \tdst_…/auth.password    … settings of its kind  each secret under its path, see kinds.Settings
// \tacc_…/alerts/…        channels of alerts    see FieldAlertURL and FieldAlertSecret
// \tdrn_…/token           tokens of drains      Drain.Sealed.Token
// \tdrn_…/signing_secret, verify_code           the same members of Drain.Sealed
// \tdsn_…/key              keys of DSNs          DSN.Sealed.Key
// \tlog/secret            of the log itself     LogSecret.Secret
// \tservice_secret/secret of the service        ServiceSecret.Sealed.Secret
const (
	FieldToken         = "token"
	FieldVerification  = "verification"
	FieldSecret        = "secret"
	FieldSigningSecret = "signing_secret"
	FieldVerifyCode    = "verify_code"
	FieldDSNKey        = "key"
)

// FieldHeader returns the field under which the value of an added header is sealed.
func FieldHeader(name string) string { return "header/" + name }

// Secret is a secret that is encrypted with a master key: "key name:base64(nonce, AES-GCM ciphertext)".
type Secret string

// ErrOpen is returned for a secret that cannot be opened: it belongs to another entity or field, was changed, or is
// sealed with a master key that this node lacks.
var ErrOpen = errors.New("cannot open the sealed secret")

// Keyring holds the master keys. The first key seals, all keys open.
type Keyring struct {
	first string
	keys  map[string]masterKey // by name
	ids   []string             // see IDs
}

type masterKey struct {
	id   string // see IDs
	aead cipher.AEAD
	mac  []byte // key of the MACs of exports
}

var masterKeyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// NewKeyring parses `name:base64(32 bytes)[,…]`. Its errors never contain a key.
func NewKeyring(spec string) (*Keyring, error) {
	k := &Keyring{keys: make(map[string]masterKey)}
	for i, part := range strings.Split(spec, ",") {
		name, text, named := strings.Cut(strings.TrimSpace(part), ":")
		if !named || !masterKeyName.MatchString(name) {
			return nil, fmt.Errorf("master key %d must have the form name:base64 of 32 bytes", i+1)
		}
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("master key %q: after its name and a colon must stand the base64 of 32 bytes", name)
		}
		if k.Has(name) {
			return nil, fmt.Errorf("master key %q is named twice", name)
		}
		aead, err := newGCM(key)
		if err != nil {
			return nil, fmt.Errorf("master key %q: %w", name, err)
		}
		if i == 0 {
			k.first = name
		}
		id := name + ":" + fingerprint(key)
		k.keys[name] = masterKey{id, aead, conflog.DeriveKey(key, "configuration export")}
		k.ids = append(k.ids, id)
	}
	return k, nil
}

// fingerprint distinguishes keys with the same name: the first 4 bytes of a SHA-256. Keys are random, so it reveals
// nothing about them.
func fingerprint(key []byte) string {
	sum := sha256.Sum256(append([]byte("relay master key "), key...))
	return hex.EncodeToString(sum[:4])
}

// Has reports whether the keyring has a key with that name.
func (k *Keyring) Has(name string) bool { return k.keys[name].id != "" }

// ID returns the id of a key, see IDs; empty if the keyring does not have it.
func (k *Keyring) ID(name string) string { return k.keys[name].id }

// First returns the name of the key that seals.
func (k *Keyring) First() string { return k.first }

// MACKey returns the key of the MACs of exports that is derived from a master key; nil if the keyring does not have it.
func (k *Keyring) MACKey(name string) []byte { return k.keys[name].mac }

// IDs returns the ids of the keys as "name:fingerprint", the key that seals first.
func (k *Keyring) IDs() []string { return k.ids }

// SealedByFirst reports whether s is sealed with the first key, according to the key name in s.
func (k *Keyring) SealedByFirst(s Secret) bool { return s.KeyName() == k.first }

// KeyName returns the name of the master key with which the secret is sealed.
func (s Secret) KeyName() string {
	name, _, _ := strings.Cut(string(s), ":")
	return name
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// GenerateKey returns a new random key in the form that NewKeyring parses.
func GenerateKey(name string) string {
	var key [32]byte
	rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	return name + ":" + base64.StdEncoding.EncodeToString(key[:])
}

// Seal encrypts with AES-256-GCM under the first key and a random 96-bit nonce, which is safe for 2^32 secrets per key
// (NIST SP 800-38D, 8.3).
func (k *Keyring) Seal(aad string, plain []byte) Secret {
	ciphertext := k.keys[k.first].aead.Seal(nil, nil, plain, []byte(aad))
	return Secret(k.first + ":" + base64.RawStdEncoding.EncodeToString(ciphertext))
}

// Open decrypts what Seal has encrypted with the same additional data.
func (k *Keyring) Open(aad string, s Secret) ([]byte, error) {
	name, text, _ := strings.Cut(string(s), ":")
	if !k.Has(name) {
		return nil, fmt.Errorf("open %s: %w: no master key %q", aad, ErrOpen, name)
	}
	ciphertext, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w: not base64", aad, ErrOpen)
	}
	plain, err := k.keys[name].aead.Open(nil, nil, ciphertext, []byte(aad))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", aad, ErrOpen)
	}
	return plain, nil
}

// SealString seals a secret of an entity; see FieldToken for the fields.
func (k *Keyring) SealString(entity, field, plain string) Secret {
	return k.Seal(entity+"/"+field, []byte(plain))
}

// OpenString opens a secret that SealString has sealed for the same entity and field.
func (k *Keyring) OpenString(entity, field string, s Secret) (string, error) {
	plain, err := k.Open(entity+"/"+field, s)
	return string(plain), err
}

// ErrMissingKey means that a living node lacks a master key that it needs.
var ErrMissingKey = errors.New("a node lacks a master key")
