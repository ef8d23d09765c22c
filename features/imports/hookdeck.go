package imports

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/verify"
)

// hookdeck reads Hookdeck: sources, and connections with their destinations. See docs/start/move-from-hookdeck.md.
type hookdeck struct {
	sources      map[string]*endpoint
	destinations map[string]hookdeckPart // with what authenticates them, by id
}

// hookdeckPart is a source or a destination.
type hookdeckPart struct {
	ID, Name, Description, Type string
	DisabledAt                  *string `json:"disabled_at"`
	Config                      hookdeckConfig
}

type hookdeckConfig struct {
	URL        string
	Rate       float64 `json:"rate_limit"`
	Period     string  `json:"rate_limit_period"`
	Method     string  `json:"http_method"`
	PathOff    bool    `json:"path_forwarding_disabled"`
	AuthType   string  `json:"auth_type"`
	Auth       map[string]any
	Methods    any `json:"allowed_http_methods"`
	CustomBody any `json:"custom_response"`
}

type hookdeckConnection struct {
	ID, Name    string
	Source      hookdeckPart
	Destination hookdeckPart
	Rules       []json.RawMessage
	DisabledAt  *string `json:"disabled_at"`
	PausedAt    *string `json:"paused_at"`
}

const (
	hookdeckSource     = "source"
	hookdeckConnected  = "connection"
	hookdeckAPI        = "https://api.hookdeck.com/2025-07-01"
	hookdeckSigningEnv = "HOOKDECK_SIGNING_SECRET"
)

