package imports

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// outpost reads Outpost of Hookdeck: tenants, their destinations, and topics. See docs/start/move-from-outpost.md.
type outpost struct{ standard bool }

type outpostDestination struct {
	ID, Type   string
	Topics     json.RawMessage
	Filter     map[string]any
	DisabledAt *string `json:"disabled_at"`
	Config     struct {
		URL     string
		Headers string `json:"custom_headers"`
	}
	Credentials struct {
		Secret   string
		Previous string `json:"previous_secret"`
		Until    string `json:"previous_secret_invalid_at"`
	}
	DeliveryMetadata map[string]string `json:"delivery_metadata"`
	Metadata         map[string]string
}

const (
	outpostTenant = "tenant"
	outpostDest   = "destination"
	outpostTopic  = "topic"
)

func (o outpost) read(ctx context.Context, s *source, p *plan) error {
	var topics []string
	if err := s.getIfThere(ctx, "/topics", nil, &topics); err != nil {
		return err
	}
	for _, topic := range topics {
		if topic != "*" {
			p.addType(outpostTopic, eventType{name: topic})
		}
	}
	p.general = append(p.general, "headers x-outpost-event-id, -timestamp and -topic are not sent; "+
		"webhook-id and webhook-timestamp are")
	return s.each(ctx, list{path: "/tenants", query: url.Values{"limit": {"100"}}, cursor: "next", id: "id",
		split: splitModels}, func(raw json.RawMessage) error {
		var tenant struct {
			ID       string
			Metadata map[string]string
		}
		if err := json.Unmarshal(raw, &tenant); err != nil {
			return err
		}
		p.count(outpostTenant).Read++
		e := p.tenant(tenant.ID, "", tenant.Metadata)
		p.count(outpostTenant).Written++
		return s.each(ctx, list{path: "/tenants/" + url.PathEscape(tenant.ID) + "/destinations", id: "id",
			split: splitArray}, func(raw json.RawMessage) error { return o.destination(p, e, raw) })
	})
}

// splitModels splits a page of Outpost and Hookdeck.
func splitModels(raw json.RawMessage) ([]json.RawMessage, string, error) {
	var page struct {
		Models     []json.RawMessage
		Pagination struct{ Next string }
	}
	err := json.Unmarshal(raw, &page)
	if err == nil && page.Models == nil {
		err = errors.New("it has no member models")
	}
	return page.Models, page.Pagination.Next, err
}

func splitArray(raw json.RawMessage) (all []json.RawMessage, next string, err error) {
	return all, "", json.Unmarshal(raw, &all)
}

func (o outpost) destination(p *plan, e *endpoint, raw json.RawMessage) error {
	var from outpostDestination
	if err := decode(raw, &from); err != nil {
		return err
	}
	p.count(outpostDest).Read++
	if from.Type != "webhook" {
		p.list(outpostDest, from.ID, "of tenant %s: type %s; its credentials are not given, create it with new ones", e.Tenant,
			from.Type)
		return nil
	}
	d := &destination{Name: from.ID, URL: from.Config.URL, Format: o.formatOf()}
	if from.DisabledAt != nil {
		d.Enabled = off
	}
	d.Signing = o.signingOf(p, d, from)
	headers := map[string]string{}
	if from.Config.Headers != "" {
		if err := json.Unmarshal([]byte(from.Config.Headers), &headers); err != nil {
			d.note("custom_headers are not JSON: %v", err)
		}
	}
	p.headers(d, from.ID, headers)
	o.filter(d, from)
	for _, name := range slices.Sorted(maps.Keys(from.DeliveryMetadata)) { // Outpost sends them as headers
		p.header(d, from.ID, "x-outpost-"+name, from.DeliveryMetadata[name])
	}
	if len(from.Metadata) > 0 {
		d.note("metadata %v: destinations have none", slices.Sorted(maps.Keys(from.Metadata)))
	}
	p.place(e, d, outpostDest, from.ID)
	return nil
}

// formatOf returns the body that a receiver of Outpost knows: the data of the event alone.
func (outpost) formatOf() string { return "raw" }

// signingOf returns the signature that a receiver of Outpost verifies.
func (o outpost) signingOf(p *plan, d *destination, from outpostDestination) map[string]any {
	secret := from.Credentials.Secret
	if from.Credentials.Previous != "" {
		d.note("previous_secret, valid until %s: move when it has ended", from.Credentials.Until)
	}
	switch {
	case secret == "":
		d.disable("the API does not give its signing secret")
		return nil
	case o.standard:
		if secret = signingSecret(secret); secret == "" {
			d.disable("its signing secret is not one of Standard Webhooks; is --webhook-mode default?")
			return nil
		}
		return map[string]any{"secret": p.secret(from.ID, "secret", secret)}
	}
	return map[string]any{"schemes": []any{template{"x-outpost-signature", "sha256", "hex", "{body}", "v0={signature}",
		p.secret(from.ID, "secret", secret)}.scheme()}}
}

// filter sets the types and conditions of a destination.
func (o outpost) filter(d *destination, from outpostDestination) {
	var types []string
	if json.Unmarshal(from.Topics, &types) != nil { // it is the text "*"
		types = nil
	}
	if slices.Contains(types, "*") {
		types = nil
	}
	types = slices.DeleteFunc(types, func(t string) bool {
		at := strings.Index(t, "*")
		other := at >= 0 && (at != len(t)-1 || !strings.HasSuffix(t, ".*"))
		if other {
			d.disable("topic %s: types are exact, or end in .*", t)
		}
		return other
	})
	pattern, ok := outpostPattern(from.Filter)
	if !ok {
		d.disable("its filter asks for the id, the time or metadata of an event, which the relay does not have")
		pattern = nil
	}
	d.match(types, pattern)
}

// outpostPattern returns a filter of Outpost as a pattern of the relay; ok is false if there is none.
func outpostPattern(from map[string]any) (to map[string]any, ok bool) {
	to = map[string]any{}
	for name, below := range from {
		switch {
		case name == "data":
			to["body"] = map[string]any{"data": below}
		case name == "topic":
			to["type"] = below
		case name == "$not":
			inner, isObject := below.(map[string]any)
			next, fine := outpostPattern(inner)
			if !isObject || !fine {
				return nil, false
			}
			to[name] = next
		case name == "$or", name == "$and":
			all, _ := below.([]any)
			var next []any
			for _, each := range all {
				inner, isObject := each.(map[string]any)
				pattern, fine := outpostPattern(inner)
				if !isObject || !fine {
					return nil, false
				}
				next = append(next, pattern)
			}
			to[name] = next
		default:
			return nil, false
		}
	}
	return to, true
}
