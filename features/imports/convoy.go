package imports

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/verify"
)

// convoy reads a project of Convoy: sources, endpoints, subscriptions, and event types. See
// docs/start/move-from-convoy.md.
type convoy struct {
	project   string
	config    doc                  // of the project
	sources   map[string]*endpoint // by uid
	groups    map[string]*endpoint // of owners, and of endpoints without an owner
	endpoints map[string]doc
	used      map[string]bool // endpoints with a subscription that is written
}

// list is a list of the project. The last page has a cursor too.
func (c convoy) list(path string) list {
	return list{path: "/api/v1/projects/" + url.PathEscape(c.project) + path, id: "uid", items: "data.content",
		query: url.Values{"perPage": {"100"}, "direction": {"next"}}, cursor: "next_page_cursor",
		next: "data.pagination.next_page_cursor", more: "data.pagination.has_next_page"}
}

func (c convoy) read(ctx context.Context, s *source, p *plan) error {
	c.sources, c.groups, c.endpoints = map[string]*endpoint{}, map[string]*endpoint{}, map[string]doc{}
	c.used = map[string]bool{}
	var project, types doc
	if err := s.get(ctx, c.list("").path, nil, 1, &project); err != nil {
		return err
	}
	if err := s.getIfThere(ctx, c.list("/event-types").path, nil, &types); err != nil {
		return err
	}
	c.config = project.doc("data.config")
	for _, t := range types.list("data") {
		if name := t.text("name"); name != "*" {
			p.addType("event type", eventType{name: name, description: t.text("description"), group: t.text("category"),
				deprecated: t.at("deprecated_at") != nil})
		}
	}
	var order []string
	err := s.each(ctx, c.list("/sources"), func(from doc) error {
		c.source(p, from)
		return nil
	})
	if err == nil {
		err = s.each(ctx, c.list("/endpoints"), func(from doc) error {
			p.count("endpoint").Read++
			c.endpoints[from.text("uid")], order = from, append(order, from.text("uid"))
			return nil
		})
	}
	if err == nil {
		err = s.each(ctx, c.list("/subscriptions"), func(from doc) error { return c.subscription(ctx, s, p, from) })
	}
	for _, uid := range order {
		if c.used[uid] {
			p.count("endpoint").Written++
		} else {
			p.list("endpoint", uid, "%s has no subscription that is written, so that it gets no events",
				c.endpoints[uid].text("name"))
		}
	}
	return err
}

// source writes a source as an endpoint with its verification.
func (c convoy) source(p *plan, from doc) {
	id, provider, verifier := from.text("uid"), from.text("provider"), from.text("verifier.type")
	p.count("source").Read++
	if from.text("type") != "http" {
		p.list("source", id, "%s of the type %s: the relay reads other sources in its own way", from.text("name"),
			from.text("type"))
		return
	}
	e := p.add(&endpoint{Name: from.text("name"), kind: "source"}, id)
	p.count("source").Written++
	c.sources[id] = e
	if from.flag("is_disabled") {
		e.Enabled = off
	}
	hmac := from.doc("verifier.hmac")
	switch secret := hmac.text("secret"); {
	case provider != "" && slices.Contains(verify.Providers(), provider) && secret != "":
		e.verify(provider, p.secret(id, "secret", secret))
	case verifier == "hmac" && secret != "":
		e.verify(verify.HMAC, p.secret(id, "secret", secret))
		e.hmac(hmac.text("header"), strings.ToLower(hmac.text("hash")), hmac.text("encoding"))
	case verifier != "" && verifier != "noop":
		e.disable("verifier %s", verifier)
	}
}

// subscription writes a subscription with its endpoint as a destination.
func (c convoy) subscription(ctx context.Context, s *source, p *plan, from doc) error {
	const kind = "subscription"
	id, endpoint := from.text("uid"), from.text("endpoint_metadata.uid")
	to := c.endpoints[endpoint]
	p.count(kind).Read++
	switch {
	case from.text("type") == "cli" || endpoint == "":
		p.list(kind, id, "%s has no endpoint; relay listen takes the place of convoy listen", from.text("name"))
		return nil
	case to == nil:
		p.list(kind, id, "its endpoint %s is not in the list of endpoints", endpoint)
		return nil
	}
	var filters doc
	if err := s.getIfThere(ctx, c.list("/subscriptions/"+url.PathEscape(id)+"/filters").path, nil, &filters); err != nil {
		return err
	}
	e, received := c.endpointOf(p, from, to)
	d := c.destination(p, from, to)
	d.Format = c.formatOf(received)
	types := from.texts("filter_config.event_types")
	pattern, ok := convoyPattern(append(filters.list("data"), from.doc("filter_config.filter")), received)
	if !ok {
		d.disable("its filters ask for a path, or for elements of arrays")
		pattern = nil
	}
	d.match(types, pattern)
	if from.text("function") != "" {
		d.disable("its function in JavaScript: write it as operations")
	}
	before := p.count(kind).Written
	p.place(e, d, kind, id)
	c.used[endpoint] = c.used[endpoint] || p.count(kind).Written > before
	return nil
}

