package config

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

const (
	keyPrefix = "rly_live_"
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewKeyText makes an API key: rly_live_, 32 random base62 characters (190 bits), and their CRC32
// (IEEE) as 6 base62 characters, so that a leaked key is recognised without asking anybody.
func NewKeyText() string {
	random := make([]byte, 32)
	for i := range random {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(base62))))
		if err != nil {
			panic(fmt.Sprintf("BUG: crypto/rand: %v", err)) // it never returns an error
		}
		random[i] = base62[n.Int64()]
	}
	return keyPrefix + string(random) + keyChecksum(string(random))
}

func keyChecksum(random string) string {
	sum := crc32.ChecksumIEEE([]byte(random))
	var out [6]byte // 62^6 > 2^32
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = base62[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// IsKeyText reports whether s has the form and the checksum of a key that CreateKey made. Leak
// detection uses it; authentication never does, for bootstrap keys may be any text.
func IsKeyText(s string) bool {
	rest, ok := strings.CutPrefix(s, keyPrefix)
	if !ok || len(rest) != 38 || strings.Trim(rest, base62) != "" {
		return false
	}
	return keyChecksum(rest[:32]) == rest[32:]
}

// What a key should have, so that it cannot be found by trying: 24 random characters of an alphabet as small as hex
// are 96 bits, and nearly always show 10 different ones.
const (
	goodKey      = 24 // bytes
	goodAlphabet = 10 // different bytes
)

// WeakKey reports whether a key is easier to guess than it should be, by its length and by how little it varies. An
// empty one is none.
func WeakKey(text string) bool {
	different := make(map[rune]bool)
	for _, r := range text {
		different[r] = true
	}
	return text != "" && (len(text) < goodKey || len(different) < goodAlphabet)
}

// hashOf is how tokens and keys are kept: they are random, so a plain SHA-256 cannot be searched back.
func hashOf(secret string) [hashLen]byte { return sha256.Sum256([]byte(secret)) }

func last4(s string) string { return s[max(0, len(s)-4):] }
