package config

import "math"

// Presence says whether an id is known.
type Presence uint8

// Presences.
const (
	Unknown Presence = iota // never heard of, as far as this node has read the log
	Present
	Deleted // for 60 days at least; afterwards Unknown
)

// Account returns the account; nil before Ready.
func (c *Control) Account() *Account {
	if e := c.view.Load().sets[kindAccount].newest(); e != nil {
		return c.codec.account(e)
	}
	return nil
}

// Endpoint returns the endpoint with that id; nil unless it is Present.
func (c *Control) Endpoint(id string) (*Endpoint, Presence) {
	e := c.view.Load().sets[kindEndpoint].find(id)
	switch {
	case e == nil:
		return nil, Unknown
	case e.packed == nil:
		return nil, Deleted
	default:
		return c.codec.endpoint(e), Present
	}
}

// Endpoints returns at most limit endpoints of an account that were created before the one with
// beforeSeq (0 = from the newest), the newest first, and whether there are more.
func (c *Control) Endpoints(account string, beforeSeq int64, limit int) (page []*Endpoint, more bool) {
	before := uint64(beforeSeq)
	if beforeSeq <= 0 {
		before = math.MaxUint64
	}
	for e := range c.view.Load().sets[kindEndpoint].bySeq.below(before) {
		ep := c.codec.endpoint(e)
		if ep.Account != account {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, ep)
	}
	return page, false
}

// Keys returns the keys of an account, revoked and expired ones too, the newest first.
func (c *Control) Keys(account string) []*Key {
	var keys []*Key
	for e := range c.view.Load().sets[kindKey].bySeq.below(math.MaxUint64) {
		if k := c.codec.key(e); k.Account == account {
			keys = append(keys, k)
		}
	}
	return keys
}

// Authenticate returns the key with that text. ErrInvalidKey means that it is unknown, revoked,
// expired, or a bootstrap key that the environment of this node does not name; ErrLease that nobody can
// be authenticated now. The form of the text is not judged.
func (c *Control) Authenticate(text string) (*Key, error) {
	// The lease is asked before the view is taken: what it vouches for is then in the view.
	if _, ok := c.Lease(); !ok {
		return nil, ErrLease
	}
	hash := hashOf(text)
	e := c.view.Load().sets[kindKey].hashed(hash)
	if e == nil {
		return nil, ErrInvalidKey
	}
	k := c.codec.key(e)
	if !k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && !c.Now().Before(k.ExpiresAt) {
		return nil, ErrInvalidKey
	}
	if !k.Bootstrap {
		return k, nil
	}
	scope, named := c.bootstrap[hash]
	if !named {
		return nil, ErrInvalidKey
	}
	if scope == k.Scope {
		return k, nil
	}
	as := *k // the environment decides, also when it once named the same text for the other scope
	as.Scope = scope
	return &as, nil
}
