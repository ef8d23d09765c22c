// Package id makes and parses the service's ids: a prefix and 128 bits as 26 characters of lower-case Crockford base32.
//
// Three kinds exist:
//   - Time-ordered ids (events, attempts, replay runs, recovery jobs) contain the millisecond they were made in and the
//     partition they belong to, so that a read by id needs to search one partition around one time only.
//   - Derived ids (deliveries, items of recovery jobs) are hashes: the same input gives the same id on every node.
//   - All others are random.
//
// The ids of one Generator are strictly increasing, whatever the wall clock does. An id has exactly one spelling.
// Start reading at ID and Generator.New.
package id

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Prefixes of ids. Packages that make other ids, such as req_ for requests, have the prefixes of those themselves.
const (
	Endpoint      = "ep_"
	Destination   = "dst_"
	Event         = "evt_"
	Delivery      = "dlv_"
	Attempt       = "att_"
	Run           = "run_"
	Recovery      = "rec_"
	Item          = "ritem_"
	Receipt       = "rcpt_"
	User          = "usr_"
	Key           = "key_"
	Account       = "acc_"
	Drain         = "drn_"
	Domain        = "dom_"
	Scan          = "scn_"
	DSN           = "dsn_"
	Fixture       = "fix_"
	Tenant        = "ten_"
	PortalSession = "pls_"
	Act           = "act_"
	Tripwire      = "trw_"
)

// ID is the 128-bit value of an id, without its prefix. The layout of a time-ordered id, big-endian: 48 bits of unix
// milliseconds, 12 bits of partition, 12 bits of sequence, 56 random bits.
type ID [16]byte

// alphabet is Crockford base32 in lower case: without i, l, o and u. Its order is that of ASCII, so texts sort as ids
// do.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// textLen is ceil(128/5): the first character holds 3 bits, each of the other 25 holds 5.
const textLen = 26

// ErrMalformed is what every error of Parse wraps: the text is not an id with the expected prefix.
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

// Time returns the millisecond of a time-ordered id, in UTC. It may be ahead of the clock: up to MaxAhead for an id
// from New, any time for one from NewUnbounded.
func (d ID) Time() time.Time { return time.UnixMilli(d.UnixMilli()).UTC() }

// UnixMilli returns Time as unix milliseconds.
func (d ID) UnixMilli() int64 { return int64(binary.BigEndian.Uint64(d[:8]) >> 16) }

// Partition returns the partition that a time-ordered id belongs to (0–4095).
func (d ID) Partition() int32 { return int32(binary.BigEndian.Uint16(d[6:8]) >> 4) }

// Compare orders ids as their texts: -1 if d comes before other, 0 if they are equal, 1 otherwise. Time-ordered ids are
// in the order of their times.
func (d ID) Compare(other ID) int { return bytes.Compare(d[:], other[:]) }

// NewestFirst compares two time-ordered ids for a sort that puts the newest first.
func NewestFirst(a, b ID) int { return b.Compare(a) }

// IsZero reports whether d is the zero ID.
func (d ID) IsZero() bool { return d == ID{} }

// Parse parses prefix and 26 characters. It accepts the spelling that Text writes only: it refuses upper case, the
// characters i, l, o and u, and values of more than 128 bits. Its errors wrap ErrMalformed.
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

// Random returns prefix and 128 random bits as 26 characters.
func Random(prefix string) string {
	var d ID
	rand.Read(d[:]) // never fails: crypto/rand ends the process instead
	return d.Text(prefix)
}

// DeliveryOf returns the id of the delivery of an event to a destination: a hash of both, the same on every node.
func DeliveryOf(event ID, destination string) string {
	sum := sha256.Sum256(append(append(make([]byte, 0, 64), event[:]...), destination...))
	return ID(sum[:16]).Text(Delivery)
}

// ItemOf returns the id of item number seq of a recovery job: a hash of both.
func ItemOf(job string, seq int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", job, seq))
	return ID(sum[:16]).Text(Item)
}

// AlertOf returns the public id of the alert with a name in the configuration: a hash of it.
func AlertOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return ID(sum[:16]).Text("alrt_")
}

// Lowest returns a lower bound of the time-ordered ids of the millisecond of t and later, for reads by time. A time
// before 1970 counts as 1970.
func Lowest(t time.Time) ID {
	ms := max(t.UnixMilli(), 0)
	var d ID
	binary.BigEndian.PutUint64(d[:8], uint64(ms)<<16)
	return d
}
