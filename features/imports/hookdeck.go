package imports

import (
	"context"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/verify"
)

// hookdeckAPI is the address of Hookdeck itself. hookdeckSecret names the variable with the secret of the project.
const (
	hookdeckAPI    = "https://api.hookdeck.com/2025-07-01"
	hookdeckSecret = "HOOKDECK_SIGNING_SECRET"
)

// hookdeck reads Hookdeck: sources, and connections with their destinations. See docs/start/move-from-hookdeck.md.
type hookdeck struct {
	sources      map[string]*endpoint
	destinations map[string]doc
}

func (h hookdeck) read(ctx context.Context, s *source, p *plan) error {
	h.sources, h.destinations = map[string]*endpoint{}, map[string]doc{}
	// Lists have no credentials.
	whole := func(path string, part doc) (doc, error) {
		return part, s.getIfThere(ctx, path+url.PathEscape(part.text("id")), url.Values{"include": {"config.auth"}}, &part)
	}
	err := s.each(ctx, models("/sources", "250"), func(from doc) error {
		from, err := whole("/sources/", from)
		if err == nil {
			h.sources[from.text("id")] = h.source(p, from)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.each(ctx, models("/connections", "250"), func(from doc) (err error) {
		id := from.text("destination.id")
		if h.destinations[id] == nil {
			if h.destinations[id], err = whole("/destinations/", from.doc("destination")); err != nil {
				return err
			}
		}
		h.connection(p, from, h.destinations[id])
		return nil
	})
}

// source writes a source as an endpoint with the verification of its provider.
func (h hookdeck) source(p *plan, from doc) *endpoint {
	e := &endpoint{Name: from.text("name"), Description: from.text("description"), kind: "source"}
	if from.at("disabled_at") != nil {
		e.Enabled = off
	}
	id, auth, kind := from.text("id"), from.doc("config.auth"), strings.ToLower(from.text("type"))
	p.count("source").Read++
	p.add(e, id)
	p.count("source").Written++
	encoding, secret := auth.text("encoding"), auth.text("webhook_secret_key")
	switch {
	case len(auth) == 0 && from.text("config.auth_type") == "": // nothing is verified
	case slices.Contains(verify.Providers(), kind) && kind != verify.HMAC && secret != "":
		e.verify(kind, p.secret(id, "secret", secret))
	case secret != "" && (encoding == "hex" || encoding == "base64"):
		e.verify(verify.HMAC, p.secret(id, "secret", secret))
		e.hmac(auth.text("header_key"), auth.text("algorithm"), encoding)
	default:
		e.disable("source type %s, authentication %s", from.text("type"), from.text("config.auth_type"))
	}
	if from.at("config.custom_response") != nil {
		e.note("custom_response: set response")
	}
	return e
}

// connection writes a connection as a destination of its source.
func (h hookdeck) connection(p *plan, from, to doc) {
	const kind = "connection"
	id, config := from.text("id"), to.doc("config")
	p.count(kind).Read++
	e := h.sources[from.text("source.id")]
	switch {
	case e == nil:
		p.list(kind, id, "its source %s is not in the list of sources", from.text("source.id"))
		return
	case to.text("type") != "HTTP" || config.text("url") == "":
		p.list(kind, id, "from %s to %s: the type %s of the destination has no counterpart", e.Name, to.text("name"),
			to.text("type"))
		return
	}
	d := &destination{Name: to.text("name"), URL: config.text("url"), Format: h.formatOf(from.text("source.type")),
		Paused: from.at("paused_at") != nil}
	if from.at("disabled_at") != nil || to.at("disabled_at") != nil {
		d.Enabled = off
	}
	h.authenticate(p, d, to.text("id"), config.text("auth_type"), config.doc("auth"))
	rate, period := config.number("rate_limit"), config.text("rate_limit_period")
	d.limit(rate, map[string]float64{"second": 1, "minute": 60, "hour": 3600}[period])
	if period == "concurrent" {
		d.MaxInFlight = int(math.Min(rate, maxInFlight))
	}
	if method := config.text("http_method"); method != "" && method != "POST" {
		d.disable("http_method %s: the relay sends POST, or with keep_method of the endpoint what it got", method)
	}
	if !config.flag("path_forwarding_disabled") {
		d.note("path_forwarding: the relay sends to this URL alone, whatever path and query the provider has called")
	}
	for _, rule := range from.list("rules") {
		h.rule(d, rule)
	}
	p.place(e, d, kind, id)
}

// rule sets what a rule of a connection says.
func (h hookdeck) rule(d *destination, rule doc) {
	switch kind := rule.text("type"); kind {
	case "retry": // waits are in milliseconds
		d.retry(rule.text("strategy"), int(rule.number("count")), rule.number("interval")/1000)
		if codes := rule.texts("response_status_codes"); len(codes) > 0 {
			d.note("retry of the statuses %v: set retry_policy.retry_on; network errors, 408, 409, 425, 429 and 5xx are always "+
				"retried", codes)
		}
	case "filter":
		pattern := map[string]any{}
		for _, name := range []string{"body", "headers", "query", "path"} {
			if part := rule.at(name); part != nil && part != true {
				pattern[name] = part
			}
		}
		d.match(nil, pattern)
	case "transform":
		d.disable("its transformation in JavaScript: write it as operations")
	default:
		delete(rule, "type")
		d.note("rule %s %.300v: the relay does not have it", kind, map[string]any(rule))
	}
}

// formatOf returns the body that a receiver of Hookdeck knows: what the provider sent, which is the default for
// received events; of what is sent through the API the data alone.
func (hookdeck) formatOf(source string) string {
	if source == "PUBLISH_API" {
		return "raw"
	}
	return ""
}

// authenticate sets what receivers verify. Hookdeck signs with one secret of the project, which its API does not give.
func (h hookdeck) authenticate(p *plan, d *destination, id, kind string, auth doc) {
	kept := func(name string) string { return p.secret(id, name, auth.text(name)) }
	switch {
	case kind == "" || kind == "HOOKDECK_SIGNATURE":
		d.Signing = h.signingOf("X-Hookdeck-Signature", "env:"+hookdeckSecret)
		p.tell("the API does not give the signing secret of the project: set " + hookdeckSecret + " for relay apply")
	case len(auth) == 0 || slices.Contains(slices.Collect(maps.Values(auth)), any("")):
		d.disable("the API does not give its authentication %s", kind)
	case kind == "CUSTOM_SIGNATURE":
		d.Signing = h.signingOf(auth.text("key"), kept("signing_secret"))
	case kind == "BASIC_AUTH":
		d.Auth = map[string]any{"type": "basic", "username": auth.text("username"), "password": kept("password")}
	case kind == "BEARER_TOKEN":
		p.header(d, id, "Authorization", "Bearer "+auth.text("token"))
	case kind == "API_KEY" && auth.text("to") != "query":
		p.header(d, id, auth.text("key"), auth.text("api_key"))
	case kind == "OAUTH2_CLIENT_CREDENTIALS" && auth.text("authentication_type") != "bearer":
		where := map[bool]string{true: "body", false: "header"}[auth.text("authentication_type") == "x-www-form-urlencoded"]
		d.Auth = map[string]any{"type": "oauth2_client_credentials", "token_url": auth.text("auth_server"),
			"scope": auth.text("scope"), "client_id": auth.text("client_id"), "client_secret": kept("client_secret"),
			"client_auth": where}
	default:
		d.disable("its authentication %s has no counterpart", kind)
	}
}

// signingOf returns the signature that a receiver of Hookdeck verifies.
func (hookdeck) signingOf(header, secret string) map[string]any {
	return template{header, "sha256", "base64", "{body}", "{signature}", secret}.signing()
}
