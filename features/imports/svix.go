package imports

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// svix reads Svix: applications, their endpoints, and event types. See docs/start/move-from-svix.md.
type svix struct{}

type svixEndpoint struct {
	ID, UID, URL, Description string
	Disabled                  bool
	FilterTypes, Channels     []string
	RateLimit                 float64
	Metadata                  map[string]string
}

const (
	svixApp      = "application"
	svixDest     = "endpoint"
	svixType     = "event type"
	svixPageSize = "250"
)

// svixURL returns the address of Svix itself: the end of a token names the region.
func svixURL(token string) string {
	if region := token[strings.LastIndex(token, ".")+1:]; len(region) == 2 {
		return "https://api." + region + ".svix.com"
	}
	return "https://api.svix.com"
}

func svixList(path string) list {
	return list{path: path, query: url.Values{"limit": {svixPageSize}}, cursor: "iterator", id: "id",
		split: func(raw json.RawMessage) ([]json.RawMessage, string, error) {
			var page struct {
				Data     []json.RawMessage
				Iterator string
				Done     bool
			}
			err := json.Unmarshal(raw, &page)
			switch {
			case err == nil && page.Data == nil:
				err = errors.New("it has no member data")
			case page.Done: // the iterator of the last page is for later calls
				page.Iterator = ""
			}
			return page.Data, page.Iterator, err
		}}
}

func (x svix) read(ctx context.Context, s *source, p *plan) error {
	types := svixList("/api/v1/event-type")
	types.query.Set("with_content", "true")
	types.id = "name"
	if err := s.each(ctx, types, func(raw json.RawMessage) error { return svixEventType(p, raw) }); err != nil {
		return err
	}
	return s.each(ctx, svixList("/api/v1/app"), func(raw json.RawMessage) error {
		var app struct {
			ID, UID, Name string
			RateLimit     float64
			Metadata      map[string]string
		}
		if err := json.Unmarshal(raw, &app); err != nil {
			return err
		}
		id := cmp.Or(app.UID, app.ID)
		if !tenantForm.MatchString(id) {
			id = app.ID
		}
		p.count(svixApp).Read++
		e := p.tenant(id, app.Name, app.Metadata)
		if app.UID != "" && app.UID != id {
			e.note("its uid %.200s is no name of a tenant", app.UID)
		}
		if app.RateLimit > 0 {
			e.note("rate limit of %g a second: set limits.events_per_second of the tenant", app.RateLimit)
		}
		p.count(svixApp).Written++
		at := "/api/v1/app/" + url.PathEscape(app.ID) + "/endpoint"
		return s.each(ctx, svixList(at), func(raw json.RawMessage) error {
			var from svixEndpoint
			if err := decode(raw, &from); err != nil {
				return err
			}
			p.count(svixDest).Read++
			return x.endpoint(ctx, s, p, e, from, at+"/"+url.PathEscape(from.ID))
		})
	})
}

// endpoint writes an endpoint of Svix as a destination.
func (x svix) endpoint(ctx context.Context, s *source, p *plan, e *endpoint, from svixEndpoint, at string) error {
	var key struct{ Key string }
	var headers struct {
		Headers   map[string]string
		Sensitive []string
	}
	var transformation struct{ Enabled bool }
	for path, into := range map[string]any{"/secret": &key, "/headers": &headers, "/transformation": &transformation} {
		if err := s.getIfThere(ctx, at+path, nil, into); err != nil {
			return err
		}
	}
	d := &destination{Name: cmp.Or(from.UID, from.ID), URL: from.URL, Format: x.formatOf()}
	if from.Disabled {
		d.Enabled = off
	}
	if from.Description != "" {
		d.note("description: %.500s", from.Description)
	}
	d.Signing = x.signingOf(p, d, from.ID, key.Key)
	p.headers(d, from.ID, headers.Headers)
	for _, name := range headers.Sensitive {
		d.disable("the API does not give the value of header %s: add it", name)
	}
	d.limit(from.RateLimit, 1)
	d.match(from.FilterTypes, nil)
	if len(from.Channels) > 0 {
		d.disable("channels %v: the relay has none; put them into the data of events and set filter.match", from.Channels)
	}
	if transformation.Enabled {
		d.disable("its transformation in JavaScript: write it as operations")
	}
	if len(from.Metadata) > 0 {
		d.note("metadata %v: destinations have none", slices.Sorted(maps.Keys(from.Metadata)))
	}
	p.place(e, d, svixDest, from.ID)
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

// svixEventType writes an event type with the newest of its schemas.
func svixEventType(p *plan, raw json.RawMessage) error {
	var from struct {
		Name, Description, GroupName string
		Deprecated, Archived         bool
		Schemas                      map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &from); err != nil {
		return err
	}
	newest := -1
	for version := range from.Schemas {
		if n, err := strconv.Atoi(version); err == nil {
			newest = max(newest, n)
		}
	}
	p.addType(svixType, eventType{from.Name, from.Description, from.GroupName, from.Deprecated || from.Archived,
		from.Schemas[strconv.Itoa(newest)]})
	return nil
}
