package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/conflog"
)

// Answer is the remembered answer to a request with an Idempotency-Key. Before there is an answer it is the claim of
// the call that is working on it. Its id is a hash of account, path and key.
type Answer struct {
	entity.Meta
	BodyHash []byte `json:"body_hash"` // SHA-256 of the request's body
	// IDSeed is a time-ordered 128-bit id. All calls with the key derive the ids of what they create from it, so that
	// of two calls only one can create it.
	IDSeed string `json:"subject"`
	// CallID identifies the call that has the claim: the first one, or a repeat that took the claim over.
	CallID string `json:"call"`
	// APIKey is the id of that call's API key. Secrets in the answer are repeated only to this key.
	APIKey string `json:"key,omitempty"`
	// ClaimedUntil is when the claim expires and a repeat may take it over; zero: the call has ended without an answer
	// to keep.
	ClaimedUntil time.Time `json:"until,omitzero"`
	// Status is the HTTP status of the answer; 0 while there is none.
	Status int `json:"status,omitempty"`
	// Answer is sealed, because an answer may contain a secret. It is empty when the answer was too large.
	Answer    seal.Secret `json:"answer,omitempty"`
	ExpiresAt time.Time   `json:"expires"`
}

func (a *Answer) EachSealed(f func(entity, field string, s *seal.Secret)) {
	f(a.ID, FieldAnswer, &a.Answer)
}

// OnlyRestricts: the call has ended, without its answer.
func (a *Answer) OnlyRestricts(next entity.Value) bool { return next.(*Answer).Answer == "" }
func (a *Answer) EndsAt(*entity.Core) time.Time        { return a.ExpiresAt }

// FieldAnswer is the field under which Answer.Answer is sealed.
const FieldAnswer = "answer"

// ClaimAnswer claims the key of an answer and returns the existing claim or answer. The claim is the caller's if it has
// the caller's CallID. optional marks a claim that the caller can do without: it returns ErrAnswersFull when the
// answers already fill half of MaxAnswersBytes.
func (c requests) ClaimAnswer(ctx context.Context, claim *Answer, optional bool) (*Answer, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	for range conflog.MaxWriteTries {
		switch held, _ := c.Answer(claim.ID); {
		case held != nil && c.Clock().Before(held.ExpiresAt):
			return held, nil
		case held != nil: // expired, but not removed yet
			if err := c.ForgetIfUnchanged(ctx, entity.KindAnswer, claim.ID, held.Rev); err != nil {
				return nil, err
			}
		case optional && c.View().Bytes(entity.KindAnswer) >= MaxAnswersBytes/2:
			return nil, ErrAnswersFull
		}
		created, _, err := entity.CreateUnawaited(ctx, c.Core, claim)
		if errors.Is(err, ErrConflict) {
			continue // another call was first, and this node has applied its record
		}
		return created, err
	}
	return nil, fmt.Errorf("claim %s: %w", claim.ID, ErrConflict)
}

// Answer returns the claim or answer with that id, as far as this node knows.
func (c requests) Answer(id string) (*Answer, entity.Presence) {
	return entity.Get[Answer](c, id)
}

// ChangeAnswer changes a claim or an answer; see Update. It does not wait for other nodes: claims are conditional
// records.
func (c requests) ChangeAnswer(ctx context.Context, id string, alter func(*Answer) error) (*Answer, error) {
	v, _, err := entity.UpdateUnawaited(ctx, c.Core, id, alter)
	return v, err
}

// ReleaseClaim removes a claim, unless it has changed since.
func (c requests) ReleaseClaim(ctx context.Context, claim *Answer) error {
	return c.ForgetIfUnchanged(ctx, entity.KindAnswer, claim.ID, claim.Rev)
}
