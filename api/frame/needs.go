package frame

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Keys authenticates API keys.
type Keys interface {
	Authenticate(key string) (*config.Key, error)
	// MarkUsedFromBrowser records that a browser has sent the key. It does not wait.
	MarkUsedFromBrowser(k *config.Key)
}

// KeyUses counts every request with a valid API key, for the audit log.
type KeyUses interface {
	RecordUse(account, key, name string, from netip.Addr)
}

// Refusals learns of every request with a wrong API key: it may be that of a tripwire.
type Refusals interface {
	// CheckKey does not wait, and takes as long for every key.
	CheckKey(text string, r *http.Request)
}

// EventReader reads events from the store.
type EventReader interface {
	Events(ctx context.Context, q event.Query) (event.Page, error)
	Event(ctx context.Context, account string, id id.ID) (*event.Detail, error)
	Attempts(ctx context.Context, account string, event, before id.ID, limit int) (event.AttemptPage, error)
	// Summaries returns the list rows of up to 1,000 events, by id, without those that are not stored.
	Summaries(ctx context.Context, account string, ids []id.ID) (map[id.ID]event.Summary, error)
}

// Erasures erases payloads on request.
type Erasures interface {
	// ErasePayload erases the payload of an event and returns when it was erased first. From then on no node shows
	// the payload, sends it or stores it again.
	ErasePayload(ctx context.Context, d id.ID) (time.Time, error)
	// ErasedAt returns when the payload of an event was erased, zero if it was not.
	ErasedAt(d id.ID) time.Time
}

// LimiterStore holds short-lived state that all nodes share (Redis). The state may be lost; no request fails because
// of that.
type LimiterStore interface {
	// HeldUntil returns, for those of up to 1,000 destinations that an open circuit breaker holds, until when.
	HeldUntil(ctx context.Context, dests []string) map[string]time.Time
	claim.Store // of sends with an Idempotency-Key
}

// Answers stores the claims and answers of Idempotency-Keys in the configuration log.
type Answers interface {
	// ClaimAnswer creates the claim, or returns the existing claim or answer. optional marks a claim that the call can
	// do without; it gets config.ErrAnswersFull earlier.
	ClaimAnswer(ctx context.Context, claim *config.Answer, optional bool) (*config.Answer, error)
	ChangeAnswer(ctx context.Context, id string, alter func(*config.Answer) error) (*config.Answer, error)
	ReleaseClaim(ctx context.Context, claim *config.Answer) error
}
