// Package claim stores one event for several equal requests, on one node or on many: the first request claims the key
// that they share, the others wait for it. Deduplication and the Idempotency-Keys of sends use it. The Idempotency-Keys
// of other requests are claimed in the configuration log, which remembers their answers.
//
// A request calls Begin, stores the event, and calls Finish. A claim whose event is in doubt, after a crash in between
// or while the log does not answer, is held for the whole window. Begin checks for a claim older than StaleAfter if
// its event is stored. If it is not after TakeOverAfter, or if the process that was storing it ended, a repeat stores
// the event under the same id. So a key never names two events, even if the record of the first request arrives late.
package claim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// State is the state of a key.
type State uint8

const (
	// Unavailable means that nothing is known, because the store does not answer. Without the claim an event may be stored
	// twice.
	Unavailable State = iota
	// New means that the caller holds the key, until it calls Finish or the claim expires.
	New
	// Pending means that another request holds the key and has not stored its event yet.
	Pending
	// Stored means that an event was stored under the key.
	Stored
	// Off means that this cluster keeps no claims.
	Off
)

// Claim is the state of a key. Event and Note belong to the request that holds it: the caller's own for New, zero for
// Unavailable and Off.
type Claim struct {
	State State
	Event id.ID
	Note  string
	// Orphaned means that the claim is pending and the process of its request ended: a repeat need not wait for it.
	Orphaned bool
}

// Kept is a claim in a Store whose event is stored.
type Kept struct {
	Hash  [sha256.Size]byte // of the key
	Event id.ID
	Note  string
	Left  time.Duration // until it expires
}

// Store holds the claims of all nodes; see limit.Limiter. It may lose claims: then an event may be stored twice.
type Store interface {
	// Claim holds the key for at most the time lasts.
	Claim(ctx context.Context, key string, event id.ID, note string, lasts time.Duration) Claim
	MarkStored(ctx context.Context, key string, event id.ID, note string, window time.Duration) error
	Release(ctx context.Context, key string, event id.ID)
}

const (
	// StaleAfter is the age of a pending claim at which Begin checks whether its event is stored. Storing rarely takes
	// that long; more likely the node failed between storing the event and marking the claim as stored.
	StaleAfter = time.Second
	// TakeOverAfter is the age of a pending claim at which a repeat may store its event: longer than any request takes to
	// store it, and shorter than the time to most senders' next attempt.
	TakeOverAfter = 30 * time.Second
	// TakeOverNote is the note of the claim of a request that stores the event of an earlier one. It ends with its
	// process.
	TakeOverNote = "take over"
	// lookupTimeout limits this check.
	lookupTimeout = 2 * time.Second
)

// Claims makes this node's claims for one purpose, such as deduplication.
type Claims struct {
	Store Store
	// IsStored reports whether an event of an account is durable. If false, the event may still be in flight. After an
	// error nothing is known.
	IsStored func(ctx context.Context, account string, event id.ID) (bool, error)
	Now      func() time.Time
	TakeOver time.Duration // instead of TakeOverAfter; 0 = that
	Pause    wait.Backoff  // between attempts to claim a key that another request holds
	Room     *wait.Room    // for the requests that wait
}

// Request is one of the requests that share a key.
type Request struct {
	Account, Key string
	Event        id.ID         // the event to store; Begin sets it to that of an earlier request which did not store it
	Note         string        // stored with the claim; at most 128 bytes
	Size         int64         // what it takes of Claims.Room while it waits, in the room's unit
	Window       time.Duration // how long the key is held after the event is stored
	// Differs reports whether the claim with this note belongs to a different request, for which Begin does not wait.
	// Nil: all requests with the key are equal.
	Differs func(note string) bool

	began time.Time // when it claimed the key
	own   id.ID     // what Event was before Begin took over an earlier one; zero: it did not
}

// takeOverKey is claimed by the request that stores the event of an earlier one. It is free again after TakeOverAfter.
func (r *Request) takeOverKey() string { return r.Key + "\x00take over\x00" }

// Try claims the key once, and does not look for the event of another request that holds it.
func (c *Claims) Try(ctx context.Context, r *Request) Claim {
	r.began = c.Now()
	return c.Store.Claim(context.WithoutCancel(ctx), r.Key, r.Event, r.Note, r.Window)
}

// Begin claims the key. While another request holds it and has not stored its event, Begin waits until ctx ends, if
// there is room.
func (c *Claims) Begin(ctx context.Context, r *Request) (held Claim) {
	// Not canceled with ctx: a client that disconnects must not look like an unavailable store.
	lasting := context.WithoutCancel(ctx)
	isSearched := false
	c.Room.Retry(ctx, r.Size, c.Pause, func() (done bool) {
		r.began = c.Now()
		next := c.Store.Claim(lasting, r.Key, r.Event, r.Note, r.Window)
		if next.State == Unavailable && held.State == Pending {
			return false // it is still known to be pending; storing this event now would deliver both
		}
		held = next
		if held.State != Pending || r.Differs != nil && r.Differs(held.Note) {
			return true
		}
		age := c.Now().Sub(held.Event.Time())
		if held.Orphaned {
			age = c.takeOverAfter()
		}
		if isSearched || age < StaleAfter {
			return false
		}
		stored, err := c.isStored(lasting, r.Account, held.Event)
		isSearched = err == nil
		switch {
		case stored && err == nil:
			held.State = Stored
			// If this fails, the next request looks for the event again.
			_ = c.Store.MarkStored(lasting, r.Key, held.Event, held.Note, r.Window)
		case err == nil && age >= c.takeOverAfter() && c.takesOver(lasting, r):
			held.State, held.Note, held.Orphaned = New, r.Note, false
			r.own, r.Event = r.Event, held.Event
		}
		return held.State != Pending
	})
	return held
}

// takesOver reports whether the caller may store the event of an earlier request: one caller at a time.
func (c *Claims) takesOver(ctx context.Context, r *Request) bool {
	return c.Store.Claim(ctx, r.takeOverKey(), r.Event, TakeOverNote, c.takeOverAfter()).State == New
}

func (c *Claims) takeOverAfter() time.Duration { return cmp.Or(c.TakeOver, TakeOverAfter) }

func (c *Claims) isStored(ctx context.Context, account string, event id.ID) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return c.IsStored(ctx, account, event)
}

// Finish ends a New claim; storeErr is the result of storing its event. Finish marks the claim as stored, or releases
// the key if the event was certainly not stored. After any other error the event may still become durable, so the claim
// stays; so does that of a caller that was paused for so long that another one may be storing the event. If Finish
// returns an error, the next request looks for the event.
func (c *Claims) Finish(ctx context.Context, r *Request, storeErr error) error {
	ctx = context.WithoutCancel(ctx)
	switch {
	case storeErr == nil:
		return c.Store.MarkStored(ctx, r.Key, r.Event, r.Note, r.Window)
	case !errors.Is(storeErr, stream.ErrNotStored) && !errors.Is(storeErr, id.ErrClock):
	case !r.own.IsZero(): // the event of the earlier request stays in doubt
		c.Store.Release(ctx, r.takeOverKey(), r.own)
	case c.Now().Sub(r.began) < c.takeOverAfter()/2: // nobody takes over
		c.Store.Release(ctx, r.Key, r.Event)
	}
	return nil
}
