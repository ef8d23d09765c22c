package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
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

// rowKey is the key of a row.
type rowKey [keyLen]byte

// seqKey is that of a row which is ordered by a creation sequence.
func seqKey[T int | int64](seq T) (key rowKey) {
	binary.BigEndian.PutUint64(key[keyLen-8:], uint64(seq))
	return key
}

// seq is the sequence in a key, 0 when there is none.
func (k rowKey) seq() int64 { return int64(binary.BigEndian.Uint64(k[keyLen-8:])) }

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

// cursor is a place in a list: {version, hash of list and filters, key of the last row}.
func (f filterHash) cursor(key rowKey) string { return f.encode(cursorVersion, key[:]) }

// key returns the key of the last row that the cursor was made from.
func (f filterHash) key(text string) (rowKey, error) {
	b, err := f.decode(text, cursorVersion, keyLen)
	if err != nil {
		return rowKey{}, err
	}
	return rowKey(b), nil
}

func (f filterHash) encode(version byte, place []byte) string {
	b := append([]byte{version}, f.h.Sum(nil)[:filterLen]...)
	return base64.RawURLEncoding.EncodeToString(append(b, place...))
}

// decode returns the place in a cursor of that version; it has a fixed length.
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
