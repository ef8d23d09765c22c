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

// ErrCursor means that a text is not a cursor of this endpoint.
var ErrCursor = errors.New("not a cursor of this endpoint")

const (
	// cursorVersion changes with the meaning of a cursor; cursors of other versions are refused.
	cursorVersion = 1
	// endpointLen is how many bytes of the hash of its endpoint a cursor carries, to detect mistakes.
	endpointLen = 6
	// maxCursor bounds the text of a cursor. An endpoint's events are in one partition, and in a few more after
	// moves.
	maxCursor = 2048
)

// Cursor is a position in the events of an endpoint: the next offset in each partition that holds them.
type Cursor struct {
	// At is a lower bound of the times at which the events after the cursor were accepted.
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

// ParseCursor decodes a cursor that Encode made for this endpoint, or returns ErrCursor.
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

// uvarint removes a number of at most limit from the front of b.
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
