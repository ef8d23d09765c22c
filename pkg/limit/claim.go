package limit

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventrelay/relay/pkg/id"
)

// pendingTTL is how long a claim holds whose owner says no more: longer than a request may take to
// produce, short enough for the sender's next attempt.
const pendingTTL = 30 * time.Second

// maxNoteBytes bounds what is kept beside an event; a hash fits.
const maxNoteBytes = 128

// ClaimState is what a claim has found.
type ClaimState uint8

const (
	// ClaimUnavailable says that Redis is away, nothing is known. Go on without.
	ClaimUnavailable ClaimState = iota
	// ClaimNew says that the key is the caller's for 30 s; end with Stored or Release.
	ClaimNew
	// ClaimPending says that another event has the key and is not stored yet.
	ClaimPending
	// ClaimStored says that an event was stored under the key.
	ClaimStored
)

// Claim is the answer to a claim. Event and Note are those of the event that has the key: the caller's own
// when it is new, zero when nothing is known.
type Claim struct {
	State ClaimState
	Event id.ID
	Note  string
}

// releaseScript deletes a claim only while it is the caller's: between a look and a DEL of ours it could
// run out and become another's.
var releaseScript = redis.NewScript(
	`if string.sub(redis.call('GET', KEYS[1]) or '', 1, #ARGV[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) ` +
		`end return 0`)

// Claim takes the key for an event that is about to be stored, unless another has it: the first of two
// steps, of which Stored is the second. The note (128 bytes at most, the hash of a body) is kept beside it.
// At most 50 ms; it fails only with ClaimUnavailable.
func (l *Limiter) Claim(ctx context.Context, key string, event id.ID, note string) Claim {
	var found string
	err := l.call(ctx, "claim", func(ctx context.Context) error {
		var err error
		found, err = l.client.SetArgs(ctx, claimKey(key), claimValue("pending", event, note),
			redis.SetArgs{Mode: "NX", Get: true, TTL: pendingTTL}).Result()
		return ignoreNil(err)
	})
	if err != nil {
		return Claim{}
	}
	if found == "" {
		return Claim{State: ClaimNew, Event: event, Note: note}
	}
	c := parseClaim(found)
	if c.State == ClaimPending && c.Event == event {
		c.State = ClaimNew // an earlier exchange arrived although its answer did not
	}
	return c
}

// MarkStored says that the event is in the log, and keeps the key for the window, whoever claimed it last. An
// error means a possible duplicate.
func (l *Limiter) MarkStored(ctx context.Context, key string, event id.ID, note string, window time.Duration) error {
	err := l.call(ctx, "claim", func(ctx context.Context) error {
		return l.client.Set(ctx, claimKey(key), claimValue("stored", event, note), max(window, time.Second)).Err()
	})
	if err != nil {
		return fmt.Errorf("keep the key of event %s: %w", event, err)
	}
	return nil
}

// Release gives a pending claim of this event back, so that the next attempt need not wait until it runs
// out. What is another's, or stored, stays. Best effort.
func (l *Limiter) Release(ctx context.Context, key string, event id.ID) {
	_ = l.call(ctx, "claim", func(ctx context.Context) error {
		return releaseScript.Run(ctx, l.client, []string{claimKey(key)}, "pending:"+event.String()+":").Err()
	})
}

// claimKey is a hash: keys are made of what senders send, which may be long and is nobody else's business.
func claimKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "claim:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func claimValue(state string, event id.ID, note string) string {
	return state + ":" + event.String() + ":" + note[:min(len(note), maxNoteBytes)]
}

func parseClaim(value string) Claim {
	state, event, note := split3(value)
	parsed, err := id.Parse("", event)
	switch {
	case err != nil:
		return Claim{} // not ours; it runs out or is deleted by whoever put it there
	case state == "stored":
		return Claim{State: ClaimStored, Event: parsed, Note: note}
	default:
		return Claim{State: ClaimPending, Event: parsed, Note: note}
	}
}
