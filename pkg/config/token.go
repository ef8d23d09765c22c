package config

import (
	"crypto/subtle"
	"time"
)

// FormerToken is the ingest token before the last rotation. It finds the endpoint beside the present one until Until.
type FormerToken struct {
	Hash  []byte    `json:"hash"`
	Token Sealed    `json:"token"`
	Until time.Time `json:"until"`
	By    string    `json:"by,omitempty"` // see Endpoint.TokenBy
}

// RotateToken gives an endpoint another token, for the use in UpdateEndpoint. The present one goes on until the given
// time, zero for not at all; one from before it ends at once. by is the Answer.Subject of the call, if it has one.
func (e *Endpoint) RotateToken(token Sealed, by string, until time.Time) {
	e.FormerToken = nil
	if !until.IsZero() {
		e.FormerToken = &FormerToken{Hash: e.TokenHash, Token: e.Token, Until: until, By: e.TokenBy}
	}
	e.Token, e.TokenBy = token, by
}

// EndpointByToken returns the endpoint with that ingest token, or nil when there is none. It looks for
// the token's SHA-256 and compares the whole of it in constant time.
func (c *Control) EndpointByToken(token string) *Endpoint {
	hash := hashOf(token)
	e := c.view.Load().sets[kindEndpoint].hashed(hash)
	if e == nil {
		return nil
	}
	ep := c.codec.endpoint(e)
	if e.hash != hash && !c.Now().Before(ep.FormerToken.Until) {
		return nil
	}
	return ep
}

// formerHash is a second hash by which a value is found; nil for none.
func formerHash(v value) *[hashLen]byte {
	e, ok := v.(*Endpoint)
	if !ok || e.FormerToken == nil || len(e.FormerToken.Hash) != hashLen {
		return nil
	}
	return (*[hashLen]byte)(e.FormerToken.Hash)
}

// hashesOf are those by which an entity with these secrets is found.
func hashesOf(hash [hashLen]byte, former *[hashLen]byte) (all [][hashLen]byte) {
	if hash != [hashLen]byte{} {
		all = append(all, hash)
	}
	if former != nil {
		all = append(all, *former)
	}
	return all
}

// addHashes lets an entity be found by its secrets.
func (s *set) addHashes(e *entity) {
	for _, h := range hashesOf(e.hash, e.former) {
		s.byHash = s.byHash.put(prefix64(h), e)
	}
}

// removeHashes is the reverse of addHashes.
func (s *set) removeHashes(e *entity) {
	for _, h := range hashesOf(e.hash, e.former) {
		s.byHash = s.byHash.remove(prefix64(h))
	}
}

// hashed returns the living entity whose secret has that hash, or nil. What the trie found by the first
// bytes is compared in constant time.
func (s *set) hashed(h [hashLen]byte) *entity {
	e, ok := s.byHash.get(prefix64(h))
	switch {
	case !ok:
		return nil
	case subtle.ConstantTimeCompare(e.hash[:], h[:]) == 1,
		e.former != nil && subtle.ConstantTimeCompare(e.former[:], h[:]) == 1:
		return e
	}
	return nil
}
