package imports

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/verify"
)

// convoy reads a project of Convoy: sources, endpoints, subscriptions, and event types. See
// docs/start/move-from-convoy.md.
type convoy struct {
	project   string
	signature convoySignature
	retries   convoyRetries
	sources   map[string]*endpoint // by uid
	groups    map[string]*endpoint // of owners and of endpoints without an owner
	endpoints map[string]convoyEndpoint
	used      map[string]bool // endpoints with a subscription
}

type convoySignature struct {
	Header   string
	Versions []struct{ Hash, Encoding string }
}

type convoyRetries struct {
	Type     string
	Duration float64 // seconds
	Count    int     `json:"retry_count"`
}

type convoyEndpoint struct {
	UID, Name, URL, Status, Description string
	Owner                               string `json:"owner_id"`
	Secrets                             []struct {
		Value   string
		Expires *string `json:"expires_at"`
	}
	Advanced       bool    `json:"advanced_signatures"`
	Timeout        float64 `json:"http_timeout"`
	Rate           float64 `json:"rate_limit"`
	RateSeconds    float64 `json:"rate_limit_duration"`
	Slack          string  `json:"slack_webhook_url"`
	Email          string  `json:"support_email"`
	ClientCert     any     `json:"mtls_client_cert"`
	ContentType    string  `json:"content_type"`
	Authentication *struct {
		Type   string
		APIKey struct {
			Name  string `json:"header_name"`
			Value string `json:"header_value"`
		} `json:"api_key"`
		Basic struct{ Username, Password string } `json:"basic_auth"`
	}
}

type convoySubscription struct {
	UID, Name, Type, Function string
	Endpoint                  *struct{ UID string }              `json:"endpoint_metadata"`
	Source                    *struct{ UID string }              `json:"source_metadata"`
	Retry                     *convoyRetries                     `json:"retry_config"`
	Rate                      *struct{ Count, Duration float64 } `json:"rate_limit_config"`
	Filter                    struct {
		Types  []string `json:"event_types"`
		Filter convoyFilter
	} `json:"filter_config"`
}

// convoyFilter is the filter of a subscription, or of one of its event types.
type convoyFilter struct {
	Type                       string  `json:"event_type"`
	Enabled                    *string `json:"enabled_at"`
	Headers, Body, Query, Path map[string]any
}

const (
	convoySource = "source"
	convoyDest   = "endpoint"
	convoySub    = "subscription"
	convoyType   = "event type"
)

func (c *convoy) list(path string) list {
	return list{path: "/api/v1/projects/" + url.PathEscape(c.project) + path, id: "uid", cursor: "next_page_cursor",
		query: url.Values{"perPage": {"100"}, "direction": {"next"}},
		split: func(raw json.RawMessage) ([]json.RawMessage, string, error) {
			var page struct {
				Data struct {
					Content    []json.RawMessage
					Pagination struct {
						More bool   `json:"has_next_page"`
						Next string `json:"next_page_cursor"`
					}
				}
			}
			err := json.Unmarshal(raw, &page)
			if !page.Data.Pagination.More { // the last page has a cursor too
				page.Data.Pagination.Next = ""
			}
			return page.Data.Content, page.Data.Pagination.Next, err
		}}
}

func (c convoy) read(ctx context.Context, s *source, p *plan) error {
	c.sources, c.groups, c.endpoints = map[string]*endpoint{}, map[string]*endpoint{}, map[string]convoyEndpoint{}
	c.used = map[string]bool{}
	var project struct {
		Data struct {
			Config struct {
				Signature convoySignature
				Strategy  convoyRetries
			}
		}
	}
	if err := s.get(ctx, c.list("").path, nil, 1, &project); err != nil {
		return err
	}
	c.signature, c.retries = project.Data.Config.Signature, project.Data.Config.Strategy
	var types struct {
		Data []struct {
			Name, Description, Category string
			Deprecated                  *string `json:"deprecated_at"`
		}
	}
	if err := s.getIfThere(ctx, c.list("/event-types").path, nil, &types); err != nil {
		return err
	}
	for _, t := range types.Data {
		if t.Name != "*" {
			p.addType(convoyType, eventType{t.Name, t.Description, t.Category, t.Deprecated != nil, nil})
		}
	}
	if err := s.each(ctx, c.list("/sources"), func(raw json.RawMessage) error { return c.source(p, raw) }); err != nil {
		return err
	}
	var order []string
	err := s.each(ctx, c.list("/endpoints"), func(raw json.RawMessage) error {
		var from convoyEndpoint
		err := decode(raw, &from)
		p.count(convoyDest).Read++
		c.endpoints[from.UID], order = from, append(order, from.UID)
		return err
	})
	if err == nil {
		err = s.each(ctx, c.list("/subscriptions"), func(raw json.RawMessage) error {
			return c.subscription(ctx, s, p, raw)
		})
	}
	for _, uid := range order {
		if c.used[uid] {
			p.count(convoyDest).Written++
		} else {
			p.list(convoyDest, uid, "%s has no subscription that is written, so that it gets no events", c.endpoints[uid].Name)
		}
	}
	return err
}