func (h hookdeck) read(ctx context.Context, s *source, p *plan) error {
	h.sources, h.destinations = map[string]*endpoint{}, map[string]hookdeckPart{}
	page := func(path string) list {
		return list{path: path, query: url.Values{"limit": {"250"}}, cursor: "next", id: "id", split: splitModels}
	}
	err := s.each(ctx, page("/sources"), func(raw json.RawMessage) error {
		var from hookdeckPart
		err := decode(raw, &from)
		if err == nil {
			from, err = h.whole(ctx, s, "/sources/", from)
		}
		if err == nil {
			h.sources[from.ID] = h.source(p, from)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.each(ctx, page("/connections"), func(raw json.RawMessage) error {
		var from hookdeckConnection
		if err := decode(raw, &from); err != nil {
			return err
		}
		to, known := h.destinations[from.Destination.ID]
		if !known {
			var err error
			if to, err = h.whole(ctx, s, "/destinations/", from.Destination); err != nil {
				return err
			}
			h.destinations[to.ID] = to
		}
		p.count(hookdeckConnected).Read++
		return h.connection(p, from, to)
	})
}

// whole reads a source or a destination of a list again, with its credentials, which lists do not have.
func (h hookdeck) whole(ctx context.Context, s *source, path string, part hookdeckPart) (hookdeckPart, error) {
	err := s.getIfThere(ctx, path+url.PathEscape(part.ID), url.Values{"include": {"config.auth"}}, &part)
	return part, err
}

// source writes a source as an endpoint with the verification of its provider.
func (h hookdeck) source(p *plan, from hookdeckPart) *endpoint {
	p.count(hookdeckSource).Read++
	e := &endpoint{Name: from.Name, Description: from.Description}
	if from.DisabledAt != nil {
		e.Enabled = off
	}
	p.add(e, from.ID)
	provider, auth := strings.ToLower(from.Type), from.Config.Auth
	text := func(name string) string { v, _ := auth[name].(string); return v }
	secret := text("webhook_secret_key")
	switch {
	case provider == "" || secret == "" && len(auth) == 0 && from.Config.AuthType == "":
		// no verification there, and none here
	case slices.Contains(verify.Providers(), provider) && provider != verify.HMAC && secret != "":
		e.Provider = provider
		e.Verification = map[string]any{"type": provider, "secret": p.secret(from.ID, "secret", secret)}
	case text("algorithm") != "" && secret != "" && slices.Contains([]string{"hex", "base64"}, text("encoding")):
		e.Provider = verify.HMAC
		e.Verification = map[string]any{"type": verify.HMAC, "header": text("header_key"), "algorithm": text("algorithm"),
			"encoding": text("encoding"), "secret": p.secret(from.ID, "secret", secret)}
	default:
		e.Enabled = off
		e.note("source type %s, authentication %s: the relay verifies it otherwise, or its secret is not given: disabled "+
			"until you have set verification", from.Type, from.Config.AuthType)
	}
	if from.Config.CustomBody != nil {
		e.note("custom_response: set response")
	}
	p.count(hookdeckSource).Written++
	return e
}

// connection writes a connection as a destination of its source.
func (h hookdeck) connection(p *plan, from hookdeckConnection, to hookdeckPart) error {
	e := h.sources[from.Source.ID]
	switch {
	case e == nil:
		p.list(hookdeckConnected, from.ID, "its source %s is not in the list of sources", from.Source.ID)
		return nil
	case to.Type != "HTTP" || to.Config.URL == "":
		p.list(hookdeckConnected, from.ID, "from %s to %s: the type %s of the destination has no counterpart", e.Name, to.Name,
			to.Type)
		return nil
	}
	d := &destination{Name: to.Name, URL: to.Config.URL, Format: h.formatOf(from.Source), Paused: from.PausedAt != nil}
	if from.DisabledAt != nil || to.DisabledAt != nil {
		d.Enabled = off
	}
	h.authenticate(p, d, to)
	if seconds := map[string]float64{"second": 1, "minute": 60, "hour": 3600}[to.Config.Period]; seconds > 0 {
		d.limit(to.Config.Rate, seconds)
	} else if to.Config.Period == "concurrent" && to.Config.Rate > 0 {
		d.MaxInFlight = int(math.Min(to.Config.Rate, maxInFlight))
	}
	if to.Config.Method != "" && to.Config.Method != "POST" {
		d.disable("http_method %s: the relay sends POST, or with keep_method of the endpoint what it got", to.Config.Method)
	}
	if !to.Config.PathOff {
		d.note("path_forwarding: the relay sends to this URL alone, whatever path and query the provider has called")
	}
	for _, raw := range from.Rules {
		if err := h.rule(d, raw); err != nil {
			return err
		}
	}
	p.place(e, d, hookdeckConnected, from.ID)
	return nil
}

// rule sets what a rule of a connection says.
func (h hookdeck) rule(d *destination, raw json.RawMessage) error {
	var rule struct {
		Type, Strategy             string
		Count                      int
		Interval, Delay            float64 // milliseconds
		Codes                      []any   `json:"response_status_codes"`
		Body, Headers, Query, Path any
	}
	if err := decode(raw, &rule); err != nil {
		return err
	}
	switch rule.Type {
	case "retry":
		d.retry(rule.Strategy, rule.Count, rule.Interval/1000)
		if len(rule.Codes) > 0 {
			d.note("retry of the statuses %v: set retry_policy.retry_on; network errors, 408, 409, 425, 429 and 5xx are always "+
				"retried", rule.Codes)
		}
	case "filter":
		pattern := map[string]any{}
		for name, part := range map[string]any{"body": rule.Body, "headers": rule.Headers, "query": rule.Query,
			"path": rule.Path} {
			if part != nil && part != true {
				pattern[name] = part
			}
		}
		d.match(nil, pattern)
	case "transform":
		d.disable("its transformation in JavaScript: write it as operations")
	case "delay":
		d.note("delay of %g ms: the relay delivers at once", rule.Delay)
	default:
		d.note("rule %s: %.300s", rule.Type, raw)
	}
	return nil
}

// formatOf returns the body that a receiver of Hookdeck knows: what the provider sent, which is the default for
// received events; of what is sent through the API the data alone.
func (hookdeck) formatOf(from hookdeckPart) string {
	if from.Type == "PUBLISH_API" {
		return "raw"
	}
	return ""
}

// authenticate sets what receivers verify. Hookdeck signs with one secret of the project, which its API does not give.
func (h hookdeck) authenticate(p *plan, d *destination, to hookdeckPart) {
	auth := to.Config.Auth
	text := func(name string) string { v, _ := auth[name].(string); return v }
	kept := func(name string) string { return p.secret(to.ID, name, text(name)) }
	switch kind := to.Config.AuthType; {
	case kind == "" || kind == "HOOKDECK_SIGNATURE":
		d.Signing = h.signingOf("X-Hookdeck-Signature", "env:"+hookdeckSigningEnv)
		p.needSigningSecret()
	case len(auth) == 0 || slices.Contains(slices.Collect(maps.Values(auth)), any("")):
		d.disable("the API does not give its authentication %s", kind)
	case kind == "CUSTOM_SIGNATURE":
		d.Signing = h.signingOf(text("key"), kept("signing_secret"))
	case kind == "BASIC_AUTH":
		d.Auth = map[string]any{"type": "basic", "username": text("username"), "password": kept("password")}
	case kind == "BEARER_TOKEN":
		p.header(d, to.ID, "Authorization", "Bearer "+text("token"))
	case kind == "API_KEY" && text("to") != "query":
		p.header(d, to.ID, text("key"), text("api_key"))
	case kind == "OAUTH2_CLIENT_CREDENTIALS" && text("authentication_type") != "bearer":
		d.Auth = map[string]any{"type": "oauth2_client_credentials", "token_url": text("auth_server"), "scope": text("scope"),
			"client_id": text("client_id"), "client_secret": kept("client_secret"),
			"client_auth": map[bool]string{true: "body", false: "header"}[text("authentication_type") == "x-www-form-urlencoded"]}
	default:
		d.disable("its authentication %s has no counterpart", kind)
	}
}

// signingOf returns the signature that a receiver of Hookdeck verifies.
func (hookdeck) signingOf(header, secret string) map[string]any {
	return map[string]any{"schemes": []any{template{header, "sha256", "base64", "{body}", "{signature}", secret}.scheme()}}
}

// needSigningSecret says once where the secret of the project has to be.
func (p *plan) needSigningSecret() {
	text := "the API does not give the signing secret of the project: set " + hookdeckSigningEnv + " for relay apply"
	if !slices.Contains(p.general, text) {
		p.general = append(p.general, text)
	}
}
