package api

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"slices"
)

// cursorVersion changes when a cursor's meaning does; older ones are then refused.
const cursorVersion = 1

// keyLen is the length of the key of a row: an id, or a creation sequence in its last eight bytes.
const keyLen = 16

// filterLen is how much of the hash of list and filters a cursor carries. It guards against mistakes, not
// against forgery: a cursor gives no right to anything.
const filterLen = 8

// cursor is a place in a list: {version, hash of list and filters, key of the last row}.
type cursor [1 + filterLen + keyLen]byte

var errCursor = errors.New("cursor is not one of this list and these filters")

// filterHash collects what a cursor is bound to.
type filterHash struct{ h hash.Hash }

func newFilterHash(list string) filterHash {
	f := filterHash{sha256.New()}
	f.add(list)
	return f
}

// add takes the values of one filter; their order means nothing.
func (f filterHash) add(values ...string) {
	sorted := slices.Sorted(slices.Values(values))
	for _, v := range slices.Compact(sorted) {
		f.h.Write([]byte(v))
		f.h.Write([]byte{0})
	}
	f.h.Write([]byte{1})
}

func (f filterHash) cursor(key [keyLen]byte) string {
	var c cursor
	c[0] = cursorVersion
	copy(c[1:], f.h.Sum(nil)[:filterLen])
	copy(c[1+filterLen:], key[:])
	return base64.RawURLEncoding.EncodeToString(c[:])
}

// key returns the key of the last row that the cursor was made from.
func (f filterHash) key(text string) ([keyLen]byte, error) {
	var key [keyLen]byte
	var c cursor
	if base64.RawURLEncoding.DecodedLen(len(text)) != len(c) {
		return key, errCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != len(c) || b[0] != cursorVersion || string(b[1:1+filterLen]) != string(f.h.Sum(nil)[:filterLen]) {
		return key, errCursor
	}
	copy(key[:], b[1+filterLen:])
	return key, nil
}
