package config

// endpoints has the methods for endpoints.
type endpoints struct{ *core }

// keys has the methods for API keys.
type keys struct{ *core }

// Presence is what this node knows about an id.
type Presence uint8

// Values of Presence.
const (
	Unknown Presence = iota // never created, as far as this node has read the log
	Present
	Deleted // for 60 days, less when there are over 200,000 tombstones; then Unknown
)

// Account returns the account; nil before Ready.
func (c *core) Account() *Account {
	if e := c.View().Newest(kindAccount); e != nil {
		return c.value(e).(*Account)
	}
	return nil
}

// Endpoint returns the endpoint with that id; nil unless it is Present.
func (c endpoints) Endpoint(id string) (*Endpoint, Presence) {
	return findEntity[*Endpoint](c.core, kindEndpoint, id)
}

// Endpoints returns at most limit endpoints of an account, newest first: those created before the one with beforeSeq (0
// = from the newest). more reports whether there are more.
func (c endpoints) Endpoints(account string, beforeSeq int64, limit int) (page []*Endpoint, more bool) {
	for e := range c.View().NewestFirst(kindEndpoint, beforeSeq) {
		ep := c.endpoint(e)
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

// Keys returns the API keys of an account, newest first, revoked and expired keys included.
func (c keys) Keys(account string) []*Key {
	var keys []*Key
	for e := range c.View().NewestFirst(kindKey, 0) {
		if k := c.key(e); k.Account == account {
			keys = append(keys, k)
		}
	}
	return keys
}

// Authenticate returns the API key with that text. It returns ErrInvalidKey when the key is unknown, revoked, expired,
// or a bootstrap key that this node's environment does not name. It returns ErrLease when this node cannot authenticate
// anybody now. It does not check the form of the text.
func (c keys) Authenticate(text string) (*Key, error) {
	// Check the lease before loading the view: so the view has everything that the lease covers.
	if _, ok := c.Lease(); !ok {
		return nil, ErrLease
	}
	hash := hashOf(text)
	e := c.View().FindByHash(kindKey, hash)
	if e == nil {
		return nil, ErrInvalidKey
	}
	k := c.key(e)
	if !k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && !c.Now().Before(k.ExpiresAt) {
		return nil, ErrInvalidKey
	}
	if !k.Bootstrap {
		return k, nil
	}
	scope, named := c.bootstrapScopes[hash]
	if !named {
		return nil, ErrInvalidKey
	}
	if scope == k.Scope {
		return k, nil
	}
	as := *k // the scope in the environment wins, even if it named the key with the other scope before
	as.Scope = scope
	return &as, nil
}
