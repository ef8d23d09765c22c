package config

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/finding"
)

// ServiceSecret holds the secret from which all nodes derive their common keys. Unlike the master keys, which only seal
// it, it never changes, except that an import brings the secret of the imported configuration. Its id is
// serviceSecretID.
type ServiceSecret struct {
	entity.Meta
	Sealed struct {
		Secret seal.Secret `json:"secret"` // 32 random bytes
	} `json:"sealed"`
}

func (s *ServiceSecret) EachSealed(f func(entity, field string, s *seal.Secret)) {
	f(s.ID, FieldServiceSecret, &s.Sealed.Secret)
}

func (s *ServiceSecret) MadeAtStart() bool { return true }
func (s *ServiceSecret) Validate() error   { return require.OneOf("id", s.ID, serviceSecretID) }

const (
	serviceSecretID = "service_secret"
	// FieldServiceSecret is the field under which ServiceSecret.Sealed.Secret is sealed.
	FieldServiceSecret = "secret"
)

// Purposes of keys that are derived from the service secret: the info of HKDF-SHA256 (RFC 5869).
const (
	infoFingerprints = "finding-fp|" // followed by the id of the account
	infoSession      = "session"
	infoPull         = "pull"
)

// SessionKey returns the key that seals the cookies of dashboard sessions. It is the same on every node, and stays the
// same when the master keys change. The first call creates the service secret.
func (c callers) SessionKey(ctx context.Context) ([32]byte, error) {
	return c.deriveKey(ctx, infoSession)
}

// PullKey returns the key that encrypts what nodes tell each other of pulled destinations.
func (c callers) PullKey(ctx context.Context) ([32]byte, error) { return c.deriveKey(ctx, infoPull) }

// KeyFingerprint returns the fingerprint of the text of an API key: fpr_ and 32 hex digits. It is stored with the key,
// so that a copy of the text that is found elsewhere can be attributed to the key. Without the service secret nobody
// can compute it.
func (c callers) KeyFingerprint(ctx context.Context, text string) (string, error) {
	keys, err := c.FindingKeys(ctx)
	if err != nil {
		return "", err
	}
	return keys.Fingerprint(keys.SaltedHash([]byte(text))), nil
}

// FindingKeys returns the keys that derive the fingerprints and ids of the account's findings. They change only with an
// import of another configuration, so callers ask for them again for each request.
func (c callers) FindingKeys(ctx context.Context) (finding.Keys, error) {
	account, err := c.AccountWithSalt(ctx)
	if err != nil {
		return finding.Keys{}, err
	}
	key, err := c.deriveKey(ctx, infoFingerprints+account.ID)
	return finding.Keys{Salt: account.FPSalt, Key: key}, err
}

func (c callers) deriveKey(ctx context.Context, info string) (key [32]byte, err error) {
	s, err := c.serviceSecret(ctx)
	if err != nil {
		return key, fmt.Errorf("service secret: %w", err)
	}
	secret, err := c.Keyring.OpenString(s.ID, FieldServiceSecret, s.Sealed.Secret)
	if err != nil {
		return key, err
	}
	derived, err := hkdf.Key(sha256.New, []byte(secret), nil, info, len(key))
	copy(key[:], derived)
	return key, err
}

// serviceSecret returns the service secret, and creates it if there is none. When several nodes create it at once, the
// first one in the log counts.
func (c callers) serviceSecret(ctx context.Context) (*ServiceSecret, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	if s, _ := entity.Get[ServiceSecret](c, serviceSecretID); s != nil {
		return s, nil
	}
	s := &ServiceSecret{Meta: entity.Meta{ID: serviceSecretID}}
	s.Sealed.Secret = c.Keyring.SealString(s.ID, FieldServiceSecret, string(entity.RandomBytes(32)))
	added, err := entity.Create(ctx, c, s)
	if errors.Is(err, ErrConflict) { // another call was first, and this node has applied its record
		if added, _ = entity.Get[ServiceSecret](c, serviceSecretID); added != nil {
			return added, nil
		}
	}
	return added, err
}
