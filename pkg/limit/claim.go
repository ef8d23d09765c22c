package limit

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/id"
)

// maxNoteBytes bounds the note of a claim; a SHA-256 hash fits.
const maxNoteBytes = 128

// releaseScript deletes a claim only while the caller holds it. With GET and DEL, the claim could expire in between and
// the DEL would delete another event's claim.
var releaseScript = redis.NewScript(
	`if string.sub(redis.call('GET', KEYS[1]) or '', 1, #ARGV[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) ` +
		`end return 0`)

// Claim reserves the key for an event that is about to be stored, unless another event holds it. It lasts as long as
// lasts, but at least 1 s. Call MarkStored or Release next. The note, such as the hash of a body, has at most 128
// bytes. Claim takes at most Config.ClaimTimeout. Its only failure is claim.Unavailable, after which the claim may have
// been made.
func (l *Limiter) Claim(
	ctx context.Context, key string, event id.ID, note string, lasts time.Duration,
) claim.Claim {
	if l.claims == nil {
		return claim.Claim{State: claim.Off}
	}
	var found string
	err := l.callClaims(ctx, func(ctx context.Context) error {
		var get *redis.StringCmd
		// SET with both NX and GET would be one command, but Redis has that only from version 7 on.
		_, err := l.claims.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.SetArgs(ctx, claimKey(key), claimValue("pending", event, note),
				redis.SetArgs{Mode: "NX", TTL: max(lasts, time.Second)})
			get = p.Get(ctx, claimKey(key))
			return nil
		})
		found = get.Val()
		return ignoreNil(err)
	})
	if err != nil {
		return claim.Claim{}
	}
	c := parseClaim(found)
	if c.State == claim.Pending && c.Event == event {
		c.State = claim.New // an earlier request arrived, but its answer was lost
	}
	return c
}

// MarkStored records that the event is in the log, for the length of window but at least 1 s. It replaces whatever
// claim has the key. After an error a repeated event may be stored twice.
func (l *Limiter) MarkStored(ctx context.Context, key string, event id.ID, note string, window time.Duration) error {
	err := l.callClaims(ctx, func(ctx context.Context) error {
		return l.claims.Set(ctx, claimKey(key), claimValue("stored", event, note), max(window, time.Second)).Err()
	})
	if err != nil {
		return fmt.Errorf("record the idempotency key of event %s: %w", event, err)
	}
	return nil
}

// Release deletes this event's pending claim, so that the next attempt need not wait for its expiry. It leaves stored
// keys and claims of other events alone. Best effort.
func (l *Limiter) Release(ctx context.Context, key string, event id.ID) {
	_ = l.callClaims(ctx, func(ctx context.Context) error {
		return releaseScript.Run(ctx, l.claims, []string{claimKey(key)}, "pending:"+event.String()+":").Err()
	})
}

// MoveClaims records claims of another store.
func (l *Limiter) MoveClaims(ctx context.Context, claims []claim.Kept) error {
	_, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, c := range claims {
			p.Set(ctx, hashKey(c.Hash), claimValue("stored", c.Event, c.Note), max(c.Left, time.Millisecond))
		}
		return nil
	})
	return err
}

// claimKey returns the Redis key of a claim: a SHA-256 hash, because senders' keys may be long and private.
func claimKey(key string) string { return hashKey(sha256.Sum256([]byte(key))) }

func hashKey(sum [sha256.Size]byte) string {
	return "claim:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

func claimValue(state string, event id.ID, note string) string {
	return state + ":" + event.String() + ":" + note[:min(len(note), maxNoteBytes)]
}

func parseClaim(value string) claim.Claim {
	state, event, note := split3(value)
	parsed, err := id.Parse("", event)
	switch {
	case err != nil:
		return claim.Claim{} // written by another program
	case state == "stored":
		return claim.Claim{State: claim.Stored, Event: parsed, Note: note}
	default:
		return claim.Claim{State: claim.Pending, Event: parsed, Note: note}
	}
}
