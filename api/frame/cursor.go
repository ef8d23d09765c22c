package frame

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
)

// CursorVersion changes with the meaning of a cursor; cursors of other versions are refused.
const CursorVersion = 1

// KeyLen is the length in bytes of a row's key: an id, or a creation sequence in the last eight bytes.
const KeyLen = 16

// filterLen is how many bytes of the hash of list and filters a cursor carries. They detect mistakes, not forgery: a
// cursor grants no access.
const filterLen = 8

// RowKey is the position of a row in its list.
type RowKey [KeyLen]byte

// SeqKey returns the key of a row that is ordered by its creation sequence.
func SeqKey[T int | int64](seq T) (key RowKey) {
	binary.BigEndian.PutUint64(key[KeyLen-8:], uint64(seq))
	return key
}

// Seq returns the creation sequence in a key, 0 for the zero key.
func (k RowKey) Seq() int64 { return int64(binary.BigEndian.Uint64(k[KeyLen-8:])) }

var errCursor = errors.New("the cursor does not belong to this list and these filters")

// FilterHash hashes the list and the filters that a cursor is valid for.
type FilterHash struct{ h hash.Hash }

func newFilterHash(list string) FilterHash {
	f := FilterHash{sha256.New()}
	f.Add(list)
	return f
}

// Add hashes the values of one filter, regardless of their order.
func (f FilterHash) Add(values ...string) {
	sorted := slices.Sorted(slices.Values(values))
	for _, v := range slices.Compact(sorted) {
		f.h.Write([]byte(v))
		f.h.Write([]byte{0})
	}
	f.h.Write([]byte{1})
}

// Cursor encodes a position in a list: version, hash of list and filters, key of the last row.
func (f FilterHash) Cursor(key RowKey) string { return f.Encode(CursorVersion, key[:]) }

// key decodes a cursor into the key of the last row, or returns errCursor.
func (f FilterHash) key(text string) (RowKey, error) {
	b, err := f.Decode(text, CursorVersion, KeyLen)
	if err != nil {
		return RowKey{}, err
	}
	return RowKey(b), nil
}

// Encode encodes a position of any size; see Cursor.
func (f FilterHash) Encode(version byte, position []byte) string {
	b := append([]byte{version}, f.h.Sum(nil)[:filterLen]...)
	return base64.RawURLEncoding.EncodeToString(append(b, position...))
}

// Decode returns the position in a cursor; length is the size of the position in bytes.
func (f FilterHash) Decode(text string, version byte, length int) ([]byte, error) {
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
