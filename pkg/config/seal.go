package config

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

// Fields under which the secrets of entities are sealed. The additional data of AES-GCM is
// "<entity id>/<field>", so that a sealed secret copied to another entity or field does not open:
//
//	ep_…/token            ingest tokens         Endpoint.Token and its FormerToken
//	ep_…/verification     provider's secrets    Verification.Secrets, each
//	dst_…/secret          signing secrets       SigningSecret.Secret, each
//	dst_…/header/<Name>   added header values   Destination.Headers[Name], the name as stored
//	acc_…/alerts/…        channels of alerts    see FieldAlertURL and FieldAlertSecret
//	log/secret            of the log itself     LogSecret.Secret
const (
	FieldToken        = "token"
	FieldVerification = "verification"
	FieldSecret       = "secret"
)

// FieldHeader is the field of the value of an added header.
func FieldHeader(name string) string { return "header/" + name }

// ErrUnseal is returned for a secret that does not open: another entity's, altered, or under a master
// key that is not there.
var ErrUnseal = errors.New("sealed secret does not open")

// Keyring holds the master keys. The first one seals, all of them open.
type Keyring struct {
	first string
	aead  map[string]cipher.AEAD
	macs  map[string][]byte // keys of the MACs of exports
	ids   []string          // see IDs
}

var masterKeyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// NewKeyring reads `name:base64(32 bytes)[,…]`. Its errors never repeat a key.
func NewKeyring(spec string) (*Keyring, error) {
	k := &Keyring{aead: make(map[string]cipher.AEAD), macs: make(map[string][]byte)}
	for i, part := range strings.Split(spec, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), ":")
		if !masterKeyName.MatchString(name) {
			return nil, fmt.Errorf("master key %d: want name:base64 of 32 bytes", i+1)
		}
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("master key %q: want the base64 of 32 bytes", name)
		}
		if k.aead[name] != nil {
			return nil, fmt.Errorf("master key %q is named twice", name)
		}
		if k.aead[name], err = newGCM(key); err != nil {
			return nil, fmt.Errorf("master key %q: %w", name, err)
		}
		if i == 0 {
			k.first = name
		}
		k.macs[name] = conflog.DeriveKey(key, "configuration export")
		k.ids = append(k.ids, name+":"+fingerprint(key))
	}
	return k, nil
}

// fingerprint tells keys of one name apart. It is short and of a random key: nothing leads back from it.
func fingerprint(key []byte) string {
	sum := sha256.Sum256(append([]byte("relay master key "), key...))
	return hex.EncodeToString(sum[:4])
}

// IDs name the keys without giving them away, the one that seals first: "name:fingerprint".
func (k *Keyring) IDs() []string { return k.ids }

// Seals reports whether s is sealed with the first key, by the name of its key.
func (k *Keyring) SealedByFirst(s Sealed) bool { return s.keyName() == k.first }

// keyName is the name of the key that seals.
func (s Sealed) keyName() string {
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

// GenerateMasterKey returns a new random key in the form that NewKeyring reads.
func GenerateMasterKey(name string) string {
	var key [32]byte
	rand.Read(key[:]) // never fails: crypto/rand ends the process instead
	return name + ":" + base64.StdEncoding.EncodeToString(key[:])
}

// Seal encrypts with AES-256-GCM under the first key and a random nonce of 96 bits, which is safe for
// 2^32 secrets per key (NIST SP 800-38D, 8.3).
func (k *Keyring) Seal(aad string, plain []byte) Sealed {
	box := k.aead[k.first].Seal(nil, nil, plain, []byte(aad))
	return Sealed(k.first + ":" + base64.RawStdEncoding.EncodeToString(box))
}

// Open is the reverse of Seal under the same additional data.
func (k *Keyring) Open(aad string, s Sealed) ([]byte, error) {
	name, text, _ := strings.Cut(string(s), ":")
	aead := k.aead[name]
	if aead == nil {
		return nil, fmt.Errorf("open %s: %w: no master key %q", aad, ErrUnseal, name)
	}
	box, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w: not base64", aad, ErrUnseal)
	}
	plain, err := aead.Open(nil, nil, box, []byte(aad))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", aad, ErrUnseal)
	}
	return plain, nil
}

// SealString seals a secret of an entity; see FieldToken and its neighbours.
func (k *Keyring) SealString(entity, field, plain string) Sealed {
	return k.Seal(entity+"/"+field, []byte(plain))
}

// OpenString opens what SealString sealed for the same entity and field.
func (k *Keyring) OpenString(entity, field string, s Sealed) (string, error) {
	plain, err := k.Open(entity+"/"+field, s)
	return string(plain), err
}

// FieldLogSecret is the field under which the secret of the configuration log is sealed.
const FieldLogSecret = "secret"

// ErrLogSecret means that the master keys are others than those that the log was made with.
var ErrLogSecret = errors.New("cannot open the secret of the configuration log")

// logKeys seals the secret of the configuration log.
type logKeys struct{ *Keyring }

// Seal seals it under the first key.
func (k logKeys) Seal(secret []byte) string {
	return string(k.SealString(conflog.LogID, FieldLogSecret, string(secret)))
}

// Open opens it, or says what to do about the master keys.
func (k logKeys) Open(sealed string) ([]byte, error) {
	s := Sealed(sealed)
	secret, err := k.OpenString(conflog.LogID, FieldLogSecret, s)
	if err == nil {
		return []byte(secret), nil
	}
	name := s.keyName()
	for _, id := range k.IDs() {
		if strings.HasPrefix(id, name+":") {
			return nil, fmt.Errorf("%w: this node's master key %q differs from the one that sealed it; "+
				"set RELAY_MASTER_KEYS to the keys that this configuration was made with", ErrLogSecret, name)
		}
	}
	return nil, fmt.Errorf("%w: it is sealed with the master key %.64q, and this node has %s; add that key to "+
		"RELAY_MASTER_KEYS",
		ErrLogSecret, name, strings.Join(k.IDs(), ", "))
}
