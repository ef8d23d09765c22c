// Package id makes and parses the identifiers of the service: a prefix plus 26 characters of
// lower-case Crockford base32 over 128 bits.
//
// Two kinds exist. Time-ordered ids (events, attempts, runs, jobs) carry the millisecond they were
// made in and the partition they belong to, so that an id alone says where and when to look. All
// others are random. Delivery ids are derived: the same event and destination give the same id on
// every node.
//
// Guarantee: ids of one Generator are strictly increasing, whatever the wall clock does.
package id

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Prefixes of the identifiers that the service makes.
const (
	Endpoint    = "ep_"
	Destination = "dst_"
	Event       = "evt_"
	Delivery    = "dlv_"
	Attempt     = "att_"
	Run         = "run_"
	Recovery    = "rec_"
	Item        = "ritem_"
	Receipt     = "rcpt_"
	User        = "usr_"
	Key         = "key_"
	Account     = "acc_"
)

// ID is the 128-bit value behind the printed form. A time-ordered one is, big-endian: 48 bits of unix
// milliseconds, 12 bits of partition, 12 bits of sequence, 56 random bits.
type ID [16]byte

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// textLen is ceil(128/5); the first character holds 3 bits only.
const textLen = 26

// ErrMalformed is returned for a text that is no id of the wanted kind.
var ErrMalformed = errors.New("malformed id")

// String returns the 26 characters without a prefix.
func (d ID) String() string { return string(d.Append(nil)) }

// Text returns the id with its prefix, e.g. Text(id.Event).
func (d ID) Text(prefix string) string {
	return string(d.Append(append(make([]byte, 0, len(prefix)+textLen), prefix...)))
}

// Append appends the 26 characters to dst.
func (d ID) Append(dst []byte) []byte {
	hi, lo := binary.BigEndian.Uint64(d[:8]), binary.BigEndian.Uint64(d[8:])
	var out [textLen]byte
	for i := textLen - 1; i >= 0; i-- {
		out[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return append(dst, out[:]...)
}

// Time is the millisecond a time-ordered id was made in.
func (d ID) Time() time.Time { return time.UnixMilli(d.UnixMilli()).UTC() }

// UnixMilli is Time as unix milliseconds.
func (d ID) UnixMilli() int64 { return int64(binary.BigEndian.Uint64(d[:8]) >> 16) }

// Partition is the partition a time-ordered id belongs to (0–4095).
func (d ID) Partition() int32 { return int32(binary.BigEndian.Uint16(d[6:8]) >> 4) }

// IsZero reports whether the id was never set.
func (d ID) IsZero() bool { return d == ID{} }

// Parse reads prefix plus 26 characters. One value has exactly one spelling: upper case, the
// look-alikes I, L, O and values beyond 128 bits are refused.
func Parse(prefix, s string) (ID, error) {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) != textLen {
		return ID{}, fmt.Errorf("%w: want %s and %d characters", ErrMalformed, prefix, textLen)
	}
	var hi, lo uint64
	for i := range textLen {
		v := strings.IndexByte(alphabet, rest[i])
		if v < 0 || (i == 0 && v > 7) {
			return ID{}, fmt.Errorf("%w: character %d", ErrMalformed, len(prefix)+i+1)
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	var d ID
	binary.BigEndian.PutUint64(d[:8], hi)
	binary.BigEndian.PutUint64(d[8:], lo)
	return d, nil
}

// Random returns prefix plus 128 random bits.
func Random(prefix string) string {
	var d ID
	rand.Read(d[:]) // never fails: crypto/rand ends the process instead
	return d.Text(prefix)
}

// DeliveryOf derives the id of the delivery of one event to one destination.
func DeliveryOf(event ID, destination string) string {
	sum := sha256.Sum256(append(append(make([]byte, 0, 64), event[:]...), destination...))
	return ID(sum[:16]).Text(Delivery)
}

// ItemOf derives the id of an item of a recovery job from its number.
func ItemOf(job string, seq int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", job, seq))
	return ID(sum[:16]).Text(Item)
}

// Lowest is the smallest time-ordered id of the millisecond t: a bound for reads by time.
func Lowest(t time.Time) ID {
	ms := max(t.UnixMilli(), 0)
	var d ID
	binary.BigEndian.PutUint64(d[:8], uint64(ms)<<16)
	return d
}
