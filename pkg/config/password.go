package config

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"
)

// Length of a password in bytes. The maximum bounds the work of hashing.
const (
	MinPassword = 12
	MaxPassword = 1000
)

// Bounds of hashing on one node. Anybody who can reach the sign-in page can ask for a hash.
const (
	maxHashes   = 4               // of sign-ins at once; one takes 19 MiB and about 30 ms
	maxChosen   = 1               // of people who are signed in and choose a password, besides
	maxHashWait = 3 * time.Second // for a place among them
)

// ErrSignInBusy means that this node has too many passwords to hash at the moment.
var ErrSignInBusy = errors.New("too many sign-ins at once")

// argonParams are the cost parameters and lengths of an argon2id hash.
type argonParams struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
	salt    int // bytes
	hash    int // bytes
}

// defaultArgon is what new passwords are hashed with, the minimum for argon2id in the OWASP Password Storage Cheat
// Sheet.
var defaultArgon = argonParams{memory: 19 << 10, passes: 2, threads: 1, salt: 16, hash: 32}

// passwordHash is a parsed hash in PHC string format, such as $argon2id$v=19$m=19456,t=2,p=1$salt$hash.
type passwordHash struct {
	params    argonParams
	salt, sum []byte
}

// String returns the hash in PHC string format.
func (h passwordHash) String() string {
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.params.memory, h.params.passes,
		h.params.threads, text(h.salt), text(h.sum))
}

// parseHash parses a hash in PHC string format. It refuses parameters that would take more than 256 MiB or about two
// seconds.
func parseHash(text string) (h passwordHash, err error) {
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
		return passwordHash{}, errors.New("the password hash is not in the form that was written")
	}
	return h, errors.Join(requireRange("memory of the password hash", int(p.memory), 8*int(p.threads), 256<<10),
		requireRange("passes of the password hash", int(p.passes), 1, 16),
		requireRange("threads of the password hash", int(p.threads), 1, 16),
		requireRange("salt of the password hash", p.salt, 8, 64), requireRange("length of the password hash", p.hash, 16, 64))
}

// passwords hashes passwords, a bounded number at once. Whoever is signed in has a place that sign-ins cannot take: a
// flood of them leaves the way in by a link and a new password.
type passwords struct {
	signIns, chosen hashSlots
	// sum computes argon2id; tests replace it.
	sum func(password, salt []byte, passes, memory uint32, threads uint8, length uint32) []byte
}

func newPasswords() *passwords {
	return &passwords{signIns: make(hashSlots, maxHashes), chosen: make(hashSlots, maxChosen), sum: argon2.IDKey}
}

// hashSlots has one element for each running hash; its capacity is how many may run.
type hashSlots chan struct{}

// do runs a function with a place among the running hashes. It returns ErrSignInBusy when none gets free before ctx
// ends, or within maxHashWait.
func (s hashSlots) do(ctx context.Context, hash func()) error {
	ctx, cancel := context.WithTimeout(ctx, maxHashWait)
	defer cancel()
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		hash()
		return nil
	case <-ctx.Done():
		return ErrSignInBusy
	}
}

func (p *passwords) compute(h passwordHash, password string) []byte {
	return p.sum([]byte(password), h.salt, h.params.passes, h.params.memory, h.params.threads, uint32(h.params.hash))
}

func (p *passwords) hash(password string) string {
	h := passwordHash{params: defaultArgon, salt: randomBytes(defaultArgon.salt)}
	h.sum = p.compute(h, password)
	return h.String()
}

// matches reports whether text is the hash of a password. For an empty text, or one that parseHash refuses, it computes
// a hash all the same: the time that it takes does not tell which users exist or have a password.
func (p *passwords) matches(text, password string) bool {
	h, err := parseHash(text)
	if err != nil {
		h = passwordHash{params: defaultArgon, salt: make([]byte, defaultArgon.salt), sum: nil}
	}
	return subtle.ConstantTimeCompare(p.compute(h, password), h.sum) == 1
}
