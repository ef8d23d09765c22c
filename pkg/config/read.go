package config

// endpoints reads and changes the endpoints.
type endpoints struct{ *core }

// keys reads and changes the API keys.
type keys struct{ *core }

// Presence says whether an id is known.
type Presence uint8

// Presences.
const (
	Unknown Presence = iota // never heard of, as far as this node has read the log
	Present
	Deleted // for 60 days at least; afterwards Unknown
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

// Endpoints returns at most limit endpoints of an account that were created before the one with
// beforeSeq (0 = from the newest), the newest first, and whether there are more.
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

// Keys returns the keys of an account, revoked and expired ones too, the newest first.
func (c keys) Keys(account string) []*Key {
	var keys []*Key
	for e := range c.View().NewestFirst(kindKey, 0) {
		if k := c.key(e); k.Account == account {
			keys = append(keys, k)
		}
	}
	return keys
}

// Authenticate returns the key with that text. ErrInvalidKey means that it is unknown, revoked,
// expired, or a bootstrap key that the environment of this node does not name; ErrLease that nobody can
// be authenticated now. The form of the text is not judged.
func (c keys) Authenticate(text string) (*Key, error) {
	// The lease is asked before the view is taken: what it vouches for is then in the view.
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
	as := *k // the environment decides, also when it once named the same text for the other scope
	as.Scope = scope
	return &as, nil
}
