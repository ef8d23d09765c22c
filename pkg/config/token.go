package config

import (
	"time"

	"github.com/eventrelay/relay/pkg/conflog"
)

// FormerToken is the ingest token before the last rotation. It finds the endpoint beside the present one until Until.
type FormerToken struct {
	Hash      []byte    `json:"hash"`
	Token     Sealed    `json:"token"`
	Until     time.Time `json:"until"`
	RotatedBy string    `json:"by,omitempty"` // see Endpoint.TokenRotatedBy
}

// RotateToken gives an endpoint another token, for the use in UpdateEndpoint. The present one goes on until the given
// time, zero for not at all; one from before it ends at once. by is the Answer.Subject of the call, if it has one.
func (e *Endpoint) RotateToken(token Sealed, by string, until time.Time) {
	e.FormerToken = nil
	if !until.IsZero() {
		e.FormerToken = &FormerToken{Hash: e.TokenHash, Token: e.Token, Until: until, RotatedBy: e.TokenRotatedBy}
	}
	e.Token, e.TokenRotatedBy = token, by
}

// EndpointByToken returns the endpoint with that ingest token, or nil when there is none. It looks for
// the token's SHA-256 and compares the whole of it in constant time.
func (c endpoints) EndpointByToken(token string) *Endpoint {
	hash := hashOf(token)
	e := c.View().FindByHash(kindEndpoint, hash)
	if e == nil {
		return nil
	}
	ep := c.endpoint(e)
	if e.Hash != hash && !c.Now().Before(ep.FormerToken.Until) {
		return nil
	}
	return ep
}

// formerTokenHash is a second hash by which a value is found; nil for none.
func formerTokenHash(v value) *[conflog.HashLen]byte {
	e, ok := v.(*Endpoint)
	if !ok || e.FormerToken == nil || len(e.FormerToken.Hash) != conflog.HashLen {
		return nil
	}
	return (*[conflog.HashLen]byte)(e.FormerToken.Hash)
}
