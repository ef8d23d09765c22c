package limit

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Distinct bounds how many different members a set may get. A set begins with its first member, lasts for span, and is
// then empty again. With Redis all nodes share the sets. Without it each node has sets of its own, which begin with the
// members that this node has admitted before. A node never admits more members to a set than its bound, whatever
// happens to Redis meanwhile.
type Distinct struct {
	limiter *Limiter
	class   string
	span    time.Duration
	most    int // members of all sets in memory; see maxDistinctMembers

	mu      sync.Mutex // guards what follows
	sets    map[windowKey]*distinctSet
	members int // of all sets
	sweptAt time.Duration
}

// distinctSet is one set in memory.
type distinctSet struct {
	began   time.Duration // since Limiter.startedAt
	members map[memberHash]struct{}
}

// memberHash is the first half of the SHA-256 of a member.
type memberHash [16]byte

const (
	// maxDistinctMembers bounds the members of all sets of a Distinct in memory, some 50 bytes each. While there are as
	// many, a set gets new members only up to minDistinctMembers: so no set uses up the room of all others. The caller
	// bounds the number of sets.
	maxDistinctMembers = 1 << 18
	minDistinctMembers = 16
)

// sweepDistinct is the time between two removals of sets that have ended.
const sweepDistinct = 10 * time.Second

// admitScript returns 1 for each member that the set holds or had room for, else 0. ARGV is the bound, the span in
// milliseconds, and the members. A set without a TTL would stay for ever, so a first member sets it in the same step.
var admitScript = redis.NewScript(`
local room = tonumber(ARGV[1]) - redis.call('SCARD', KEYS[1])
local admitted = {}
for i = 3, #ARGV do
  if redis.call('SISMEMBER', KEYS[1], ARGV[i]) == 1 then
    admitted[i - 2] = 1
  elseif room > 0 then
    redis.call('SADD', KEYS[1], ARGV[i])
    if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
    admitted[i - 2], room = 1, room - 1
  else
    admitted[i - 2] = 0
  end
end
return admitted`)

// NewDistinct returns bounded sets. class separates them from those of others.
func (l *Limiter) NewDistinct(class string, span time.Duration) *Distinct {
	return &Distinct{limiter: l, class: class, span: span, most: maxDistinctMembers, sets: map[windowKey]*distinctSet{}}
}

// Admit reports for each member whether the set of that key holds it; the set takes new members in their order while it
// has fewer than most. It takes at most Config.Timeout and never fails. A node whose own part of the set is full,
// because it admitted members while Redis was unavailable, refuses members that other nodes have admitted too.
func (d *Distinct) Admit(ctx context.Context, key string, members []string, most int) []bool {
	k := windowKey(sha256.Sum256([]byte(key)))
	hashes := make([]memberHash, len(members))
	var unknown []int // members that this node has not admitted, by index
	args := []any{most, d.span.Milliseconds()}
	for i, m := range members {
		sum := sha256.Sum256([]byte(m))
		hashes[i] = memberHash(sum[:len(hashes[i])])
		if !d.holds(k, hashes[i]) {
			unknown, args = append(unknown, i), append(args, sum[:len(hashes[i])])
		}
	}
	if len(unknown) == 0 {
		return d.admitLocal(k, hashes, most, nil)
	}
	var answers []int64
	err := d.limiter.call(ctx, "distinct", func(ctx context.Context) (err error) {
		name := "distinct:" + d.class + ":" + base64.RawURLEncoding.EncodeToString(k[:])
		answers, err = admitScript.Run(ctx, d.limiter.client, []string{name}, args...).Int64Slice()
		return err
	})
	if err != nil || len(answers) != len(unknown) {
		return d.admitLocal(k, hashes, most, nil)
	}
	shared := make(map[int]bool, len(unknown))
	for i, at := range unknown {
		shared[at] = answers[i] == 1
	}
	return d.admitLocal(k, hashes, most, shared)
}

// holds reports whether this node has admitted the member to the set.
func (d *Distinct) holds(k windowKey, member memberHash) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sets[k]
	if s == nil || d.limiter.elapsed()-s.began >= d.span {
		return false
	}
	_, ok := s.members[member]
	return ok
}

// admitLocal is Admit for this node. shared are the answers of Redis, by the index of the member; nil without Redis.
func (d *Distinct) admitLocal(k windowKey, members []memberHash, most int, shared map[int]bool) []bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.limiter.elapsed()
	d.sweepLocked(now)
	s := d.sets[k]
	if s == nil || now-s.began >= d.span {
		d.removeLocked(k)
		s = &distinctSet{began: now, members: map[memberHash]struct{}{}}
		d.sets[k] = s
	}
	admitted := make([]bool, len(members))
	for i, m := range members {
		if _, known := s.members[m]; known {
			admitted[i] = true
			continue
		}
		byAll, asked := shared[i]
		room := d.members < d.most || len(s.members) < minDistinctMembers
		if admitted[i] = room && len(s.members) < most && (byAll || !asked); admitted[i] {
			s.members[m] = struct{}{}
			d.members++
		}
	}
	if len(s.members) == 0 {
		delete(d.sets, k)
	}
	return admitted
}

// sweepLocked removes the sets that have ended, at most every sweepDistinct.
func (d *Distinct) sweepLocked(now time.Duration) {
	if now-d.sweptAt < sweepDistinct {
		return
	}
	d.sweptAt = now
	for k, s := range d.sets {
		if now-s.began >= d.span {
			d.removeLocked(k)
		}
	}
}

// removeLocked removes a set, if there is one.
func (d *Distinct) removeLocked(k windowKey) {
	if s := d.sets[k]; s != nil {
		d.members -= len(s.members)
		delete(d.sets, k)
	}
}
