package feed

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"time"
)

// ErrCursor means that a text is no cursor of this endpoint.
var ErrCursor = errors.New("not a cursor of this endpoint")

const (
	// cursorVersion changes when a cursor's meaning does.
	cursorVersion = 1
	// endpointLen is how much of the hash of its endpoint a cursor carries, against mistakes.
	endpointLen = 6
	// maxCursor bounds its text. An endpoint is in one partition, and in a few more after moves.
	maxCursor = 2048
)

// Cursor is a place in the events of an endpoint: the offset to go on from in each partition that they are in.
type Cursor struct {
	// At is a time from which on whatever comes after the cursor was accepted.
	At   time.Time
	Next map[int32]int64
}

// Encode returns the cursor as text.
func (c Cursor) Encode(endpoint string) string {
	b := append(make([]byte, 0, 32), cursorVersion)
	b = append(b, endpointHash(endpoint)...)
	b = binary.AppendUvarint(b, uint64(max(c.At.UnixMilli(), 0)))
	for _, p := range slices.Sorted(maps.Keys(c.Next)) {
		b = binary.AppendUvarint(b, uint64(p))
		b = binary.AppendUvarint(b, uint64(c.Next[p]))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads what Encode has made for this endpoint.
func ParseCursor(endpoint, text string) (Cursor, error) {
	if len(text) > maxCursor {
		return Cursor{}, ErrCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+endpointLen || b[0] != cursorVersion ||
		string(b[1:1+endpointLen]) != string(endpointHash(endpoint)) {
		return Cursor{}, ErrCursor
	}
	b = b[1+endpointLen:]
	at, ok := uvarint(&b, math.MaxInt64/1000)
	c := Cursor{At: time.UnixMilli(at).UTC(), Next: make(map[int32]int64)}
	for ok && len(b) > 0 {
		var p, next int64
		if p, ok = uvarint(&b, math.MaxUint16); !ok {
			break
		}
		if next, ok = uvarint(&b, math.MaxInt64); ok {
			c.Next[int32(p)] = next
		}
	}
	if !ok || len(c.Next) == 0 {
		return Cursor{}, ErrCursor
	}
	return c, nil
}

// uvarint takes a number of at most limit from b.
func uvarint(b *[]byte, limit uint64) (int64, bool) {
	v, n := binary.Uvarint(*b)
	if n <= 0 || v > limit {
		return 0, false
	}
	*b = (*b)[n:]
	return int64(v), true
}

func endpointHash(endpoint string) []byte {
	sum := sha256.Sum256([]byte(endpoint))
	return sum[:endpointLen]
}
