package finding

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/eventrelay/relay/pkg/id"
)

// Keys derive the fingerprints and ids of an account's findings. They are the same on every node, and stay the same
// when the master keys change; pkg/config has them.
type Keys struct {
	// Salt is public to holders of a DSN. It makes the fingerprints of accounts differ.
	Salt []byte
	// Key is secret. It is derived from the service secret.
	Key [32]byte
}

// SaltedHash returns the first step of a fingerprint. It may leave a customer's process, and is never stored.
func (k *Keys) SaltedHash(secret []byte) [32]byte { return mac(k.Salt, secret) }

// Fingerprint returns the fingerprint that is stored: fpr_ and 32 hex digits.
func (k *Keys) Fingerprint(salted [32]byte) string {
	sum := mac(k.Key[:], salted[:])
	return FingerprintPrefix + hex.EncodeToString(sum[:16])
}

// ID returns the id of the finding of a secret with that fingerprint. Without a fingerprint all hits of a rule in one
// location are one finding.
func (k *Keys) ID(rule, fingerprint string, location [16]byte) string {
	text := fingerprint
	if text == "" {
		text = rule + "|" + hex.EncodeToString(location[:])
	}
	sum := mac(k.Key[:], []byte("id|"+text))
	return id.ID(sum[:16]).Text(Prefix)
}

// TripwireID returns the id of the finding of a tripwire, whichever of its secrets was used or seen. Tests have another
// one: they must not hide a use.
func (k *Keys) TripwireID(tripwire string, test bool) string {
	rule := RuleTripwire
	if test {
		rule += "-test"
	}
	return k.ID(rule, "", Location{Source: FromTripwire, TripwireID: tripwire}.Hash())
}

// HitID returns Hit.ID: the same for the same offset in the same record of a sender, however often it is sent.
func HitID(sender, record string, offset int64) (hit [16]byte) {
	b := append(append([]byte(sender), 0), record...)
	b = binary.BigEndian.AppendUint64(append(b, 0), uint64(offset))
	sum := sha256.Sum256(b)
	copy(hit[:], sum[:])
	return hit
}

func mac(key, msg []byte) (sum [32]byte) {
	h := hmac.New(sha256.New, key)
	h.Write(msg)
	h.Sum(sum[:0])
	return sum
}
