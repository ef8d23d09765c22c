package api_test

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A format without headers of its own is refused where an event has none, whichever of the two is changed.
func TestFormatOfADestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(nil)
	base := "/v1/endpoints/" + created.text("id") + "/destinations"
	first := base + "/" + created.text("destinations.0.id")
	is.Equal(t, created.text("destinations.0.format"), "standard", "default")
	is.Equal(t, c.do("PATCH", first, `{"format":"raw"}`).want(200).text("format"), "raw", "format")
	c.do("PATCH", first, `{"format":"xml"}`).wantError(400, "invalid_request", "format")
	c.do("PATCH", first, `{"format":null}`).wantError(400, "invalid_request", "format")
	c.do("PATCH", first, `{"format":"cloudevents_binary"}`).want(200)
	c.do("PATCH", first, `{"http_batch":{}}`).wantError(400, "invalid_request", "format")
	c.do("PATCH", first, `{"http_batch":{},"format":"cloudevents"}`).want(200)
	c.do("PATCH", first, `{"format":"cloudevents_binary"}`).wantError(400, "invalid_request", "format")
	c.do("PATCH", "/v1/endpoints/"+created.text("id"), `{"destinations":[{"url":"https://a.example","sqs":null,
		"http_batch":{},"format":"cloudevents_binary"}]}`).wantError(400, "invalid_request", "destinations[0].format")
}

const template = `{"type":"template","header":"stripe-signature","signed_content":"{timestamp}.{body}",
	"value":"t={timestamp},v1={signature}","secret":"secret of the old system"}`

// The list is replaced as a whole. Secrets are masked, and the mask of a scheme's secret keeps it wherever the scheme
// stands in the list. The default is stored as no schemes.
func TestSigningSchemes(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(nil)
	ep := created.text("id")
	at := "/v1/endpoints/" + ep + "/destinations/" + created.text("destinations.0.id")
	is.Equal(t, created.text("destinations.0.signing.schemes.0.type"), "standard_webhooks", "default")
	stored := func() *kinds.Signing {
		e, _ := configuration.Endpoint(ep)
		return e.Destinations[0].Signing
	}
	same := func(body string) {
		t.Helper()
		before, _ := configuration.Endpoint(ep)
		c.do("PATCH", at, body).want(200)
		if after, _ := configuration.Endpoint(ep); after.Rev != before.Rev {
			t.Errorf("%s changed something", body)
		}
	}
	same(`{"signing":{"schemes":[{"type":"standard_webhooks"}]}}`)
	same(`{"signing":{"schemes":null}}`)
	same(`{"signing":{"schemes":[]}}`)
	set := c.do("PATCH", at, `{"signing":{"schemes":[{"type":"svix","header":"X-Ignored"},`+template+`]}}`).want(200)
	if got := set.get("signing.schemes"); set.text("signing.schemes.1.secret") != "****stem" ||
		set.text("signing.schemes.1.header") != "Stripe-Signature" || set.text("signing.schemes.1.algorithm") != "sha256" ||
		set.text("signing.schemes.1.encoding") != "hex" || set.get("signing.schemes.0.header") != nil {
		t.Errorf("%v", got)
	}
	open := func(i int) string {
		e, _ := configuration.Endpoint(ep)
		settings := must.Get(e.Destinations[0].Open(keyring(), e.Destinations[0].ID))(t)
		return string(settings.Signing.Schemes[i].Secret)
	}
	is.Equal(t, open(1), "secret of the old system", "secret")
	if sealed := stored().Schemes[1].Secret; strings.Contains(string(sealed), "old system") {
		t.Errorf("stored as %q", sealed)
	}
	same(`{"signing":{"schemes":[{"type":"svix"},` + strings.Replace(template, "secret of the old system", "****stem", 1) +
		`]}}`)
	c.do("PATCH", at, `{"signing":{"schemes":[`+strings.Replace(template, "secret of the old system", "****stem", 1)+
		`,{"type":"template","header":"X-Other","secret":"another"}]}}`).want(200)
	is.Equal(t, open(0), "secret of the old system", "secret at another place of the list")
	c.do("PATCH", at, `{"signing":{"schemes":[{"type":"template","header":"X-Other","secret":"****zzzz"}]}}`).wantError(
		400, "invalid_request", "signing.schemes[0].secret")
	c.do("PATCH", at, `{"signing":{"schemes":null}}`).want(200)
	if stored() != nil {
		t.Error("the default is stored")
	}
}

