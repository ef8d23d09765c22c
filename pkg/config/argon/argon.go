// Package argon hashes passwords with argon2id, a bounded number at once, and reads and writes the hashes as text.
package argon

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/eventrelay/relay/pkg/config/require"
)

// Bounds of hashing on one node. Anybody who can reach the sign-in page can ask for a hash.
const (
	maxHashes   = 4               // of sign-ins at once; one takes 19 MiB and about 30 ms
	maxChosen   = 1               // of people who are signed in and choose a password, besides
	maxHashWait = 3 * time.Second // for a place among them
)

// ErrBusy means that this node has too many passwords to hash at the moment.
var ErrBusy = errors.New("too many sign-ins at once")

// params are the cost parameters and lengths of an argon2id hash.
type params struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
	salt    int // bytes
	hash    int // bytes
}

// defaults is what new passwords are hashed with, the minimum for argon2id in the OWASP Password Storage Cheat
// Sheet.
var defaults = params{memory: 19 << 10, passes: 2, threads: 1, salt: 16, hash: 32}

// Hash is a parsed hash in PHC string format, such as $argon2id$v=19$m=19456,t=2,p=1$salt$hash.
type Hash struct {
	params    params
	salt, sum []byte
}

// String returns the hash in PHC string format.
func (h Hash) String() string {
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.params.memory, h.params.passes,
		h.params.threads, text(h.salt), text(h.sum))
}

// Parse parses a hash in PHC string format. It refuses parameters that would take more than 256 MiB or about two
// seconds.
func Parse(text string) (h Hash, err error) {
	parts := strings.Split(text, "$")
	var version int
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return h, errors.New("the password hash is none of argon2id")
	}
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return h, fmt.Errorf("the password hash has not version %d of argon2id", argon2.Version)
	}
	p := &h.params
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.passes, &p.threads); err != nil {
		return h, errors.New("the password hash has no parameters")
	}
	h.salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	if err == nil {
		h.sum, err = base64.RawStdEncoding.DecodeString(parts[5])
	}
	p.salt, p.hash = len(h.salt), len(h.sum)
	if err != nil || h.String() != text {
		return Hash{}, errors.New("the password hash is not in the form that was written")
	}
	return h, errors.Join(require.Range("memory of the password hash", int(p.memory), 8*int(p.threads), 256<<10),
		require.Range("passes of the password hash", int(p.passes), 1, 16),
		require.Range("threads of the password hash", int(p.threads), 1, 16),
		require.Range("salt of the password hash", p.salt, 8, 64),
		require.Range("length of the password hash", p.hash, 16, 64))
}

// Hasher hashes passwords, a bounded number at once. Whoever is signed in has a place that sign-ins cannot take: a
// flood of them leaves the way in by a link and a new password.
type Hasher struct {
	SignIns, Chosen hashSlots
	// sum computes argon2id; tests replace it.
	Sum func(password, salt []byte, passes, memory uint32, threads uint8, length uint32) []byte
}

// NewHasher returns a Hasher with argon2id.
func NewHasher() *Hasher {
	return &Hasher{SignIns: make(hashSlots, maxHashes), Chosen: make(hashSlots, maxChosen), Sum: argon2.IDKey}
}

// hashSlots has one element for each running hash; its capacity is how many may run.
type hashSlots chan struct{}

// Do runs a function with a place among the running hashes. It returns ErrBusy when none gets free before ctx
// ends, or within maxHashWait.
func (s hashSlots) Do(ctx context.Context, hash func()) error {
	ctx, cancel := context.WithTimeout(ctx, maxHashWait)
	defer cancel()
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		hash()
		return nil
	case <-ctx.Done():
		return ErrBusy
	}
}

func (p *Hasher) compute(h Hash, password string) []byte {
	return p.Sum([]byte(password), h.salt, h.params.passes, h.params.memory, h.params.threads, uint32(h.params.hash))
}

// Hash returns the hash of a password as text, with a new salt and the default parameters.
func (p *Hasher) Hash(password string) string {
	h := Hash{params: defaults, salt: make([]byte, defaults.salt)}
	rand.Read(h.salt) // never fails: crypto/rand ends the process instead
	h.sum = p.compute(h, password)
	return h.String()
}

// Matches reports whether text is the hash of a password. For an empty text, or one that Parse refuses, it computes
// a hash all the same: the time that it takes does not tell which users exist or have a password.
func (p *Hasher) Matches(text, password string) bool {
	h, err := Parse(text)
	if err != nil {
		h = Hash{params: defaults, salt: make([]byte, defaults.salt), sum: nil}
	}
	return subtle.ConstantTimeCompare(p.compute(h, password), h.sum) == 1
}
