package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

// FieldLogSecret is the field under which the secret of the configuration log is sealed.
const FieldLogSecret = "secret"

// ErrLogSecret means that the master keys are not those of the configuration log.
var ErrLogSecret = errors.New("cannot open the secret of the configuration log")

// logKeys implements conflog.Sealer.
type logKeys struct{ *seal.Keyring }

// Seal seals the secret of the log under the first key.
func (k logKeys) Seal(secret []byte) string {
	return string(k.SealString(conflog.LogID, FieldLogSecret, string(secret)))
}

// Open opens the secret of the log. Its errors say which master key is missing.
func (k logKeys) Open(sealed string) ([]byte, error) {
	s := seal.Secret(sealed)
	secret, err := k.OpenString(conflog.LogID, FieldLogSecret, s)
	if err == nil {
		return []byte(secret), nil
	}
	name := s.KeyName()
	if k.Has(name) {
		return nil, fmt.Errorf("%w: this node's master key %q differs from the one that sealed it; "+
			"set RELAY_MASTER_KEYS to the keys with which this configuration was created", ErrLogSecret, name)
	}
	return nil, fmt.Errorf("%w: it is sealed with the master key %.64q, and this node has %s; add that key to "+
		"RELAY_MASTER_KEYS", ErrLogSecret, name, strings.Join(k.IDs(), ", "))
}