func TestSigningSchemesThatAreRefused(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []any{map[string]any{
		"url": "https://a.example/", "headers": map[string]any{"X-Team": "billing"}}}})
	base := "/v1/endpoints/" + created.text("id")
	at := base + "/destinations/" + created.text("destinations.0.id")
	f := func(schemes, param string) {
		t.Helper()
		c.do("PATCH", at, `{"signing":{"schemes":[`+schemes+`]}}`).wantError(400, "invalid_request", "signing."+param)
	}
	of := func(members string) string { return `{"type":"template","header":"X-Sig",` + members + `}` }
	named := func(name string) string { return `{"type":"template","header":"` + name + `"}` }
	f(`{}`, "schemes[0].type")
	f(`{"type":"hmac"}`, "schemes[0].type")
	f(`"svix"`, "schemes[0]")
	f(`{"type":"svix"},{"type":"svix"}`, "schemes[1].type")
	f(`{"type":"svix"},{"type":"standard_webhooks"},`+named("A")+`,`+named("B"), "schemes")
	f(`{"type":"template"}`, "schemes[0].header")
	for _, name := range []string{"X Sig", "Host", "Webhook-Signature", "relay_x", "Svix-Id", "Ce-Id", "Content-Type",
		"User-Agent", "Idempotency-Key", "x-team", strings.Repeat("x", 129)} {
		f(named(name), "schemes[0].header")
	}
	f(named("X-Sig")+`,`+named("x-sig"), "schemes[1].header")
	f(`{"type":"svix"},`+of(`"signed_content":"{timestamp}{nonce}{body}"`), "schemes[1].signed_content")
	f(of(`"signed_content":"{timestamp}"`), "schemes[0].signed_content")
	f(of(`"signed_content":"{body}{body}"`), "schemes[0].signed_content")
	f(of(`"signed_content":"{body}`+strings.Repeat("é", 126)+`"`), "schemes[0].signed_content")
	f(of(`"signed_content":"{body}`+strings.Repeat("x", 251)+`"`), "schemes[0].signed_content")
	f(of(`"value":"{url} {signature}"`), "schemes[0].value")
	f(of(`"value":"v1"`), "schemes[0].value")
	f(of(`"value":"{signature}{signatures}"`), "schemes[0].value")
	f(of(`"value":" {signature}"`), "schemes[0].value")
	f(of(`"value":"{signature}\n"`), "schemes[0].value")
	f(of(`"value":"é{signature}"`), "schemes[0].value")
	f(of(`"algorithm":"md5"`), "schemes[0].algorithm")
	f(of(`"encoding":"base32"`), "schemes[0].encoding")
	f(of(`"secret":"`+strings.Repeat("x", 513)+`"`), "schemes[0].secret")
	c.do("PATCH", base, `{"destinations":[{"url":"https://a.example/","signing":{"schemes":[{"type":"svix"},`+
		of(`"signed_content":"{x}{body}"`)+`]}}]}`).wantError(400, "invalid_request",
		"destinations[0].signing.schemes[1].signed_content")
	warned := c.do("PATCH", at, `{"signing":{"schemes":[`+of(`"contents":"{body}"`)+`]}}`).want(200)
	is.Equal(t, warned.text("warnings.0.param"), "signing.schemes[0].contents", "warning")
	c.do("PATCH", at, `{"headers":{"X-Sig":"x"}}`).wantError(400, "invalid_request", "signing.schemes[0].header")
	// A private key is no key of an HMAC.
	c.do("PATCH", at, `{"signing":{"algorithm":"ed25519"}}`).wantError(400, "invalid_request", "signing.algorithm")
	c.do("POST", at+"/rotate_secret", `{"algorithm":"ed25519"}`).wantError(400, "invalid_request", "algorithm")
	c.do("PATCH", at, `{"signing":{"algorithm":"ed25519","schemes":[`+of(`"secret":"own"`)+`]}}`).want(200)
	f(named("X-Sig"), "algorithm")
	c.do("POST", base+"/destinations", `{"sqs":{"queue_url":"https://sqs.eu-central-1.amazonaws.com/1/orders",
		"access_key_id":"a","secret_access_key":"b"},"signing":{"schemes":[{"type":"svix"}]}}`).wantError(400,
		"invalid_request", "signing.schemes")
}
