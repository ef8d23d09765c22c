package imports

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// outpost reads Outpost of Hookdeck: tenants, their destinations, and topics. See docs/start/move-from-outpost.md.
type outpost struct{ standard bool } // whether webhooks are in the mode of Standard Webhooks

// Lists of Outpost and Hookdeck have this form.
func models(path, size string) list {
	return list{path: path, query: url.Values{"limit": {size}}, id: "id", items: "models", next: "pagination.next",
		cursor: "next"}
}

func (o outpost) read(ctx context.Context, s *source, p *plan) error {
	var topics []string
	if err := s.getIfThere(ctx, "/topics", nil, &topics); err != nil {
		return err
	}
	for _, topic := range topics {
		if topic != "*" {
			p.addType("topic", eventType{name: topic})
		}
	}
	p.tell("headers x-outpost-event-id, -timestamp and -topic are not sent; webhook-id and webhook-timestamp are")
	return s.each(ctx, models("/tenants", "100"), func(tenant doc) error {
		p.count("tenant").Read++
		e := p.tenant(tenant.text("id"), "", tenant.pairs("metadata"))
		p.count("tenant").Written++
		of := list{path: "/tenants/" + url.PathEscape(tenant.text("id")) + "/destinations", id: "id"}
		return s.each(ctx, of, func(from doc) error {
			o.destination(p, e, from)
			return nil
		})
	})
}

func (o outpost) destination(p *plan, e *endpoint, from doc) {
	const kind = "destination"
	id := from.text("id")
	p.count(kind).Read++
	if from.text("type") != "webhook" {
		p.list(kind, id, "of tenant %s: type %s; its credentials are not given, create it with new ones", e.Tenant,
			from.text("type"))
		return
	}
	d := &destination{Name: id, URL: from.text("config.url"), Format: o.formatOf()}
	if from.at("disabled_at") != nil {
		d.Enabled = off
	}
	d.Signing = o.signingOf(p, d, id, from.doc("credentials"))
	headers := map[string]string{}
	if text := from.text("config.custom_headers"); text != "" {
		if err := json.Unmarshal([]byte(text), &headers); err != nil {
			d.note("custom_headers are not JSON: %v", err)
		}
	}
	for name, value := range from.pairs("delivery_metadata") { // Outpost sends them as headers
		headers["x-outpost-"+name] = value
	}
	p.headers(d, id, headers)
	types := slices.DeleteFunc(from.texts("topics"), func(t string) bool {
		at := strings.Index(t, "*")
		other := t != "*" && at >= 0 && (at != len(t)-1 || !strings.HasSuffix(t, ".*"))
		if other {
			d.disable("topic %s: types are exact, or end in .*", t)
		}
		return other
	})
	pattern, ok := outpostPattern(from.doc("filter"))
	if !ok {
		d.disable("its filter asks for the id, the time or metadata of an event, which the relay does not have")
	}
	d.match(types, pattern)
	d.noteMetadata(from)
	p.place(e, d, kind, id)
}

// formatOf returns the body that a receiver of Outpost knows: the data of the event alone.
func (outpost) formatOf() string { return "raw" }

// signingOf returns the signature that a receiver of Outpost verifies.
func (o outpost) signingOf(p *plan, d *destination, id string, from doc) map[string]any {
	secret := from.text("secret")
	if from.text("previous_secret") != "" {
		d.note("previous_secret, valid until %s: move when it has ended", from.text("previous_secret_invalid_at"))
	}
	switch {
	case secret == "":
		d.disable("the API does not give its signing secret")
		return nil
	case !o.standard:
		return template{"x-outpost-signature", "sha256", "hex", "{body}", "v0={signature}",
			p.secret(id, "secret", secret)}.signing()
	}
	if secret = signingSecret(secret); secret == "" {
		d.disable("its signing secret is not one of Standard Webhooks; is --webhook-mode default?")
		return nil
	}
	return map[string]any{"secret": p.secret(id, "secret", secret)}
}

// outpostPattern returns a filter of Outpost as a pattern of the relay; ok is false if there is none.
func outpostPattern(from map[string]any) (to map[string]any, ok bool) {
	to = map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		switch below := from[name]; name {
		case "data":
			to["body"] = map[string]any{"data": below}
		case "topic":
			to["type"] = below
		case "$not", "$or", "$and":
			all, isList := below.([]any)
			if !isList {
				all = []any{below}
			}
			next := make([]any, len(all))
			for i, each := range all {
				inner, isObject := each.(map[string]any)
				if next[i], ok = outpostPattern(inner); !ok || !isObject {
					return nil, false
				}
			}
			if to[name] = next; !isList {
				to[name] = next[0]
			}
		default:
			return nil, false
		}
	}
	return to, true
}
