package imports

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// svixURL returns the address of Svix itself: the end of a token names the region.
func svixURL(token string) string {
	if region := token[strings.LastIndex(token, ".")+1:]; len(region) == 2 {
		return "https://api." + region + ".svix.com"
	}
	return "https://api.svix.com"
}

// svix reads Svix: applications, their endpoints, and event types. See docs/start/move-from-svix.md.
type svix struct{}

// list is a list of Svix. The last page has a cursor too, for later calls.
func (svix) list(path string) list {
	return list{path: path, query: url.Values{"limit": {"250"}}, id: "id", items: "data", next: "iterator", last: "done",
		cursor: "iterator"}
}

func (x svix) read(ctx context.Context, s *source, p *plan) error {
	types := x.list("/api/v1/event-type")
	types.query.Set("with_content", "true")
	types.id = "name"
	if err := s.each(ctx, types, func(from doc) error { return x.eventType(p, from) }); err != nil {
		return err
	}
	return s.each(ctx, x.list("/api/v1/app"), func(app doc) error {
		id := cmp.Or(app.text("uid"), app.text("id"))
		if !tenantForm.MatchString(id) {
			id = app.text("id")
		}
		p.count("application").Read++
		e := p.tenant(id, app.text("name"), app.pairs("metadata"))
		p.count("application").Written++
		if uid := app.text("uid"); uid != "" && uid != id {
			e.note("its uid %.200s is no name of a tenant", uid)
		}
		if rate := app.number("rateLimit"); rate > 0 {
			e.of.Limits = map[string]float64{"events_per_second": rate}
		}
		at := "/api/v1/app/" + url.PathEscape(app.text("id")) + "/endpoint"
		return s.each(ctx, x.list(at), func(from doc) error {
			return x.endpoint(ctx, s, p, e, from, at+"/"+url.PathEscape(from.text("id")))
		})
	})
}

// endpoint writes an endpoint of Svix as a destination.
func (x svix) endpoint(ctx context.Context, s *source, p *plan, e *endpoint, from doc, at string) error {
	more := map[string]doc{"/secret": {}, "/headers": {}, "/transformation": {}}
	for path := range more {
		into := doc{}
		if err := s.getIfThere(ctx, at+path, nil, &into); err != nil {
			return err
		}
		more[path] = into
	}
	id := from.text("id")
	p.count("endpoint").Read++
	d := &destination{Name: cmp.Or(from.text("uid"), id), URL: from.text("url"), Format: x.formatOf()}
	if from.flag("disabled") {
		d.Enabled = off
	}
	if text := from.text("description"); text != "" {
		d.note("description: %.500s", text)
	}
	d.Signing = x.signingOf(p, d, id, more["/secret"].text("key"))
	p.headers(d, id, more["/headers"].pairs("headers"))
	for _, name := range more["/headers"].texts("sensitive") {
		d.disable("the API does not give the value of header %s: add it", name)
	}
	d.limit(from.number("rateLimit"), 1)
	d.match(from.texts("filterTypes"), nil)
	if channels := from.texts("channels"); len(channels) > 0 {
		d.disable("channels %v: the relay has none; put them into the data of events and set filter.match", channels)
	}
	if more["/transformation"].flag("enabled") {
		d.disable("its transformation in JavaScript: write it as operations")
	}
	d.noteMetadata(from)
	p.place(e, d, "endpoint", id)
	return nil
}

// formatOf returns the body that a receiver of Svix knows: the payload of the message alone.
func (svix) formatOf() string { return "raw" }

// signingOf returns the signatures that a receiver of Svix verifies: its libraries read the headers of either scheme.
func (svix) signingOf(p *plan, d *destination, id, key string) map[string]any {
	secret := signingSecret(key)
	if secret == "" {
		d.disable("its signing secret is not given, or is not one that the relay takes (HMAC of 24 to 64 bytes)")
		return nil
	}
	return map[string]any{"secret": p.secret(id, "secret", secret),
		"schemes": []any{map[string]any{"type": "standard_webhooks"}, map[string]any{"type": "svix"}}}
}

// eventType writes an event type with the newest of its schemas.
func (svix) eventType(p *plan, from doc) error {
	newest := -1
	for version := range from.doc("schemas") {
		if n, err := strconv.Atoi(version); err == nil {
			newest = max(newest, n)
		}
	}
	schema, err := json.Marshal(from.doc("schemas")[strconv.Itoa(newest)])
	p.addType("event type", eventType{from.text("name"), from.text("description"), from.text("groupName"),
		from.flag("deprecated") || from.flag("archived"), schema})
	return err
}
