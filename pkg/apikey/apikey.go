// Package apikey makes the service's API keys and recognises their text.
//
// A key is rly_live_, 32 random characters and a checksum of 6. New makes one; HasFormat recognises one by its
// checksum, which a search for leaked keys uses. Bootstrap keys, which an operator sets, may be any text: Weak reports
// those that are easy to guess, and a node warns of them.
//
// The package keeps no keys and does not authenticate: package config stores their hashes and looks keys up by them.
// Start reading at New.
package apikey

import (
	"crypto/rand"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

const (
	prefix = "rly_live_"
	// testPrefix is of keys that open nothing: with one, a person tries whether leaks are found.
	testPrefix = "rly_test_"
	base62     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// New makes an API key: rly_live_, 32 random base62 characters (190 bits), and their CRC32 (IEEE) as 6 base62
// characters. The checksum lets a secret scanner recognise a leaked key offline.
func New() string { return withPrefix(prefix) }

// NewTestKey makes a key that opens nothing: rly_test_ and the rest as New. A search for leaked keys finds it as
// a test.
func NewTestKey() string { return withPrefix(testPrefix) }

func withPrefix(prefix string) string {
	random := make([]byte, 32)
	for i := range random {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(base62))))
		if err != nil {
			panic(fmt.Sprintf("BUG: crypto/rand: %v", err)) // it never returns an error
		}
		random[i] = base62[n.Int64()]
	}
	return prefix + string(random) + checksum(string(random))
}

// checksum returns the CRC32 (IEEE) of random as 6 base62 characters, left-padded with 0.
func checksum(random string) string {
	sum := crc32.ChecksumIEEE([]byte(random))
	var out [6]byte // 62^6 > 2^32
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = base62[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// HasFormat reports whether s has the form and the checksum of a key from New. Package secrets finds leaked keys with
// it. Authentication must not use it: bootstrap keys may be any text.
func HasFormat(s string) bool { return hasFormat(s, prefix) }

// IsTestKey reports whether s has the form and the checksum of a key from NewTestKey.
func IsTestKey(s string) bool { return hasFormat(s, testPrefix) }

func hasFormat(s, prefix string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) != 38 || strings.Trim(rest, base62) != "" {
		return false
	}
	return checksum(rest[:32]) == rest[32:]
}

// Minimum of a key that is too hard to guess: 24 random hex characters are 96 bits, and nearly always contain at least
// 10 different ones.
const (
	minLength   = 24 // bytes
	minDistinct = 10 // different characters
)

// Weak reports whether a key is easy to guess: it has less than 24 bytes or less than 10 different characters. An empty
// text is no key and therefore not weak.
func Weak(text string) bool {
	different := make(map[rune]bool)
	for _, r := range text {
		different[r] = true
	}
	return text != "" && (len(text) < minLength || len(different) < minDistinct)
}

// Mask returns what may be shown of a key from New, of which the last 4 bytes are known.
func Mask(last4 string) string { return prefix + "***" + last4 }

// Last4 returns the last 4 bytes of a key, the part of it that the API shows; a shorter text is returned whole.
func Last4(text string) string { return text[max(0, len(text)-4):] }