// source writes a source as an endpoint with its verification.
func (c *convoy) source(p *plan, raw json.RawMessage) error {
	var from struct {
		UID, Name, Type, Provider string
		Disabled                  bool `json:"is_disabled"`
		Verifier                  struct {
			Type string
			HMAC struct{ Header, Hash, Secret, Encoding string }
		}
	}
	if err := decode(raw, &from); err != nil {
		return err
	}
	p.count(convoySource).Read++
	if from.Type != "http" {
		p.list(convoySource, from.UID, "%s of the type %s: the relay reads other sources in its own way", from.Name, from.Type)
		return nil
	}
	e := p.add(&endpoint{Name: from.Name}, from.UID)
	if from.Disabled {
		e.Enabled = off
	}
	switch hmac := from.Verifier.HMAC; {
	case from.Provider != "" && slices.Contains(verify.Providers(), from.Provider) && hmac.Secret != "":
		e.Provider = from.Provider
		e.Verification = map[string]any{"type": from.Provider, "secret": p.secret(from.UID, "secret", hmac.Secret)}
	case from.Verifier.Type == "hmac" && hmac.Secret != "":
		e.Provider = verify.HMAC
		e.Verification = map[string]any{"type": verify.HMAC, "header": hmac.Header, "algorithm": strings.ToLower(hmac.Hash),
			"encoding": hmac.Encoding, "secret": p.secret(from.UID, "secret", hmac.Secret)}
	case from.Verifier.Type != "" && from.Verifier.Type != "noop":
		e.Enabled = off
		e.note("verifier %s: it has no counterpart, or its secret is not given: disabled until you have set verification",
			from.Verifier.Type)
	}
	c.sources[from.UID] = e
	p.count(convoySource).Written++
	return nil
}

// subscription writes a subscription with its endpoint as a destination.
func (c *convoy) subscription(ctx context.Context, s *source, p *plan, raw json.RawMessage) error {
	var from convoySubscription
	if err := decode(raw, &from); err != nil {
		return err
	}
	p.count(convoySub).Read++
	if from.Type == "cli" || from.Endpoint == nil {
		p.list(convoySub, from.UID, "%s has no endpoint; relay listen takes the place of convoy listen", from.Name)
		return nil
	}
	to, known := c.endpoints[from.Endpoint.UID]
	if !known {
		p.list(convoySub, from.UID, "its endpoint %s is not in the list of endpoints", from.Endpoint.UID)
		return nil
	}
	var filters struct{ Data []convoyFilter }
	at := c.list("/subscriptions/" + url.PathEscape(from.UID) + "/filters").path
	if err := s.getIfThere(ctx, at, nil, &filters); err != nil {
		return err
	}
	e, received := c.endpointOf(p, from, to)
	d := c.destination(p, from, to)
	if received {
		d.Format = ""
	}
	types := from.Filter.Types
	if slices.Contains(types, "*") {
		types = nil
	}
	if pattern, ok := convoyPattern(append(filters.Data, from.Filter.Filter), received); ok {
		d.match(types, pattern)
	} else {
		d.match(types, nil)
		d.disable("its filters ask for a path, or for elements of arrays")
	}
	if from.Function != "" {
		d.disable("its function in JavaScript: write it as operations")
	}
	before := p.count(convoySub).Written
	p.place(e, d, convoySub, from.UID)
	c.used[to.UID] = c.used[to.UID] || p.count(convoySub).Written > before
	return nil
}

// endpointOf returns the endpoint of a subscription: that of its source, of the owner of its endpoint, who becomes a
// tenant, or one of its own.
func (c *convoy) endpointOf(p *plan, from convoySubscription, to convoyEndpoint) (e *endpoint, received bool) {
	if from.Source != nil && c.sources[from.Source.UID] != nil {
		return c.sources[from.Source.UID], true
	}
	group := cmp.Or(to.Owner, to.UID)
	if c.groups[group] == nil {
		if to.Owner != "" {
			c.groups[group] = p.tenant(to.Owner, "", nil)
		} else {
			c.groups[group] = p.add(&endpoint{Name: to.Name}, to.UID)
		}
	}
	return c.groups[group], false
}

