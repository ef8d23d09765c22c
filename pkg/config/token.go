package config

import (
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
)

// FormerToken is the ingest token before the last rotation. It is accepted, together with the current one, until Until.
type FormerToken struct {
	Hash      []byte      `json:"hash"`
	Token     seal.Secret `json:"token"`
	Until     time.Time   `json:"until"`
	RotatedBy string      `json:"by,omitempty"` // see Endpoint.TokenRotatedBy
}

// RotateToken sets another token. Call it in the change function of UpdateEndpoint. The current token stays valid until
// the given time, zero for not at all; an earlier former token ends at once. by is Answer.IDSeed of the call, if it has
// an Idempotency-Key.
func (e *Endpoint) RotateToken(token seal.Secret, by string, until time.Time) {
	e.FormerToken = nil
	if !until.IsZero() {
		e.FormerToken = &FormerToken{Hash: e.TokenHash, Token: e.Token, Until: until, RotatedBy: e.TokenRotatedBy}
	}
	e.Token, e.TokenRotatedBy = token, by
}

// EndpointByToken returns the endpoint with that ingest token, or nil. A former token counts until FormerToken.Until.
// It finds the endpoint by the SHA-256 of the token and compares the whole hash in constant time.
func (c endpoints) EndpointByToken(token string) *Endpoint {
	hash := entity.HashOf(token)
	e := c.View().FindByHash(entity.KindEndpoint, hash)
	if e == nil {
		return nil
	}
	ep := c.endpoint(e)
	if e.Hash != hash && !c.Now().Before(ep.FormerToken.Until) {
		return nil
	}
	return ep
}

func (e *Endpoint) FormerHash() []byte {
	if e.FormerToken == nil {
		return nil
	}
	return e.FormerToken.Hash
}