// endpointOf returns the endpoint of a subscription: that of its source, of the owner of its endpoint, who becomes a
// tenant, or one of its own.
func (c convoy) endpointOf(p *plan, from, to doc) (e *endpoint, received bool) {
	if e := c.sources[from.text("source_metadata.uid")]; e != nil {
		return e, true
	}
	owner := to.text("owner_id")
	group := cmp.Or(owner, to.text("uid"))
	switch {
	case c.groups[group] != nil:
	case owner != "":
		c.groups[group] = p.tenant(owner, "", nil)
	default:
		c.groups[group] = p.add(&endpoint{Name: to.text("name")}, to.text("uid"))
	}
	return c.groups[group], false
}

func (c convoy) destination(p *plan, from, to doc) *destination {
	id := to.text("uid")
	d := &destination{Name: cmp.Or(from.text("name"), to.text("name")), URL: to.text("url"),
		TimeoutSeconds: int(min(max(to.number("http_timeout"), 0), maxTimeout)), Paused: to.text("status") == "paused"}
	if status := to.text("status"); status == "inactive" || status == "pending" {
		d.Enabled = off
	}
	d.Signing = c.signingOf(p, d, to)
	d.limit(to.number("rate_limit"), to.number("rate_limit_duration"))
	d.limit(from.number("rate_limit_config.count"), from.number("rate_limit_config.duration"))
	retries := from.doc("retry_config")
	if retries.text("type") == "" {
		retries = c.config.doc("strategy")
	}
	if kind := retries.text("type"); kind != "" {
		d.retry(kind, int(retries.number("retry_count")), retries.number("duration"))
	}
	auth := to.doc("authentication")
	switch kind := auth.text("type"); {
	case kind == "":
	case kind == "api_key" && auth.text("api_key.header_value") != "":
		p.header(d, id, auth.text("api_key.header_name"), auth.text("api_key.header_value"))
	case kind == "basic_auth" && auth.text("basic_auth.password") != "":
		d.Auth = map[string]any{"type": "basic", "username": auth.text("basic_auth.username"),
			"password": p.secret(id, "password", auth.text("basic_auth.password"))}
	default:
		d.disable("authentication %s: set auth of the destination", kind)
	}
	if to.at("mtls_client_cert") != nil {
		d.disable("mtls_client_cert: set auth of the type mtls")
	}
	if kind := cmp.Or(to.text("content_type"), "application/json"); kind != "application/json" {
		d.disable("content type %s: the relay sends JSON", kind)
	}
	for _, name := range []string{"slack_webhook_url", "support_email"} {
		if to.text(name) != "" {
			d.note("%s: alerts belong to the account, or to the portal", name)
		}
	}
	return d
}

// formatOf returns the body that a receiver of Convoy knows: the data of the event alone, or what a source received,
// which is the default.
func (c convoy) formatOf(received bool) string { return map[bool]string{false: "raw"}[received] }

// signingOf returns the signature that a receiver of Convoy verifies: a simple one of the body by the last version of
// the project, or an advanced one with the time, which has a part for each version.
func (c convoy) signingOf(p *plan, d *destination, to doc) map[string]any {
	secret := ""
	for _, x := range to.list("secrets") {
		if end := x.text("expires_at"); end != "" {
			d.note("a secret that ends at %s: move when it has ended", end)
		} else {
			secret = x.text("value")
		}
	}
	versions := c.config.list("signature.versions")
	if secret == "" || len(versions) == 0 {
		d.disable("the API does not give its signing secret, or the project has no version of signatures")
		return nil
	}
	version, content, value := versions[len(versions)-1], "{body}", "{signature}"
	if to.flag("advanced_signatures") {
		version, content, value = versions[0], "{timestamp},{body}", "t={timestamp},v1={signature}"
		if len(versions) > 1 {
			d.note("%d versions of advanced signatures: only v1 is sent", len(versions))
		}
	}
	return template{cmp.Or(c.config.text("signature.header"), "X-Convoy-Signature"), strings.ToLower(version.text("hash")),
		version.text("encoding"), content, value, p.secret(to.text("uid"), "secret", secret)}.signing()
}

// convoyPattern returns the pattern of filters: each counts for its event type, that of * for all types without one.
// ok is false if one of them has no counterpart.
func convoyPattern(all []doc, received bool) (_ map[string]any, ok bool) {
	var alternatives, types []any
	rest := map[string]any{}
	for _, f := range all {
		pattern := map[string]any{}
		for _, name := range []string{"body", "headers", "query", "path"} {
			part, nested := f.doc(name), map[string]any{}
			switch {
			case len(part) == 0:
				continue
			case name == "path" || !nest(nested, part):
				return nil, false
			}
			if pattern[name] = nested; name == "body" && !received {
				pattern[name] = map[string]any{"data": nested}
			}
		}
		switch kind := f.text("event_type"); {
		case len(pattern) == 0:
		case kind == "" || kind == "*":
			maps.Copy(rest, pattern)
		default:
			types, pattern["type"] = append(types, kind), kind
			alternatives = append(alternatives, pattern)
		}
	}
	if len(alternatives) > 0 {
		rest["type"] = map[string]any{"$nin": types}
		rest = map[string]any{"$or": append(alternatives, rest)}
	}
	return rest, true
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
