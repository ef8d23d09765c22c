// Package apikey makes and recognises the text of the service's own API keys.
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
	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// New makes an API key: rly_live_, 32 random base62 characters (190 bits), and their CRC32 (IEEE) as 6 base62
// characters, so that a leaked key is recognised without asking anybody.
func New() string {
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

func checksum(random string) string {
	sum := crc32.ChecksumIEEE([]byte(random))
	var out [6]byte // 62^6 > 2^32
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = base62[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// Is reports whether s has the form and the checksum of a key that New made. Leak detection uses it; authentication
// never does, for bootstrap keys may be any text.
func HasFormat(s string) bool {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) != 38 || strings.Trim(rest, base62) != "" {
		return false
	}
	return checksum(rest[:32]) == rest[32:]
}

// What a key should have, so that it cannot be found by trying: 24 random characters of an alphabet as small as hex
// are 96 bits, and nearly always show 10 different ones.
const (
	minLength   = 24 // bytes
	minDistinct = 10 // different bytes
)

// Weak reports whether a key is easier to guess than it should be, by its length and by how little it varies. An empty
// one is none.
func Weak(text string) bool {
	different := make(map[rune]bool)
	for _, r := range text {
		different[r] = true
	}
	return text != "" && (len(text) < minLength || len(different) < minDistinct)
}

// Last4 is what is shown of a key.
func Last4(text string) string { return text[max(0, len(text)-4):] }
