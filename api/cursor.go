package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
)

// cursorVersion changes with the meaning of a cursor; cursors of other versions are refused.
const cursorVersion = 1

// keyLen is the length in bytes of a row's key: an id, or a creation sequence in the last eight bytes.
const keyLen = 16

// filterLen is how many bytes of the hash of list and filters a cursor carries. They detect mistakes, not forgery: a
// cursor grants no access.
const filterLen = 8

// rowKey is the position of a row in its list.
type rowKey [keyLen]byte

// seqKey returns the key of a row that is ordered by its creation sequence.
func seqKey[T int | int64](seq T) (key rowKey) {
	binary.BigEndian.PutUint64(key[keyLen-8:], uint64(seq))
	return key
}

// seq returns the creation sequence in a key, 0 for the zero key.
func (k rowKey) seq() int64 { return int64(binary.BigEndian.Uint64(k[keyLen-8:])) }

var errCursor = errors.New("the cursor does not belong to this list and these filters")

// filterHash hashes the list and the filters that a cursor is valid for.
type filterHash struct{ h hash.Hash }

func newFilterHash(list string) filterHash {
	f := filterHash{sha256.New()}
	f.add(list)
	return f
}

// add hashes the values of one filter, regardless of their order.
func (f filterHash) add(values ...string) {
	sorted := slices.Sorted(slices.Values(values))
	for _, v := range slices.Compact(sorted) {
		f.h.Write([]byte(v))
		f.h.Write([]byte{0})
	}
	f.h.Write([]byte{1})
}

// cursor encodes a position in a list: version, hash of list and filters, key of the last row.
func (f filterHash) cursor(key rowKey) string { return f.encode(cursorVersion, key[:]) }

// key decodes a cursor into the key of the last row, or returns errCursor.
func (f filterHash) key(text string) (rowKey, error) {
	b, err := f.decode(text, cursorVersion, keyLen)
	if err != nil {
		return rowKey{}, err
	}
	return rowKey(b), nil
}

func (f filterHash) encode(version byte, position []byte) string {
	b := append([]byte{version}, f.h.Sum(nil)[:filterLen]...)
	return base64.RawURLEncoding.EncodeToString(append(b, position...))
}

// decode returns the position in a cursor; length is the size of the position in bytes.
func (f filterHash) decode(text string, version byte, length int) ([]byte, error) {
	length += 1 + filterLen
	if base64.RawURLEncoding.DecodedLen(len(text)) != length {
		return nil, errCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != length || b[0] != version || string(b[1:1+filterLen]) != string(f.h.Sum(nil)[:filterLen]) {
		return nil, errCursor
	}
	return b[1+filterLen:], nil
}
