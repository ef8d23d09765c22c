package config

import "github.com/eventrelay/relay/pkg/config/entity"

// Endpoint returns the endpoint with that id; nil unless it is Present.
func (c endpoints) Endpoint(id string) (*Endpoint, entity.Presence) {
	return entity.Get[Endpoint](c, id)
}

// HasHadEndpoints reports whether there is an endpoint, or was one in the last 60 days. False before Ready.
func (c endpoints) HasHadEndpoints() bool {
	v := c.View()
	return v.Len(entity.KindEndpoint)+v.Tombstones(entity.KindEndpoint) > 0
}

// EndpointsWithInbound returns the enabled endpoints that read events from a source or from their provider.
func (c endpoints) EndpointsWithInbound() []*Endpoint {
	found, _ := c.EndpointsWhere(c.Account().ID, 0, 2*MaxSources, func(e *Endpoint) (yes, stop bool) {
		return e.HasInbound() && e.Enabled, false
	})
	return found
}

// EndpointsChanged returns a channel that is closed when an endpoint is created, changed or deleted after the call.
func (c endpoints) EndpointsChanged() <-chan struct{} { return c.Changed(entity.KindEndpoint) }

// Endpoints returns at most limit endpoints of an account, newest first: those created before the one with beforeSeq (0
// = from the newest). more reports whether there are more.
func (c endpoints) Endpoints(account string, beforeSeq int64, limit int) (page []*Endpoint, more bool) {
	return c.EndpointsWhere(account, beforeSeq, limit, func(*Endpoint) (yes, stop bool) { return true, false })
}

// EndpointsWhere is Endpoints for the endpoints that match. If match says stop, it returns what it has found so far,
// and more is false although more may match.
func (c endpoints) EndpointsWhere(account string, beforeSeq int64, limit int,
	match func(*Endpoint) (yes, stop bool)) (page []*Endpoint, more bool) {
	for e := range c.View().NewestFirst(entity.KindEndpoint, beforeSeq) {
		ep := c.Peek(e).(*Endpoint)
		if ep.Account != account {
			continue
		}
		yes, stop := match(ep)
		if stop {
			break
		}
		if !yes {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		page = append(page, ep)
	}
	return page, false
}
