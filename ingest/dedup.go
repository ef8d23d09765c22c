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
	"github.com/eventrelay/relay/pkg/web"
)

// Claims is what all nodes remember together of the events of endpoints that ask for deduplication. It may
// forget, and then an event that comes twice is delivered twice; see limit.Limiter.
type Claims interface {
	Claim(ctx context.Context, key string, event id.ID, note string) limit.Claim
	MarkStored(ctx context.Context, key string, event id.ID, note string, window time.Duration) error
	Release(ctx context.Context, key string, event id.ID)
}

const (
	// claimStaleAfter is the age of a claim from which on the log is asked whether its event arrived: hardly any
	// event takes so long, unless its node has died between storing it and saying so.
	claimStaleAfter = time.Second
	// lookupTimeout bounds that question.
	lookupTimeout = 2 * time.Second
)

// pendingError is the answer while an equal event is on its way into the log: nobody knows yet whether it will
// arrive, and a 2xx would promise that.
func pendingError() error {
	return web.ServiceUnavailable(nil, "the same event is being stored by another request; send it again")
}

// store puts a verified event into the log. On an endpoint that asks for deduplication the first of equal
// events claims the value that they share, and the others are stored as its duplicates: with nothing to deliver
// to, and answered like any other.
//
//	claim, produce, say that it is stored
//
// Ending between the steps loses nothing: a claim without an event runs out after 30 s, and one whose event is
// in the log is found to be so as soon as it is a second old.
func (g *Ingest) store(ctx context.Context, ep *config.Endpoint, p *prepared, e *event.Event,
	req verify.Request) error {
	value, ok := "", false
	if p.dedup != nil && e.Reason != event.DeliveryLoop { // what is not delivered claims nothing
		value, ok = p.dedup.Of(req.Header, req.Body)
	}
	if !ok {
		return g.acceptor.Accept(ctx, e, ep)
	}
	if err := g.acceptor.assignID(e, ep); err != nil {
		return err
	}
	key, window := claimKey(ep, e.Verdict, value), time.Duration(ep.Dedup.WindowSeconds)*time.Second
	claim := g.deps.Claims.Claim(ctx, key, e.ID, "")
	if claim.State == limit.ClaimPending && g.claimedEventInLog(ctx, ep, claim.Event) {
		claim.State = limit.ClaimStored
		_ = g.deps.Claims.MarkStored(ctx, key, claim.Event, "", window) // what it forgets, the log tells again
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
		_ = g.deps.Claims.MarkStored(ctx, key, e.ID, "", window) // as above
	case errors.Is(err, stream.ErrBufferFull):
		g.deps.Claims.Release(ctx, key, e.ID)
	}
	// After any other error the event may yet arrive, so that its claim has to stand.
	return err
}

// arrived asks the log about the event of a claim that is older than it should be. An event that is not found
// may still be on its way.
func (g *Ingest) claimedEventInLog(ctx context.Context, ep *config.Endpoint, claimed id.ID) bool {
	if g.deps.Now().Sub(claimed.Time()) < claimStaleAfter {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := g.deps.EventInLog(ctx, ep.Account, claimed)
	return err == nil && found
}

// claimKey names what equal events share: the endpoint, where it looks, a hash of what stands there, which is as long
// as the sender likes, and unless it is good the verdict of the signature. So whoever guesses a value and posts it
// without a good signature does not make the provider's event a duplicate.
func claimKey(ep *config.Endpoint, v event.Verdict, value string) string {
	sum := sha256.Sum256([]byte(value))
	key := "dedup\x00" + ep.ID + "\x00" + ep.Dedup.Key + "\x00" + string(sum[:])
	if v != event.VerdictVerified {
		key += "\x00" + string(v)
	}
	return key
}
