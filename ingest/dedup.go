package ingest

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

const (
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
func (g *Ingest) store(ctx context.Context, ep *config.Endpoint, p *prepared, e *event.Event,
	req verify.Request) error {
	value, ok := "", false
	// An event that is not delivered must not make a later one its duplicate.
	if p.dedup != nil && e.Reason != event.DeliveryLoop {
		value, ok = p.dedup.OfReceived(req.Header, req.Body)
	}
	if !ok {
		return g.acceptor.Accept(ctx, e, ep)
	}
	if err := g.acceptor.assignID(e, ep); err != nil {
		return err
	}
	mine := &claim.Request{
		Account: ep.Account, Key: claimKey(ep, e.Verdict, value), Event: e.ID, Size: int64(waitingOverhead + len(e.Body)),
		Window: ep.DedupWindow(),
	}
	if len(e.Dests) == 0 {
		mine.Note = noDestination
	}
	until, cancel := context.WithTimeout(ctx, g.claimWait)
	defer cancel()
	held := g.claims.Begin(until, mine)
	var first *claim.Request
	if held.State == claim.Stored && held.Note == noDestination && mine.Note == "" {
		// The first one had no destination. A provider that sends it again, now that there is one, must be heard. Once that
		// is stored it takes the first one's place, or the key would be free too early.
		again := *mine
		again.Key += "\x00" + "delivered"
		first, mine = mine, &again
		held = g.claims.Begin(until, mine)
	}
	g.metrics.dedup.WithLabelValues(dedupResults[held.State]).Inc()
	switch held.State {
	case claim.Pending:
		return pendingError()
	case claim.Stored:
		if first != nil { // the node that stored it failed to do so
			first.Event = held.Event
			_ = g.claims.Finish(ctx, first, nil)
		}
		e.Reason, e.DuplicateOf, e.Dests = event.Duplicate, held.Event.Text(id.Event), nil
		return g.acceptor.Accept(ctx, e, ep)
	case claim.Unavailable, claim.Off: // a provider may never send it again: twice is better than not at all
		return g.acceptor.Accept(ctx, e, ep)
	}
	e.ID = mine.Event // that of an earlier request, if its event was not stored
	err := g.acceptor.Accept(ctx, e, ep)
	_ = g.claims.Finish(ctx, mine, err) // if this fails, the next duplicate searches the log
	if first != nil && err == nil {
		_ = g.claims.Finish(ctx, first, nil)
	}
	return err
}

// dedupResults are the results of deduplication by the state of the claim, as the metric has them.
var dedupResults = map[claim.State]string{
	claim.Unavailable: "unavailable", claim.Off: "unavailable", claim.New: "new", claim.Pending: "pending",
	claim.Stored: "duplicate",
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