func (c *convoy) destination(p *plan, from convoySubscription, to convoyEndpoint) *destination {
	d := &destination{Name: cmp.Or(from.Name, to.Name), URL: to.URL, Format: c.formatOf(),
		TimeoutSeconds: int(min(max(to.Timeout, 0), maxTimeout))}
	switch to.Status {
	case "paused":
		d.Paused = true
	case "inactive", "pending":
		d.Enabled = off
	}
	d.Signing = c.signingOf(p, d, to)
	d.limit(to.Rate, to.RateSeconds)
	if from.Rate != nil {
		d.limit(from.Rate.Count, from.Rate.Duration)
	}
	retries := c.retries
	if from.Retry != nil && from.Retry.Type != "" {
		retries = *from.Retry
	}
	if retries.Type != "" {
		d.retry(retries.Type, retries.Count, retries.Duration)
	}
	switch auth := to.Authentication; {
	case auth == nil || auth.Type == "":
	case auth.Type == "api_key" && auth.APIKey.Value != "":
		p.header(d, to.UID, auth.APIKey.Name, auth.APIKey.Value)
	case auth.Type == "basic_auth" && auth.Basic.Password != "":
		d.Auth = map[string]any{"type": "basic", "username": auth.Basic.Username,
			"password": p.secret(to.UID, "password", auth.Basic.Password)}
	default:
		d.disable("authentication %s: set auth of the destination", auth.Type)
	}
	if to.ClientCert != nil {
		d.disable("mtls_client_cert: set auth of the type mtls")
	}
	if to.ContentType != "" && to.ContentType != "application/json" {
		d.disable("content type %s: the relay sends JSON", to.ContentType)
	}
	for name, text := range map[string]string{"slack_webhook_url": to.Slack, "support_email": to.Email} {
		if text != "" {
			d.note("%s: alerts belong to the account, or to the portal", name)
		}
	}
	slices.Sort(d.notes)
	return d
}

// formatOf returns the body that a receiver of Convoy knows: the data of the event alone.
func (c *convoy) formatOf() string { return "raw" }

// signingOf returns the signature that a receiver of Convoy verifies: a simple one of the body, or an advanced one with
// the time, which has a part for each version.
func (c *convoy) signingOf(p *plan, d *destination, to convoyEndpoint) map[string]any {
	secret := ""
	for _, x := range to.Secrets {
		if x.Expires != nil && *x.Expires != "" {
			d.note("a secret that ends at %s: move when it has ended", *x.Expires)
		} else {
			secret = x.Value
		}
	}
	versions := c.signature.Versions
	if secret == "" || len(versions) == 0 {
		d.disable("the API does not give its signing secret, or the project has no version of signatures")
		return nil
	}
	t := template{header: cmp.Or(c.signature.Header, "X-Convoy-Signature"), content: "{body}", value: "{signature}"}
	version := versions[len(versions)-1]
	if to.Advanced {
		version = versions[0]
		t.content, t.value = "{timestamp},{body}", "t={timestamp},v1={signature}"
		if len(versions) > 1 {
			d.note("%d versions of advanced signatures: only v1 is sent", len(versions))
		}
	}
	t.algorithm, t.encoding = strings.ToLower(version.Hash), version.Encoding
	t.secret = p.secret(to.UID, "secret", secret)
	return map[string]any{"schemes": []any{t.scheme()}}
}

// convoyPattern returns the pattern of filters: each counts for its event type, that of * for all types without one.
// ok is false if one of them has no counterpart.
func convoyPattern(all []convoyFilter, received bool) (_ map[string]any, ok bool) {
	var alternatives []any
	var types []any
	var rest map[string]any
	ok = true
	for _, f := range all {
		pattern := map[string]any{}
		for name, part := range map[string]map[string]any{"body": f.Body, "headers": f.Headers, "query": f.Query,
			"path": f.Path} {
			nested := map[string]any{}
			switch {
			case len(part) == 0:
			case !nest(nested, part) || name == "path":
				ok = false
			case name == "body" && !received:
				pattern[name] = map[string]any{"data": nested}
			default:
				pattern[name] = nested
			}
		}
		switch {
		case len(pattern) == 0:
		case f.Type == "" || f.Type == "*":
			rest = pattern
		default:
			types = append(types, f.Type)
			pattern["type"] = f.Type
			alternatives = append(alternatives, pattern)
		}
	}
	if len(alternatives) == 0 {
		return rest, ok
	}
	others := map[string]any{"type": map[string]any{"$nin": types}}
	for name, part := range rest {
		others[name] = part
	}
	return map[string]any{"$or": append(alternatives, others)}, ok
}

// nest adds the members of a filter to an object, in which a.b is the member b of the member a. It returns false if a
// path leads through an array.
func nest(to, from map[string]any) bool {
	for name, value := range from {
		at, parts := to, strings.Split(name, ".")
		below, isObject := value.(map[string]any)
		if !isObject {
			name, parts = parts[len(parts)-1], parts[:len(parts)-1]
		}
		for _, part := range parts {
			next, _ := at[part].(map[string]any)
			if next == nil {
				next = map[string]any{}
				at[part] = next
			}
			at = next
		}
		switch {
		case slices.Contains(parts, "$"), isObject && !nest(at, below):
			return false
		case !isObject:
			at[name] = value
		}
	}
	return true
}
