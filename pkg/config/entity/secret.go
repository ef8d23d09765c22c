package entity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"

	"github.com/eventrelay/relay/pkg/conflog"
)

// IsHashOf reports whether a hash is that of a secret, in a time that does not depend on either.
func IsHashOf(hash []byte, secret string) bool {
	sum := HashOf(secret)
	return subtle.ConstantTimeCompare(sum[:], hash) == 1
}

// RandomBytes returns n random bytes.
func RandomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}

// HashOf returns the hash by which a token or key is stored. They are random, so a plain SHA-256 cannot be reversed by
// guessing.
func HashOf(secret string) [conflog.HashLen]byte { return sha256.Sum256([]byte(secret)) }
