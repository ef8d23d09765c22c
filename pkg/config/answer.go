package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/conflog"
)

// answers reads and changes the remembered answers.
type answers struct{ *core }

// Answer is what a request under an Idempotency-Key came to, and before that the claim of the call that is
// answering it. Its id is a hash of account, path and key.
type Answer struct {
	Meta
	BodyHash []byte `json:"body_hash"` // SHA-256 of the request's body
	// Subject is the 128 bits, a time-ordered id, from which every call under the key takes the id of what it makes:
	// of two calls that do the work only one can have done it.
	IDSeed string `json:"subject"`
	// Call names the call that has the claim: the first one, or the repeat that took over from it.
	CallID string `json:"call"`
	// Key is the id of the API key of that call; to others the secrets of its answer are not repeated.
	APIKey string `json:"key,omitempty"`
	// Until is when the call is taken for dead; zero: it has ended without an answer to keep.
	ClaimedUntil time.Time `json:"until,omitzero"`
	// Status is that of the answer; 0 while there is none.
	Status int `json:"status,omitempty"`
	// Answer is sealed, for an answer may show a secret. It is empty when it was too large to be kept.
	Answer    Sealed    `json:"answer,omitempty"`
	ExpiresAt time.Time `json:"expires"`
}

// FieldAnswer is the field of Answer.Answer.
const FieldAnswer = "answer"

// ClaimAnswer claims the key of the answer, and returns the claim or answer that stands: that of the caller when
// its Call is the caller's. spare marks one that the caller could do without: those fill no more than half of the room,
// and get ErrAnswersFull earlier.
func (c answers) ClaimAnswer(ctx context.Context, claim *Answer, spare bool) (*Answer, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	for range conflog.MaxWriteTries {
		switch held, _ := c.Answer(claim.ID); {
		case held != nil && c.now().Before(held.ExpiresAt):
			return held, nil
		case held != nil: // nobody has swept it yet
			if err := c.ForgetIfUnchanged(ctx, kindAnswer, claim.ID, held.Rev); err != nil {
				return nil, err
			}
		case spare && c.View().Bytes(kindAnswer) >= MaxAnswersBytes/2:
			return nil, ErrAnswersFull
		}
		v := *claim
		v.Account, v.CreatedAt = c.Account().ID, c.now().UTC()
		v.UpdatedAt = v.CreatedAt
		res, err := c.create(ctx, kindAnswer, &v)
		if errors.Is(err, ErrConflict) {
			continue // another call was first, and what it wrote is applied here
		}
		if err != nil {
			return nil, err
		}
		return c.value(res.Entity).(*Answer), nil
	}
	return nil, fmt.Errorf("claim %s: %w", claim.ID, ErrConflict)
}

// Answer returns what is remembered under an id, as far as this node knows.
func (c answers) Answer(id string) (*Answer, Presence) {
	return findEntity[*Answer](c.core, kindAnswer, id)
}

// ChangeAnswer changes a claim or an answer; see update. It waits for no other node: a claim there is conditional.
func (c answers) ChangeAnswer(ctx context.Context, id string, alter func(*Answer) error) (*Answer, error) {
	v, _, err := updateWithoutWait(ctx, c.core, kindAnswer, id, alter)
	return v, err
}

// ReleaseClaim gives the key of a claim free, unless the claim has changed.
func (c answers) ReleaseClaim(ctx context.Context, claim *Answer) error {
	return c.ForgetIfUnchanged(ctx, kindAnswer, claim.ID, claim.Rev)
}
