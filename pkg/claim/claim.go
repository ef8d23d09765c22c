// Package claim stores an event once although several equal requests bring it, to one node or to several: the first
// claims the key that they share, the others wait for it. Deduplication and the Idempotency-Keys of sends use it; the
// Idempotency-Keys of other requests are claimed in the configuration log, which remembers their answers.
//
//	Begin, store the event, Finish
//
// A crash between the steps loses nothing: a claim without an event expires, and one whose event is durable is found
// out once it is StaleAfter old.
package claim

import (
	"context"
	"errors"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// State is the state of a key.
type State uint8

const (
	// Unavailable means that nothing is known, because the store does not answer. Continue without the claim.
	Unavailable State = iota
	// New means that the caller holds the key, until it ends the claim or the store forgets it.
	New
	// Pending means that another request holds the key and has not stored its event yet.
	Pending
	// Stored means that an event was stored under the key.
	Stored
)

// Claim is the state of a key. Event and Note belong to the request that holds it: the caller's own for New, zero for
// Unavailable.
type Claim struct {
	State State
	Event id.ID
	Note  string
}

// Store holds the claims of all nodes; see limit.Limiter. It may lose claims: then an event may be stored twice.
type Store interface {
	Claim(ctx context.Context, key string, event id.ID, note string) Claim
	MarkStored(ctx context.Context, key string, event id.ID, note string, window time.Duration) error
	Release(ctx context.Context, key string, event id.ID)
}

const (
	// StaleAfter is the age of a pending claim at which its event is looked for. Storing rarely takes that long; more
	// likely the node failed between storing the event and saying so.
	StaleAfter = time.Second
	// lookupTimeout limits this search.
	lookupTimeout = 2 * time.Second
)

// Claims are those that this node makes for one purpose.
type Claims struct {
	Store Store
	// IsStored reports whether an event of an account is durable. One that it does not find may still be in flight.
	IsStored func(ctx context.Context, account string, event id.ID) bool
	Now      func() time.Time
	Pause    wait.Backoff // between two tries to claim a key that another request holds
	Room     *wait.Room   // for the requests that wait
}

// Request is one of the requests that share a key.
type Request struct {
	Account, Key string
	Event        id.ID         // what this request would store
	Note         string        // is kept with the claim; at most 128 bytes
	Size         int64         // how much of the room it takes while it waits
	Window       time.Duration // how long the key of a stored event is held
	// Differs reports whether the request that holds the key, known by its note, is another one than this. Begin does not
	// wait for such a request. Nil: it never is.
	Differs func(note string) bool
}

// Begin claims the key. While another request holds it and has not stored its event, Begin waits until ctx ends, if
// there is room.
func (c *Claims) Begin(ctx context.Context, r *Request) (held Claim) {
	// Without the end of ctx: a client that leaves must not look like a store that fails.
	lasting := context.WithoutCancel(ctx)
	isSearched := false
	c.Room.Retry(ctx, r.Size, c.Pause, func() (done bool) {
		next := c.Store.Claim(lasting, r.Key, r.Event, r.Note)
		if next.State == Unavailable && held.State == Pending {
			return false // it is still known to be pending; storing this event now would deliver both
		}
		held = next
		if held.State != Pending || r.Differs != nil && r.Differs(held.Note) {
			return true
		}
		if isSearched || c.Now().Sub(held.Event.Time()) < StaleAfter {
			return false
		}
		isSearched = true
		if c.isStored(lasting, r.Account, held.Event) {
			held.State = Stored
			// If this fails, the next request looks for the event again.
			_ = c.Store.MarkStored(lasting, r.Key, held.Event, held.Note, r.Window)
		}
		return held.State == Stored
	})
	return held
}

func (c *Claims) isStored(ctx context.Context, account string, event id.ID) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return c.IsStored(ctx, account, event)
}

// Finish ends a claim that is New by the error of storing its event: it records that the event is stored, or releases
// the key of one that certainly is not. After any other error the event may still become durable, so the claim stays
// until it expires. The error says that a later request may store its event a second time.
func (c *Claims) Finish(ctx context.Context, r *Request, stored error) error {
	ctx = context.WithoutCancel(ctx)
	switch {
	case stored == nil:
		return c.Store.MarkStored(ctx, r.Key, r.Event, r.Note, r.Window)
	case errors.Is(stored, stream.ErrBufferFull), errors.Is(stored, id.ErrClock):
		c.Store.Release(ctx, r.Key, r.Event)
	}
	return nil
}
