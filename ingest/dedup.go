package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// Claims is the deduplication table that all nodes share. It may lose entries; then an event that arrives twice is
// delivered twice. See limit.Limiter.
type Claims interface {
	Claim(ctx context.Context, key string, event id.ID, note string) limit.Claim
	MarkStored(ctx context.Context, key string, event id.ID, note string, window time.Duration) error
	Release(ctx context.Context, key string, event id.ID)
}

const (
	// claimStaleAfter is the age at which the log is searched for the event of a pending claim. Storing rarely takes that
	// long; more likely the node failed between storing the event and marking it as stored.
	claimStaleAfter = time.Second
	// lookupTimeout limits this search.
	lookupTimeout = 2 * time.Second
	// claimWait is how long an event waits for an equal one that is being stored. Storing takes a few milliseconds,
	// and a few hundred while a broker is replaced; providers wait at least 5 s.
	claimWait = time.Second
	// maxClaimWaitBytes bounds what the waiting events of this node hold, each with its body and waitingOverhead. So at
	// most 1024 of them ask Redis some ten times a second; the others get their 503 at once.
	maxClaimWaitBytes = 32 << 20
	waitingOverhead   = 32 << 10
	// noDestination is the note of a claim whose event had no destination.
	noDestination = "no destination"
)

// claimPause is the pause between two tries to claim the key, which another node may hold.
var claimPause = wait.Backoff{First: 10 * time.Millisecond, Longest: 100 * time.Millisecond}

// pendingError is the 503 while an equal event is still being stored: a 2xx would promise that it is durable.
func pendingError() error {
	return web.ServiceUnavailable(nil, "the same event is being stored by another request; send it again")
}

// store produces an event that was not rejected. On an endpoint with deduplication the first of equal events claims
// their deduplication key. The others wait until it is stored, at most for claimWait, are stored as its duplicates,
// without destinations, and get the same response.
// One that has destinations is no duplicate of an event that had none.
//
//	claim, produce, mark as stored
//
// A crash between the steps loses nothing: a claim without an event expires after 30 s, and a pending claim whose event
// is in the log is recognised as stored once it is claimStaleAfter old.
func (g *Ingest) store(ctx context.Context, ep *config.Endpoint, p *prepared, e *event.Event,
	req verify.Request) error {
	value, ok := "", false
	// An event that is not delivered must not make a later one its duplicate.
	if p.dedup != nil && e.Reason != event.DeliveryLoop {
		value, ok = p.dedup.Of(req.Header, req.Body)
	}
	if !ok {
		return g.acceptor.Accept(ctx, e, ep)
	}
	if err := g.acceptor.assignID(e, ep); err != nil {
		return err
	}
	key, first, note := claimKey(ep, e.Verdict, value), "", ""
	if len(e.Dests) == 0 {
		note = noDestination
	}
	until, cancel := context.WithTimeout(ctx, g.claimWait)
	defer cancel()
	claim := g.claim(ctx, until, ep, key, e, note)
	if claim.State == limit.ClaimStored && claim.Note == noDestination && note == "" {
		// The first one had no destination. A provider that sends it again, now that there is one, must be heard. Once that
		// is stored it takes the first one's place, or the key would be free too early.
		first, key = key, key+"\x00"+"delivered"
		claim = g.claim(ctx, until, ep, key, e, note)
	}
	switch claim.State {
	case limit.ClaimPending:
		g.metrics.dedup.WithLabelValues("pending").Inc()
		return pendingError()
	case limit.ClaimStored:
		g.metrics.dedup.WithLabelValues("duplicate").Inc()
		e.Reason, e.DuplicateOf, e.Dests = event.Duplicate, claim.Event.Text(id.Event), nil
		return g.acceptor.Accept(ctx, e, ep)
	case limit.ClaimUnavailable:
		g.metrics.dedup.WithLabelValues("unavailable").Inc()
		return g.acceptor.Accept(ctx, e, ep)
	}
	g.metrics.dedup.WithLabelValues("new").Inc()
	err := g.acceptor.Accept(ctx, e, ep)
	switch {
	case err == nil:
		g.markStored(ctx, ep, key, e.ID, note) // if this fails, the next duplicate searches the log
		if first != "" {
			g.markStored(ctx, ep, first, e.ID, note)
		}
	case errors.Is(err, stream.ErrBufferFull):
		g.deps.Claims.Release(ctx, key, e.ID)
	}
	// After any other error the event may still become durable, so the claim stays.
	return err
}

// claim claims a key for an event. While another event holds the key and is not stored, it waits until the second
// context ends. A pending claim whose event is in the log counts as stored.
func (g *Ingest) claim(ctx, until context.Context, ep *config.Endpoint, key string, e *event.Event, note string,
) limit.Claim {
	claim := g.deps.Claims.Claim(ctx, key, e.ID, note)
	if claim.State == limit.ClaimPending && g.claimedEventInLog(ctx, ep, claim.Event) {
		claim.State = limit.ClaimStored
		g.markStored(ctx, ep, key, claim.Event, claim.Note) // if this fails, the next duplicate searches the log again
	}
	if claim.State != limit.ClaimPending {
		return claim
	}
	size := int64(waitingOverhead + len(e.Body))
	defer g.waiting.Add(-size)
	if g.waiting.Add(size) > maxClaimWaitBytes {
		return claim
	}
	for n := 0; claim.State == limit.ClaimPending && wait.For(until, claimPause.After(n)) == nil; n++ {
		// Without an answer the event is still known to be pending; storing it now would deliver both.
		if next := g.deps.Claims.Claim(ctx, key, e.ID, note); next.State != limit.ClaimUnavailable {
			claim = next
		}
	}
	return claim
}

func (g *Ingest) markStored(ctx context.Context, ep *config.Endpoint, key string, e id.ID, note string) {
	_ = g.deps.Claims.MarkStored(ctx, key, e, note, time.Duration(ep.Dedup.WindowSeconds)*time.Second)
}

// claimedEventInLog searches the log for the event of a pending claim that is older than claimStaleAfter. An event that
// is not found may still be in flight.
func (g *Ingest) claimedEventInLog(ctx context.Context, ep *config.Endpoint, claimed id.ID) bool {
	if g.deps.Now().Sub(claimed.Time()) < claimStaleAfter {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := g.deps.EventInLog(ctx, ep.Account, claimed)
	return err == nil && found
}

// claimKey returns the key that equal events share: the endpoint, the source of the deduplication value, a hash of the
// value (the sender chooses its length) and, unless the signature was verified, the verdict. So an unsigned request
// with a guessed value cannot turn the provider's event into a duplicate.
func claimKey(ep *config.Endpoint, v event.Verdict, value string) string {
	sum := sha256.Sum256([]byte(value))
	key := "dedup\x00" + ep.ID + "\x00" + ep.Dedup.Key + "\x00" + string(sum[:])
	if v != event.VerdictVerified {
		key += "\x00" + string(v)
	}
	return key
}
