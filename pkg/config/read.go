package config

import "context"

// endpoints has the methods for endpoints.
type endpoints struct{ *core }

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

// HasHadEndpoints reports whether there is an endpoint, or was one in the last 60 days. False before Ready.
func (c endpoints) HasHadEndpoints() bool {
	v := c.View()
	return v.Len(kindEndpoint)+v.Tombstones(kindEndpoint) > 0
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

// EndpointsWhere returns the endpoints for which match is true, as Endpoints does. It may read all of them, and ends
// with ctx.
func (c endpoints) EndpointsWhere(ctx context.Context, account string, beforeSeq int64, limit int,
	match func(*Endpoint) bool) (page []*Endpoint, more bool, err error) {
	for e := range c.View().NewestFirst(kindEndpoint, beforeSeq) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		ep := c.peek(e).(*Endpoint)
		if ep.Account != account || !match(ep) {
			continue
		}
		if len(page) == limit {
			return page, true, nil
		}
		page = append(page, ep)
	}
	return page, false, nil
}
