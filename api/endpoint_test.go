package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// What was read can be sent back: nothing changes and there is no warning.
func TestReadThenPatchIsHarmless(t *testing.T) {
	c := newClient(t)
	for name, members := range map[string]map[string]any{
		"everything set": endpointMembers(),
		"defaults":       {"url": "https://example.com/h"},
		"exponential":    {"url": "https://example.com/h", "retry_policy": map[string]any{"strategy": "exponential"}},
		"linear": {"url": "https://example.com/h",
			"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 7}},
		"none": {"url": "https://example.com/h",
			"retry_policy": map[string]any{"strategy": "none", "schedule_seconds": "ignored"}},
		"same URL twice": {"destinations": []string{"https://example.com/h", "https://example.com/h"}},
		"slack": {"url": "https://example.com/h", "provider": "slack",
			"verification": map[string]any{"secret": "8f742231b10e8888abcd99yyyzzz85a5"}},
	} {
		created := c.do("POST", "/v1/endpoints", members).want(201)
		target := "/v1/endpoints/" + created.text("id")
		before, _ := configuration.Endpoint(created.text("id"))
		read := c.do("GET", target, nil).want(200)
		patched := c.do("PATCH", target, string(read.raw)).want(200)
		equalEndpoints(t, read, patched)
		equalEndpoints(t, created, read)
		if patched.get("warnings") != nil {
			t.Errorf("%s: %v", name, patched.get("warnings"))
		}
		for i, d := range read.get("destinations").([]any) {
			b := must.Get(json.Marshal(d))(t)
			c.do("PATCH", target+"/destinations/"+read.text(fmt.Sprintf("destinations.%d.id", i)), string(b)).want(200)
		}
		if after, _ := configuration.Endpoint(created.text("id")); after.Rev != before.Rev {
			t.Errorf("%s: a round trip wrote revision %d over %d", name, after.Rev, before.Rev)
		}
	}
}

func TestSecretsAreShownOnceAndSealed(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(endpointMembers())
	target := "/v1/endpoints/" + created.text("id")
	is.Equal(t, created.text("destinations.0.signing.secret"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "created with")
	e, _ := configuration.Endpoint(created.text("id"))
	stored := must.Get(json.Marshal(e))(t)
	list := c.do("GET", "/v1/endpoints", nil).want(200)
	read := c.do("GET", target, nil).want(200)
	patched := c.do("PATCH", target, `{"name":"other"}`).want(200)
	for _, secret := range []string{
		"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "verification-secret-1", "abcdefghijklmnop", "abcdefghijkl"} {
		for where, text := range map[string][]byte{
			"log": stored, "list": list.raw, "read": read.raw, "PATCH": patched.raw, "log lines": c.log.Bytes()} {
			is.Lacks(t, string(text), secret, "%s shows %s", where, secret)
		}
	}
	token := strings.TrimPrefix(read.text("ingest_url"), baseURL+"/in/")
	if strings.Contains(string(stored), token) || len(token) < 26 || configuration.EndpointByToken(token) == nil {
		t.Errorf("token %s", token)
	}
	if read.text("destinations.0.headers.Authorization") != "****mnop" ||
		read.text("destinations.0.headers.X-Shop") != "de" ||
		read.text("destinations.0.signing.secret_last4") != "LaSw" || read.text("verification.secret_last4") != "et-1" ||
		read.get("verification.secret_set") != true {
		t.Errorf("%s", read.raw)
	}
}

func TestMasksMeanUnchanged(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(endpointMembers())
	ep := created.text("id")
	target, dst := "/v1/endpoints/"+ep, "/v1/endpoints/"+ep+"/destinations/"+created.text("destinations.0.id")
	same := func(body string) {
		t.Helper()
		before, _ := configuration.Endpoint(ep)
		c.do("PATCH", dst, body).want(200)
		if after, _ := configuration.Endpoint(ep); after.Rev != before.Rev {
			t.Errorf("%s changed something", body)
		}
	}
	same(`{"headers":{"authorization":"****mnop"}}`)
	same(`{"headers":{"Authorization":"Bearer abcdefghijklmnop"}}`)
	same(`{"signing":{"secret":"whsec_****LaSw"}}`)
	same(`{"signing":{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}`)
	before, _ := configuration.Endpoint(ep)
	c.do("PATCH", target, `{"verification":{"secret":"****et-1"}}`).want(200)
	c.do("PATCH", target, `{"verification":{"secret":"verification-secret-1"}}`).want(200)
	if after, _ := configuration.Endpoint(ep); after.Rev != before.Rev {
		t.Error("the mask of the verification secret changed something")
	}
	// The value of a header that is no credential may look like a mask.
	c.do("PATCH", dst, `{"headers":{"X-Look":"****zzzz","X-Shop":null}}`).want(200)
	if read := c.do("GET", target, nil); read.text("destinations.0.headers.X-Look") != "****zzzz" ||
		read.get("destinations.0.headers.X-Shop") != nil {
		t.Errorf("%s", read.raw)
	}
}

// A mask of a credential header that is not its current mask is no value: it would be sent in place of the credential.
func TestStaleMaskOfAHeaderIsRefused(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(endpointMembers())
	target, id := "/v1/endpoints/"+created.text("id"), created.text("destinations.0.id")
	const param = "destinations[0].headers.Authorization"
	refused := func(method, target, param string, body any) {
		t.Helper()
		a := c.do(method, target, body).wantError(400, "invalid_request", param)
		is.Has(t, a.text("error.message"), "is masked and matches no existing value", "%s", a.raw)
	}
	shown := map[string]any{"destinations": c.do("GET", target, nil).want(200).get("destinations")}
	refused("POST", "/v1/endpoints", param, shown)
	refused("POST", "/v1/endpoints/validate", param, shown)
	entry := func(key, value, header string) map[string]any {
		return map[string]any{"destinations": []any{
			map[string]any{key: value, "headers": map[string]string{"authorization": header}}}}
	}
	for _, to := range []string{"", "/validate"} {
		method := map[string]string{"": "PATCH", "/validate": "POST"}[to]
		refused(method, target+to, "destinations[0].headers.authorization", entry("id", id, "****9999"))
		refused(method, target+to, "destinations[0].headers.authorization",
			entry("url", "https://new.example.com/h", "****mnop"))
		c.do(method, target+to, shown).want(200)
	}
	refused("PATCH", target+"/destinations/"+id, "headers.Authorization", `{"headers":{"Authorization":"****"}}`)
	// A short value shows no end in its mask. What was stored of it before is not compared.
	c.do("PATCH", target+"/destinations/"+id, `{"headers":{"Authorization":"short"}}`).want(200)
	c.do("PATCH", target+"/destinations/"+id, `{"headers":{"Authorization":"****"}}`).want(200)
	refused("PATCH", target+"/destinations/"+id, "headers.Authorization", `{"headers":{"Authorization":"****hort"}}`)
	if read := c.do("GET", target, nil).want(200); read.text("destinations.0.headers.Authorization") != "****" {
		t.Errorf("%s", read.raw)
	}
}

func TestPatchDestinations(t *testing.T) {
	c := newClient(t)
	plain := c.do("POST", "/v1/endpoints", `{"url":"https://one.example"}`).want(201)
	// The shorthand of POST says what to send instead.
	kept := c.do("PATCH", "/v1/endpoints/"+plain.text("id"), `{"url":"https://two.example"}`).want(200)
	if kept.text("warnings.0.param") != "url" ||
		!strings.Contains(kept.text("warnings.0.message"), "destinations[].url") ||
		plain.get("warnings") != nil || kept.text("destinations.0.url") != "https://one.example" {
		t.Errorf("%s", kept.raw)
	}
	created := c.do("POST", "/v1/endpoints",
		`{"destinations":["https://a.example/1",{"url":"https://b.example/2","max_in_flight":7}]}`).want(201)
	target, a, b := "/v1/endpoints/"+created.text("id"), created.text("destinations.0.id"),
		created.text("destinations.1.id")
	after := c.do("PATCH", target,
		fmt.Sprintf(`{"destinations":["https://A.example/1",{"id":"%s","enabled":false},{"url":"https://c.example"}]}`, b)).
		want(200)
	if after.text("destinations.0.id") != a || after.text("destinations.1.id") != b ||
		after.text("destinations.1.state") != "disabled" ||
		after.text("destinations.1.state_reason") != "manual" || after.get("destinations.1.max_in_flight") != 7.0 {
		t.Errorf("%s", after.raw)
	}
	if after.get("destinations.0.signing.secret") != nil ||
		!strings.HasPrefix(after.text("destinations.2.signing.secret"), "whsec_") {
		t.Errorf("secrets: %s", after.raw)
	}
	c.do("PATCH", target, `{"destinations":[]}`).wantError(400, "invalid_request", "destinations")
	c.do("PATCH", target, `{"destinations":[{"id":"dst_nope"}]}`).wantError(400, "invalid_request", "destinations[0].id")
	c.do("PATCH", target, `{"destinations":[{"enabled":true}]}`).wantError(400, "invalid_request", "destinations[0].url")
	c.do("PATCH", target, fmt.Sprintf(`{"destinations":[{"id":"%s"},{"id":"%s"}]}`, a, a)).wantError(
		400, "invalid_request", "destinations[1]")
	// All or nothing: an error in the last entry leaves the first one unchanged.
	c.do("PATCH", target, `{"name":"changed","destinations":["https://x.example","http://y.example"]}`).wantError(
		400, "invalid_request", "destinations[1].url")
	if read := c.do("GET", target, nil); read.text("name") == "changed" || read.text("destinations.0.id") != a {
		t.Errorf("%s", read.raw)
	}
	removed := c.do("PATCH", target, fmt.Sprintf(`{"destinations":[{"id":"%s"}]}`, a)).want(200)
	if !strings.Contains(removed.text("warnings.0.message"), b) || removed.get("destinations.1") != nil {
		t.Errorf("%s", removed.raw)
	}
}

// A destination or alert webhook at the relay itself is refused, and the error names the member.
func TestDestinationMustNotBeTheRelay(t *testing.T) {
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Egress.OwnURLs = egress.NewOwnURLs("https://relay.example.com", []string{"hooks.example.com"})
	})
	body := `{"destinations":["https://a.example/in/x",{"url":"https://hooks.example.com/in/tok"}]}`
	refused := c.do("POST", "/v1/endpoints", body).wantError(400, "invalid_request", "destinations[1].url")
	is.Has(t, refused.text("error.message"), "points to this relay", "%s", refused.raw)
	c.do("POST", "/v1/endpoints", `{"url":"https://relay.example.com/v1/endpoints/ep_1/test"}`).wantError(
		400, "invalid_request", "url")
	c.do("POST", "/v1/endpoints", `{"url":"https://relay.example.com/elsewhere"}`).want(201)
}

func TestProviderSetsDependentDefaults(t *testing.T) {
	c := newClient(t)
	ep := c.do("POST", "/v1/endpoints",
		`{"url":"https://a.example","provider":"stripe","verification":{"secrets":["whsec_one-of-stripe",`+
			`"whsec_two-of-stripe"]}}`).want(201)
	target := "/v1/endpoints/" + ep.text("id")
	if ep.text("type_source") != "body:$.type" || ep.text("verification.type") != "stripe" ||
		ep.get("verification.tolerance_seconds") != 300.0 || ep.text("verification.mode") != "enforce" {
		t.Errorf("%s", ep.raw)
	}
	c.do("PATCH", target, `{"provider":"github"}`).wantError(400, "invalid_request", "provider")
	c.do("PATCH", target, `{"verification":{"type":"github","secret":"x"}}`).wantError(
		400, "invalid_request", "verification.type")
	after := c.do("PATCH", target, `{"provider":"github","verification":{"type":"github","secret":"x"}}`).want(200)
	if after.text("type_source") != "header:X-GitHub-Event" || after.text("verification.secret_last4") != "" {
		t.Errorf("%s", after.raw)
	}
	refused := c.do("PATCH", target, `{"type_source":"header:A|header:B|header:C|header:D|header:E"}`).want(400)
	if refused.text("error.param") != "type_source" ||
		!strings.Contains(refused.text("error.message"), "more than 4 alternatives") {
		t.Errorf("five alternatives: %s", refused.raw)
	}
	for source, status := range map[string]int{
		"body:$.type,header:X-Type": 400, "body:$.type, $.kind": 400, "const:a,body:$.type": 400,
		"body:$.a,b|header:X-Type": 200,
	} {
		a := c.do("PATCH", target, `{"type_source":"`+source+`"}`).want(status)
		if status == 400 && (a.text("error.param") != "type_source" ||
			!strings.Contains(a.text("error.message"), "separate them with |")) {
			t.Errorf("%s: %s", source, a.raw)
		}
	}
	if c.do("PATCH", target, `{"type_source":null}`).want(200).get("type_source") != nil {
		t.Error("type_source is still there")
	}
	none := c.do("PATCH", target, `{"provider":"generic","verification":null}`).want(200)
	if none.get("verification") != nil || none.get("type_source") != nil {
		t.Errorf("%s", none.raw)
	}
	refusing := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.ValidateVerification = func(v config.Verification, secrets []string) (string, string) {
			if v.Type == "hmac" && len(secrets) == 1 && secrets[0] == "opened" {
				return "signed_content", "must contain {body}"
			}
			return "", ""
		}
	})
	refusing.do("POST", "/v1/endpoints", `{"url":"https://a.example","verification":{"type":"hmac","secret":"opened"}}`).
		wantError(400, "invalid_request", "verification.signed_content")
}

func TestSingleDestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(nil)
	base := "/v1/endpoints/" + created.text("id") + "/destinations"
	first := base + "/" + created.text("destinations.0.id")
	c.do("DELETE", first, nil).wantError(400, "invalid_request", "destinations")
	c.do("POST", base, nil).wantError(400, "invalid_request", "url")
	c.do("POST", base, `{"url":"http://a.example"}`).wantError(400, "invalid_request", "url")
	second := c.do("POST", base, `{"url":"https://b.example","name":"b"}`).want(201)
	if second.text("object") != "destination" || !strings.HasPrefix(second.text("signing.secret"), "whsec_") ||
		second.text("state") != "active" {
		t.Errorf("%s", second.raw)
	}
	patched := c.do("PATCH", base+"/"+second.text("id"), `{"timeout_seconds":3,"unknown":1}`).want(200)
	if patched.get("timeout_seconds") != 3.0 || patched.text("name") != "b" || patched.get("signing.secret") != nil ||
		patched.text("warnings.0.param") != "unknown" {
		t.Errorf("%s", patched.raw)
	}
	c.do("PATCH", base+"/"+second.text("id"), `{"timeout_seconds":61}`).wantError(
		400, "invalid_request", "timeout_seconds")
	gone := c.do("DELETE", base+"/"+second.text("id"), nil).want(200)
	if gone.get("deleted") != true || gone.text("object") != "destination" || gone.text("id") != second.text("id") {
		t.Errorf("%s", gone.raw)
	}
	c.do("DELETE", base+"/"+second.text("id"), nil).wantError(404, "not_found", "")
	for range 49 {
		c.do("POST", base, `{"url":"https://b.example"}`).want(201)
	}
	c.do("POST", base, `{"url":"https://b.example"}`).wantError(400, "invalid_request", "destinations")
}

func TestRotateSecret(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 0, 0, 0, time.UTC)
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Now = func() time.Time { return now } })
	created := c.endpoint(nil)
	ep, dst := created.text("id"), created.text("destinations.0.id")
	target := "/v1/endpoints/" + ep + "/destinations/" + dst + "/rotate_secret"
	secrets := func() (texts []string, until []time.Time) {
		e, _ := configuration.Endpoint(ep)
		for _, s := range e.Destination(dst).Secrets {
			text := must.Get(keyring().OpenString(dst, seal.FieldSecret, s.Secret))(t)
			texts, until = append(texts, text), append(until, s.Until)
		}
		return texts, until
	}
	old := created.text("destinations.0.signing.secret")
	rotated := c.do("POST", target, nil).want(200).text("signing.secret")
	texts, until := secrets()
	if _, err := sign.ParseSecret(rotated); err != nil || len(texts) != 2 || texts[0] != rotated || texts[1] != old ||
		!until[0].IsZero() || !until[1].Equal(now.Add(24*time.Hour)) {
		t.Errorf("%v %v %v", texts, until, err)
	}
	second := c.do("POST", target, `{"overlap_seconds":604800}`).want(200)
	again := second.text("signing.secret")
	if texts, _ = secrets(); len(texts) != 2 || texts[0] != again || texts[1] != rotated {
		t.Errorf("%v", texts)
	}
	if text := second.text("warnings.0.message"); second.text("warnings.0.param") != "overlap_seconds" ||
		!strings.HasPrefix(text, "the overlap of the secret that ends with "+old[len(old)-4:]+
			", until 2026-08-22T22:00:00.000Z, ends now") {
		t.Errorf("a shorter overlap: %s", second.raw)
	}
	now = now.Add(8 * 24 * time.Hour) // the overlap of the second rotation is over
	third := c.do("POST", target, `{"overlap_seconds":0}`).want(200)
	last := third.text("signing.secret")
	if third.get("warnings") != nil {
		t.Errorf("%s", third.raw)
	}
	if texts, _ = secrets(); len(texts) != 1 || texts[0] != last {
		t.Errorf("%v", texts)
	}
	for _, bad := range []string{"-1", "604801", "1.5", `"1"`} {
		c.do("POST", target, `{"overlap_seconds":`+bad+`}`).wantError(400, "invalid_request", "overlap_seconds")
	}
}

// A destination may get Ed25519 signatures: nobody sees the private key, everyone may read the public one. The
// algorithm changes by a rotation, with both signatures, or at once.
func TestSigningWithEd25519(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 0, 0, 0, time.UTC)
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Now = func() time.Time { return now } })
	created := c.do("POST", "/v1/endpoints",
		`{"destinations":[{"url":"https://a.example","signing":{"algorithm":"ed25519"}}]}`).want(201)
	ep, dst := created.text("id"), created.text("destinations.0.id")
	first := created.text("destinations.0.signing.public_key")
	if created.text("destinations.0.signing.algorithm") != "ed25519" || !strings.HasPrefix(first, "whpk_") ||
		created.get("destinations.0.signing.secret") != nil || strings.Contains(string(created.raw), "whsk_") {
		t.Errorf("%s", created.raw)
	}
	target := "/v1/endpoints/" + ep + "/destinations/" + dst
	keys := func(query string) (x []string) {
		a := c.do("GET", "/.well-known/jwks.json"+query, nil).want(200)
		for i := range a.get("keys").([]any) {
			at := fmt.Sprintf("keys.%d.", i)
			if a.text(at+"kty") != "OKP" || a.text(at+"crv") != "Ed25519" || a.text(at+"use") != "sig" ||
				a.text(at+"alg") != "EdDSA" || len(a.text(at+"kid")) != 43 {
				t.Errorf("%s", a.raw)
			}
			raw, err := base64.RawURLEncoding.DecodeString(a.text(at + "x"))
			is.OK(t, err)
			x = append(x, "whpk_"+base64.StdEncoding.EncodeToString(raw))
		}
		return x
	}
	of := "?endpoint_id=" + ep
	is.List(t, keys(of), []string{first}, "the keys")
	if got := keys(""); !slices.Contains(got, first) {
		t.Errorf("all keys are %q", got)
	}
	c.do("GET", "/.well-known/jwks.json?endpoint_id=ep_nope", nil).wantError(404, "not_found", "")

	second := c.do("POST", target+"/rotate_secret", `{}`).want(200).text("signing.public_key")
	if got := keys(of); second == first || !slices.Equal(got, []string{second, first}) {
		t.Errorf("during the overlap the keys are %q", got)
	}
	back := c.do("POST", target+"/rotate_secret", `{"algorithm":"hmac-sha256"}`).want(200)
	if !strings.HasPrefix(back.text("signing.secret"), "whsec_") || back.get("signing.public_key") != nil ||
		back.text("signing.algorithm") != "hmac-sha256" {
		t.Errorf("%s", back.raw)
	}
	is.List(t, keys(of), []string{second}, "before the end of the overlap the keys")
	now = now.Add(25 * time.Hour)
	if got := keys(of); len(got) != 0 {
		t.Errorf("after the overlap the keys are %q", got)
	}
	// A read that is sent back changes nothing; another algorithm, or another key, is used at once.
	read := c.do("GET", "/v1/endpoints/"+ep, nil).want(200)
	c.do("PATCH", "/v1/endpoints/"+ep, string(read.raw)).want(200)
	atOnce := c.do("PATCH", target, `{"signing":{"algorithm":"ed25519"}}`).want(200)
	given := sign.New(sign.Ed25519)
	moved := c.do("PATCH", target, `{"signing":{"secret":"`+given.Reveal()+`"}}`).want(200)
	if atOnce.text("signing.public_key") == "" || moved.text("signing.public_key") != *given.PublicText() {
		t.Errorf("%s %s", atOnce.raw, moved.raw)
	}
	if masked := c.do("PATCH", target, `{"signing":{"secret":"`+given.String()+`"}}`).want(200); masked.text(
		"signing.public_key") != *given.PublicText() {
		t.Errorf("%s", masked.raw)
	}
	c.do("PATCH", target, `{"signing":{"algorithm":"rsa"}}`).wantError(400, "invalid_request", "signing.algorithm")
	c.do("PATCH", target, `{"signing":{"algorithm":"ed25519","secret":"`+sign.NewSecret().Reveal()+`"}}`).wantError(
		400, "invalid_request", "signing.algorithm")
	c.do("PATCH", target, `{"signing":{"secret":"whsk_AAAA"}}`).wantError(400, "invalid_request", "signing.secret")
	c.do("POST", target+"/rotate_secret", `{"algorithm":1}`).wantError(400, "invalid_request", "algorithm")
	c.do("PATCH", "/v1/alerts", `{"channels":{"webhook":{"url":"https://a.example","secret":"`+given.Reveal()+`"}}}`).
		wantError(400, "invalid_request", "channels.webhook.secret")
}

// Endpoints are found by what people know of them. What is masked for some keys, or often a credential, finds nothing.
func TestFindEndpoints(t *testing.T) {
	c := newClient(t)
	first := c.endpoint(map[string]any{"name": "Shop of ZEBRA 17", "description": "Bestellungen für Giraffen",
		"metadata":     map[string]any{"customer": "cus_okapi"},
		"verification": map[string]any{"type": "github", "secret": "quagga"},
		"destinations": []any{
			map[string]any{"url": "https://hooks.wombat.example.com:8443/numbat?key=bilby", "name": "Warehouse of emus",
				"headers": map[string]any{"X-Key": "dingo"}}}})
	ingestURL := first.text("ingest_url")
	token := path.Base(ingestURL)
	second := c.endpoint(map[string]any{"name": "shop of zebra 18", "description": nil,
		"destinations": []any{map[string]any{"url": "https://känguru.example.com/"}}})
	one, both := []string{first.text("id")}, []string{second.text("id"), first.text("id")}
	for q, want := range map[string][]string{
		"zebra": both, "Zebra 17": one, "GIRAFFEN": one, "für": one, "FÜR": one, "okapi": one, "emus": one,
		"wombat.example": one, "wombat.example.com:8443": one, "https://HOOKS.wombat.example.com:8443/other": one,
		"https://hooks.wombat.example.com/other": one, "KÄNGURU.": both[:1], "xn--knguru": both[:1],
		ingestURL: one, ingestURL + "?a=b": one, ingestURL + "/": one, ingestURL + "#x": one,
		"https://känguru.example.com:443/x": both[:1], token: nil, "/in/" + token: one, "/in/" + token[1:]: nil,
		first.text("id"): one, first.text("destinations.0.id"): one, first.text("id")[:20]: nil,
		"quagga": nil, "numbat": nil, "bilby": nil, "dingo": nil, "customer": nil, "zebra%": nil,
	} {
		page := c.do("GET", "/v1/endpoints?q="+url.QueryEscape(q), nil).want(200)
		var got []string
		for _, row := range page.get("data").([]any) {
			got = append(got, row.(map[string]any)["id"].(string))
		}
		is.List(t, got, want, "%q finds", q)
	}
	c.do("PATCH", "/v1/endpoints/"+first.text("id"), map[string]any{"description": "posts to " + ingestURL}).want(200)
	for _, x := range []struct {
		c    *client
		rows int
	}{{c, 1}, {c.as(readKey), 0}} { // the description masks the token for a key that may only read
		found := x.c.do("GET", "/v1/endpoints?q=/in/"+token[:8], nil).want(200).get("data").([]any)
		is.Equal(t, len(found), x.rows, "the beginning of a token finds … endpoints")
	}
	stranger := &config.Key{ID: "usr_1", Account: "acc_1", Scope: config.Read}
	a := c.call(stranger, "GET", "/v1/endpoints?q="+url.QueryEscape(ingestURL), nil, "").want(200)
	if rows := a.get("data").([]any); len(rows) != 0 {
		t.Errorf("another account finds %s", a.raw)
	}
	page := c.do("GET", "/v1/endpoints?limit=1&q=of+zebra", nil).want(200)
	cursor := page.text("next_cursor")
	next := c.do("GET", "/v1/endpoints?limit=1&q=of+zebra&cursor="+cursor, nil).want(200)
	if page.text("data.0.id") != both[0] || next.text("data.0.id") != both[1] || next.get("next_cursor") != nil {
		t.Errorf("pages %s and %s", page.raw, next.raw)
	}
	c.do("GET", "/v1/endpoints?q=zebra&cursor="+cursor, nil).wantError(400, "invalid_request", "cursor")
	c.do("GET", "/v1/endpoints?q[]=zebra", nil).wantError(400, "invalid_request", "q[]")
	for _, bad := range []string{"q=%ff", "q=a&q=b", "q=" + strings.Repeat("a", 201)} {
		c.do("GET", "/v1/endpoints?"+bad, nil).wantError(400, "invalid_request", "q")
	}
}

// laggingConfiguration is the configuration log of a node that knows the newest endpoints only after Sync.
type laggingConfiguration struct {
	*config.Control
	caughtUp bool
}

func (b *laggingConfiguration) Sync(ctx context.Context) error {
	b.caughtUp = true
	return b.Control.Sync(ctx)
}

func (b *laggingConfiguration) Endpoint(id string) (*config.Endpoint, entity.Presence) {
	if !b.caughtUp {
		return nil, entity.Unknown
	}
	return b.Control.Endpoint(id)
}

func (b *laggingConfiguration) Endpoints(account string, before int64, limit int) ([]*config.Endpoint, bool) {
	if !b.caughtUp {
		return nil, false
	}
	return b.Control.Endpoints(account, before, limit)
}

// heldConfiguration is a configuration whose searches of endpoints begin, and go on when the test lets them.
type heldConfiguration struct {
	*config.Control
	begun, goOn chan struct{}
}

func (b *heldConfiguration) EndpointsWhere(account string, before int64, limit int,
	match func(*config.Endpoint) (yes, stop bool)) ([]*config.Endpoint, bool) {
	b.begun <- struct{}{}
	<-b.goOn
	return b.Control.EndpointsWhere(account, before, limit, match)
}

// A node searches endpoints for two requests at a time and refuses others.
func TestTwoSearchesOfEndpointsAtATime(t *testing.T) {
	newClient(t).endpoint(map[string]any{"name": "one of many"})
	held := &heldConfiguration{Control: configuration, begun: make(chan struct{}, 3), goOn: make(chan struct{})}
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Config = held })
	done := make(chan *answer, 2)
	for range 2 {
		go func() { done <- c.do("GET", "/v1/endpoints?limit=1&q=of+many", nil) }()
		select {
		case <-held.begun:
		case a := <-done:
			t.Fatalf("no search: %s", a.raw)
		}
	}
	c.do("GET", "/v1/endpoints?q=other", nil).wantError(429, "rate_limited", "")
	c.do("GET", "/v1/endpoints?limit=1", nil).want(200) // no search
	close(held.goOn)
	for range 2 {
		if a := (<-done).want(200); len(a.get("data").([]any)) != 1 {
			t.Errorf("the search finds %s", a.raw)
		}
	}
	c.do("GET", "/v1/endpoints?q=other", nil).want(200)
}

// What one node has answered is visible on the next node, even if that node has not applied it yet.
func TestNewEndpointOnAnotherNode(t *testing.T) {
	id := newClient(t).endpoint(nil).text("id")
	other := func(method, target string, body any) *answer {
		return newClient(t, func(_ *api.Config, d *api.Deps) { d.Config = &laggingConfiguration{Control: configuration} }).
			do(method, target, body)
	}
	if a := other("GET", "/v1/endpoints?limit=1", nil).want(200); len(a.get("data").([]any)) != 1 {
		t.Errorf("the list has no endpoint: %s", a.raw)
	}
	other("GET", "/v1/endpoints/"+id, nil).want(200)
	other("PATCH", "/v1/endpoints/"+id, `{"name":"x"}`).want(200)
	other("POST", "/v1/endpoints/"+id+"/events", `{"type":"a","data":{}}`).want(202)
}

// A node that is cut off does not know whether another one has made an endpoint.
func TestNewEndpointOnANodeThatIsCutOff(t *testing.T) {
	id := newClient(t).endpoint(nil).text("id")
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Config = cutOff{&laggingConfiguration{Control: configuration}}
	})
	c.do("GET", "/v1/endpoints/"+id, nil).wantError(503, "unavailable", "")
	c.do("POST", "/v1/endpoints/"+id+"/events", `{"type":"a","data":{}}`).wantError(503, "unavailable", "")
	c.do("GET", "/v1/endpoints", nil).want(200)
}

// cutOff does not reach the log.
type cutOff struct{ *laggingConfiguration }

func (cutOff) Sync(context.Context) error { return errors.New("no answer") }

func TestLimitRules(t *testing.T) {
	c := newClient(t)
	for _, good := range []string{"", "1", "100", "101", "99999999999999999999"} {
		c.do("GET", "/v1/events?limit="+good, nil).want(200)
		want := 50
		if good != "" {
			want = map[string]int{"1": 1}[good]
			if want == 0 {
				want = 100
			}
		}
		is.Equal(t, c.fake.queries[len(c.fake.queries)-1].Limit, want, "limit=%s asks for", good)
	}
	for _, bad := range []string{"0", "-1", "x", "1.5", "1e1", "+1", "%201", "1&limit=2"} {
		c.do("GET", "/v1/events?limit="+bad, nil).wantError(400, "invalid_request", "limit")
		c.do("GET", "/v1/endpoints?limit="+bad, nil).wantError(400, "invalid_request", "limit")
	}
}

// Only sends depend on the limiter store, which is missing here; every other route works.
func TestIdempotencyKey(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	body := `{"type":"a","data":{},"url":"https://a.example"}`
	send := "/v1/endpoints/" + ep + "/events"
	for _, target := range []string{
		"/v1/endpoints", send, "/v1/endpoints/" + ep + "/destinations", "/v1/events/" + c.send(ep) + "/replay",
		"/v1/replays"} {
		a := c.do("POST", target, body, "Idempotency-Key", strings.Repeat("k", 255))
		if got := a.Header.Get("Idempotency-Status"); (got == "unavailable") != (target == send) {
			t.Errorf("%s: Idempotency-Status %q", target, got)
		}
		is.Equal(t, c.do("POST", target, body).Header.Get("Idempotency-Status"), "",
			"%s without a key: Idempotency-Status", target)
		for _, bad := range []string{"", strings.Repeat("k", 256), "ä"} {
			c.do("POST", target, body, "Idempotency-Key", bad).wantError(400, "invalid_request", "Idempotency-Key")
		}
	}
}

// A name that resolves to a private address gets a warning only, because the delivery checks the address when it
// connects. The name server answers every question with 10.0.0.7.
func TestDestinationResolvingToPrivateAddressWarns(t *testing.T) {
	resolver := &net.Resolver{PreferGo: true, Dial: fakeDNS(netip.MustParseAddr("10.0.0.7"))}
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Resolver = resolver })
	a := c.do("POST", "/v1/endpoints", `{"destinations":["https://inside.example/h"]}`).want(201)
	if a.text("warnings.0.param") != "destinations[0].url" ||
		!strings.Contains(a.text("warnings.0.message"), "inside.example") {
		t.Errorf("%s", a.raw)
	}
	one := c.do("POST", "/v1/endpoints/"+a.text("id")+"/destinations", `{"url":"https://second.inside.example/h"}`).
		want(201)
	is.Equal(t, one.text("warnings.0.param"), "url", "a warning about one destination: %s", one.raw)
	again := c.do("PATCH", "/v1/endpoints/"+a.text("id"), `{"name":"x"}`).want(200)
	if again.get("warnings") != nil {
		t.Errorf("a name that was there before is looked up again: %s", again.raw)
	}
	// The number of resolved names per minute is limited.
	now := time.Date(2026, 8, 21, 22, 0, 0, 0, time.UTC)
	c = newClient(t, func(_ *api.Config, d *api.Deps) { d.Resolver, d.Now = resolver, func() time.Time { return now } })
	target := "/v1/endpoints/" + c.endpoint(nil).text("id")
	warned := 0
	for i := range 20 {
		var urls []string
		for j := range 4 { // as many as one request resolves
			urls = append(urls, fmt.Sprintf("https://n%d-%d.inside.example", i, j))
		}
		a := c.do("PATCH", target, map[string]any{"destinations": urls}).want(200)
		warned += strings.Count(string(a.raw), "not public")
	}
	if warned != 60-1 { // one was resolved when the endpoint was created
		t.Errorf("%d names were resolved in a minute, want 60", warned+1)
	}
	now = now.Add(time.Minute)
	if c.do("PATCH", target, `{"destinations":["https://later.inside.example"]}`).want(200).get("warnings.4") == nil {
		t.Error("a minute later none is")
	}
}

func TestRates(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 0, 0, 0, time.UTC)
	c := newClient(t, withRates(2, 0, 0), func(_ *api.Config, d *api.Deps) { d.Now = func() time.Time { return now } })
	for i, want := range []int{200, 200, 429, 429} {
		a := c.do("GET", "/v1/me", nil).want(want)
		if a.Header.Get("X-RateLimit-Limit") != "2" || a.Header.Get("X-RateLimit-Remaining") != []string{
			"1", "0", "0", "0"}[i] || a.Header.Get("X-RateLimit-Reset") != "1" {
			t.Errorf("call %d: %v", i, a.Header)
		}
	}
	c.as(readKey).do("GET", "/v1/me", nil).want(200) // another key has its own bucket
	c.endpoint(nil)                                  // and so does another class of requests
	now = now.Add(500 * time.Millisecond)
	c.do("GET", "/v1/me", nil).want(200)
	c.do("GET", "/v1/me", nil).want(429)
	now = now.Add(-time.Hour)
	c.do("GET", "/v1/me", nil).want(429)
	now = now.Add(time.Minute)
	c.do("GET", "/v1/me", nil).want(200)
}

func TestNewReportsEveryInvalidSetting(t *testing.T) {
	_, err := api.New(api.Config{BaseURL: "relay.example.com/", RateRead: -1}, api.Deps{})
	all := []string{"base URL", "max body", "retention", "rates"}
	optional := []string{"Egress", "Areas", "Refusals", "Resolver", "Metrics", "Ready"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[api.Deps]()) {
		if !f.Anonymous && !slices.Contains(optional, f.Name) {
			all = append(all, "api dependency "+f.Name+" is missing")
		}
	}
	for _, want := range all {
		is.Failed(t, err, want, "does not name %s", want)
	}
}

// A list that ignored a misspelled filter would show the wrong rows.
func TestUnknownParametersAreRefused(t *testing.T) {
	c := newClient(t)
	for _, list := range []string{"/v1/endpoints", "/v1/events", "/v1/replays", "/v1/recoveries", "/v1/fixtures",
		"/v1/drains", "/v1/domains", "/v1/dsns", "/v1/scans", "/v1/tripwires", "/v1/findings", "/v1/audit",
		"/v1/alerts/history", "/v1/usage", "/v1/usage/daily", "/v1/overview"} {
		c.do("GET", list+"?endpont_id=x", nil).wantError(400, "invalid_request", "endpont_id")
	}
}

// A path of a filter that looks like a JSON Pointer or has a wildcard is saved, because a member may have that name,
// with a warning.
func TestPathsOfFiltersThatAreProbablyWrongHaveAWarning(t *testing.T) {
	c := newClient(t)
	for _, path := range []string{"/data/a~1b", "data.a.*", "items[0].id"} {
		a := c.do("POST", "/v1/endpoints", map[string]any{"destinations": []any{map[string]any{
			"url": "https://a.example", "filter": map[string]any{"body": map[string]any{path: 1, "a": 2}}}}}).want(201)
		if got := a.text("warnings.0.param"); got != "destinations[0].filter.body."+path ||
			!strings.Contains(a.text("warnings.0.message"), "literal") || a.get("warnings.1") != nil {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	queue := `"sqs":{"queue_url":"https://sqs.eu-central-1.amazonaws.com/1/a","access_key_id":"a","secret_access_key":"b",
		"group":"body:$.items[0].id"}`
	warned := c.do("POST", "/v1/endpoints", `{"type_source":"header:X-Type|body:$.items[0].type",
		"dedup":{"key":"body:$.a[*]"},
		"destinations":[{"url":"https://a.example","ordering":{"by":"body:$.items[0].id"}},{`+queue+`}]}`).want(201)
	for i, param := range []string{"type_source", "dedup.key", "destinations[0].ordering.by",
		"destinations[1].sqs.group"} {
		if !strings.Contains(string(warned.raw), `"param":"`+param+`"`) || warned.get(fmt.Sprintf("warnings.%d", i)) == nil {
			t.Errorf("no warning of %s: %s", param, warned.raw)
		}
	}
	a := c.do("POST", "/v1/endpoints",
		`{"destinations":[{"url":"https://a.example","filter":{"body":{"$./a":1}}}]}`).want(201)
	if a.get("warnings") != nil {
		t.Errorf("%s", a.raw)
	}
}

// Patterns and conditions of filters are saved as they were sent, and refused with the place of what is wrong.
func TestRulesOfFilters(t *testing.T) {
	c := newClient(t)
	made := c.do("POST", "/v1/endpoints", `{"destinations":[{"url":"https://a.example","filter":{"types":["order.*"],
		"match":{"body":{"n":{"$gte":1.50}}},"when":"body.n > 1 && type != \"\""}}]}`).want(201)
	path := "/v1/endpoints/" + made.text("id") + "/destinations/" + made.text("destinations.0.id")
	a := c.do("GET", "/v1/endpoints/"+made.text("id"), "").want(200)
	is.Equal(t, a.text("destinations.0.filter.when"), `body.n > 1 && type != ""`)
	is.Has(t, string(a.raw), `"match":{"body":{"n":{"$gte":1.50}}}`)
	c.do("PATCH", path, `{"filter":{"when":null}}`).want(200)
	c.do("PATCH", path, `{"filter":{"match":null}}`).want(200)
	a = c.do("PATCH", path, `{"filter":{"types":null}}`).want(200)
	is.Equal(t, a.get("filter"), nil)
	for input, want := range map[string][2]string{
		`{"when":"body.n >"}`:                          {"filter.when", "line 1, column 9: Syntax error"},
		`{"when":"true &&\n boddy.n"}`:                 {"filter.when", "line 2, column 2: unknown name to 'boddy'"},
		`{"when":"1 + 1"}`:                             {"filter.when", "is int, but must be bool"},
		`{"when":""}`:                                  {"filter.when", "must not be empty"},
		`{"when":5}`:                                   {"filter.when", "must be a string"},
		`{"match":[]}`:                                 {"filter.match", "must be an object"},
		`{"match":{"n":1}}`:                            {"filter.match", "n: is unknown"},
		`{"match":{"body":{"n":{"$above":1}}}}`:        {"filter.match", "body.n.$above: is no operator"},
		`{"when":"` + strings.Repeat("x", 4097) + `"}`: {"filter.when", "4096"},
	} {
		e := c.do("PATCH", path, `{"filter":`+input+`}`).want(400)
		is.Equal(t, e.text("error.param"), want[0], "%s", input)
		is.Has(t, e.text("error.message"), want[1], "%s", input)
	}
}

// A destination has the retry policy of its endpoint until it has one of its own, which begins as that.
func TestRetriesOfADestination(t *testing.T) {
	c := newClient(t)
	e := c.do("POST", "/v1/endpoints", `{"retry_policy":{"strategy":"linear","interval_seconds":7},"destinations":[
		{"url":"https://a.example","retry_policy":{"max_attempts":3}},{"url":"https://b.example"}]}`).want(201)
	e.has(obj{"destinations.0.retry_policy.strategy": "linear", "destinations.0.retry_policy.interval_seconds": 7.0,
		"destinations.0.retry_policy.max_attempts": 3.0, "destinations.1.retry_policy": nil})
	path := "/v1/endpoints/" + e.text("id") + "/destinations/" + e.text("destinations.0.id")
	c.do("PATCH", "/v1/endpoints/"+e.text("id"), `{"retry_policy":{"interval_seconds":9}}`).want(200).has(
		obj{"destinations.0.retry_policy.interval_seconds": 7.0, "destinations.0.retry_policy.retry_on.0": "3xx"})
	c.do("PATCH", path, `{"retry_policy":{"retry_on":[],"strategy":"exponential"}}`).want(200).has(
		obj{"retry_policy.max_attempts": 3.0, "retry_policy.multiplier": 2.0, "retry_policy.retry_on.0": nil})
	c.do("PATCH", path, `{"retry_policy":{"max_attempts":0}}`).
		wantError(400, "invalid_request", "retry_policy.max_attempts")
	c.do("PATCH", path, `{"retry_policy":{"retry_on":["5xx"]}}`).
		wantError(400, "invalid_request", "retry_policy.retry_on[0]")
	c.do("PATCH", path, `{"retry_policy":null}`).want(200).has(obj{"retry_policy": nil})
}

// All names have printable characters only. A name that was saved before is shown and may be sent back.
func TestNamesArePrintable(t *testing.T) {
	c := newClient(t)
	defer c.noRules()
	domain := c.verifiedDomain("names.example.com")
	urls := []any{map[string]any{"url": "https://a.example"}}
	for _, bad := range []string{"n\u202eevil", "two\nlines", "a\tb", "a\u200bb", "a\u2028b", "a\U000e0061b",
		"\U0001f3f4\U000e0068\U000e0069", "a\ufffdb"} {
		for path, body := range map[string]map[string]any{
			"/v1/endpoints": {"name": bad, "destinations": urls},
			"/v1/drains":    {"name": bad},
			"/v1/dsns":      {"name": bad, "platform": "server"},
			"/v1/tripwires": {"label": bad, "domain_id": domain, "kind": "key", "placement": "x"},
		} {
			param := "name"
			if path == "/v1/tripwires" {
				param = "label"
			}
			c.do("POST", path, body).wantError(400, "invalid_request", param)
		}
		c.do("POST", "/v1/endpoints", map[string]any{"destinations": []any{map[string]any{"url": "https://a.example",
			"name": bad}}}).wantError(400, "invalid_request", "destinations[0].name")
		c.do("PATCH", detectionPath, map[string]any{"rules": []any{map[string]any{"id": "custom:inv", "name": bad,
			"prefixes": []string{"inv_live_"}}}}).wantError(400, "invalid_request", "rules[0].name")
	}
	if a := c.do("POST", "/v1/endpoints", map[string]any{"name": "ok\u3000\u202enot", "destinations": urls}).
		want(400); !strings.HasSuffix(a.text("error.message"), "direction marks: it has U+202E") {
		t.Errorf("%s", a.raw)
	}
	scotland := "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
	good := map[string]any{"destinations": urls, "name": "Größe 中文 👍 👩\u200d💻\u00a0b 注文\u3000受信 Commandes\u202fEU " +
		"a\u2009b Auftrags\u00adeingang " + scotland}
	made := c.do("POST", "/v1/endpoints", good).want(201)
	if made.text("name") != good["name"] {
		t.Errorf("%s", made.raw)
	}
	target, old := "/v1/endpoints/"+made.text("id"), "old\nname"
	if _, err := configuration.UpdateEndpoint(t.Context(), made.text("id"), func(e *config.Endpoint) error {
		e.Name, e.Destinations[0].Name = old, &old
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	saved := c.do("GET", target, nil).want(200)
	if saved.text("name") != old || saved.text("destinations.0.name") != old {
		t.Errorf("%s", saved.raw)
	}
	c.do("PATCH", target, string(saved.raw)).want(200)
	c.do("PATCH", target, map[string]any{"name": old + "r"}).wantError(400, "invalid_request", "name")
	if a := c.do("PATCH", target, `{"destinations":[{"id":"`+saved.text("destinations.0.id")+`","name":null}]}`).
		want(200); a.get("destinations.0.name") != nil {
		t.Errorf("%s", a.raw)
	}
}

// Disabling a destination ends what waits for it, for good. The answer says so, once, and not of a new destination.
func TestDisablingADestinationWarns(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	target, dest := "/v1/endpoints/"+ep.text("id"), ep.text("destinations.0.id")
	f := func(path string, param any, body string) {
		t.Helper()
		a := c.do("PATCH", path, body).want(200)
		text, _ := a.get("warnings.0.message").(string)
		if a.get("warnings.0.param") != param || (param != nil) != strings.Contains(text, "end as skipped") {
			t.Errorf("%s", a.raw)
		}
	}
	f(target+"/destinations/"+dest, "enabled", `{"enabled":false}`)
	f(target+"/destinations/"+dest, nil, `{"enabled":false,"name":"off"}`)
	f(target+"/destinations/"+dest, nil, `{"enabled":true}`)
	f(target, "destinations[0].enabled", `{"destinations":[{"id":"`+dest+`","enabled":false}]}`)
	f(target, nil, `{"destinations":[{"id":"`+dest+`"},{"url":"https://new.example","enabled":false}]}`)
}

// A new endpoint deduplicates by the delivery id of its provider, unless the request says otherwise. A change of an
// endpoint does not turn it on.
func TestProviderDefaults(t *testing.T) {
	c := newClient(t)
	f := func(members, key string) string {
		t.Helper()
		created := c.do("POST", "/v1/endpoints", `{"url":"https://example.com/h",`+members+`}`).want(201)
		if got, _ := created.get("dedup.key").(string); got != key {
			t.Errorf("%s: dedup by %q, want %q", members, got, key)
		}
		return created.text("id")
	}
	f(`"provider":"github"`, "header:X-GitHub-Delivery")
	f(`"provider":"linear"`, "header:Linear-Delivery")
	f(`"verification":{"type":"stripe","secret":"0123456789abcdef"}`, "body:$.id")
	f(`"provider":"github","dedup":null`, "")
	f(`"provider":"github","dedup":{"key":"body:$.x"}`, "body:$.x")
	f(`"provider":"zoom"`, "")
	id := f(`"provider":"generic"`, "")
	if got := c.do("PATCH", "/v1/endpoints/"+id, `{"provider":"github"}`).want(200).get("dedup"); got != nil {
		t.Errorf("a change turned deduplication on: %v", got)
	}
}

// The secrets of a destination's settings are sealed, shown as masks, and kept by them. Nobody who does not know them
// can have them sent to another address.
func TestSettingsOfADestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/h",
		"auth": map[string]any{"type": "oauth2_client_credentials", "token_url": "https://login.example.com/token",
			"client_id": "relay", "client_secret": "planted-secret-1", "username": "of another type"}}}})
	endpoint := "/v1/endpoints/" + created.text("id")
	dest := endpoint + "/destinations/" + created.text("destinations.0.id")
	stored := func() string {
		e, presence := configuration.Endpoint(created.text("id"))
		must.Equal(t, presence, entity.Present)
		return string(must.Get(json.Marshal(e.Destinations[0]))(t))
	}
	first := stored()
	read := c.do("GET", endpoint, nil).want(200)
	for where, text := range map[string]string{"log": first, "answer": string(read.raw), "lines": c.log.String()} {
		if strings.Contains(text, "planted") || strings.Contains(text, "of another type") {
			t.Errorf("%s: %s", where, text)
		}
	}
	is.Equal(t, read.text("destinations.0.auth.client_secret"), "****et-1", "the secret is shown as")
	for _, same := range []string{string(must.Get(json.Marshal(read.get("destinations.0")))(t)),
		`{"auth":{"client_secret":"****et-1"}}`, `{"auth":{"client_secret":"planted-secret-1"}}`,
		`{"auth":{"client_auth":"header"}}`} {
		if c.do("PATCH", dest, same).want(200); stored() != first {
			t.Errorf("%s has changed it", same)
		}
	}
	f := func(body, param string) {
		t.Helper()
		c.do("PATCH", dest, body).wantError(400, "invalid_request", param)
	}
	f(`{"url":"https://elsewhere.example.com/h"}`, "auth.client_secret")
	f(`{"auth":{"token_url":"https://elsewhere.example.com/token"}}`, "auth.client_secret")
	f(`{"auth":{"token_url":"http://login.example.com/token"}}`, "auth.token_url")
	f(`{"auth":{"token_url":"https://10.0.0.1/token"}}`, "auth.token_url")
	f(`{"auth":{"client_secret":"****abcd"}}`, "auth.client_secret")
	f(`{"auth":{"client_secret":null}}`, "auth.client_secret")
	f(`{"auth":{"type":"digest"}}`, "auth.type")
	f(`{"auth":{"type":"basic","username":"a"}}`, "auth.password")
	f(`{"auth":{"type":"basic","username":"a:b","password":"c"}}`, "auth.username")
	f(`{"auth":{"type":"mtls","certificate":"c","key":"k"}}`, "auth.key")
	is.Equal(t, stored(), first, "a refused change was stored")
	c.do("PATCH", dest, `{"auth":{"token_url":"https://elsewhere.example.com/token","client_secret":"planted-secret-2"}}`).
		want(200)
	c.do("PATCH", dest, `{"auth":{"type":"basic","username":"a","password":"short"}}`).want(200)
	if read = c.do("GET", endpoint, nil).want(200); read.text("destinations.0.auth.password") != "****" ||
		strings.Contains(string(read.raw), "token_url") {
		t.Errorf("%s", read.raw)
	}
	c.do("PATCH", dest, `{"auth":null}`).want(200)
	is.Lacks(t, stored(), "auth")
}

// A destination of another kind has the address of its settings in place of a URL, and stays of its kind.
func TestKindsOfDestinations(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []any{"https://example.com/h", map[string]any{
		"name": "topic", "kafka": map[string]any{"brokers": []string{"kafka.example.com:9093", "10.example.com:9093"},
			"topic": "orders", "sasl": "plain", "username": "relay", "password": "planted-secret-1"}}}})
	endpoint := "/v1/endpoints/" + created.text("id")
	dest := func(i string) string { return endpoint + "/destinations/" + created.text("destinations."+i+".id") }
	read := c.do("GET", endpoint, nil).want(200)
	if url, kafka := read.text("destinations.1.url"), read.get("destinations.1.kafka").(map[string]any); url !=
		"kafka://kafka.example.com:9093/orders" || kafka["password"] != "****et-1" || kafka["key"] != "event_id" ||
		kafka["max_record_bytes"] != 1e6 || read.get("destinations.0.kafka") != nil {
		t.Errorf("%s", read.raw)
	}
	before, _ := configuration.Endpoint(created.text("id"))
	c.do("PATCH", endpoint, string(read.raw)).want(200)
	c.do("PATCH", dest("1"), string(must.Get(json.Marshal(read.get("destinations.1")))(t))).want(200)
	if after, _ := configuration.Endpoint(created.text("id")); after.Rev != before.Rev {
		t.Error("a round trip has changed it")
	}
	if c.do("PATCH", dest("1"), `{"kafka":{"topic":"paid"}}`).want(200).text("url") !=
		"kafka://kafka.example.com:9093/paid" {
		t.Error("the address does not follow the topic")
	}
	f := func(path, body, param string) {
		t.Helper()
		c.do(map[bool]string{true: "POST", false: "PATCH"}[strings.HasSuffix(path, "destinations")], path, body).
			wantError(400, "invalid_request", param)
	}
	f(dest("1"), `{"url":"https://example.com/h"}`, "url")
	f(dest("1"), `{"kafka":null,"url":"https://example.com/h"}`, "kafka")
	f(dest("0"), `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders"}}`, "kafka")
	f(dest("1"), `{"auth":{"type":"basic","username":"a","password":"b"}}`, "auth")
	f(dest("1"), `{"kafka":{"brokers":["elsewhere.example.com:9093"]}}`, "kafka.password")
	f(dest("1"), `{"kafka":{"sasl":"scram-sha-256"}}`, "kafka.password")
	f(dest("1"), `{"kafka":{"plaintext":true}}`, "kafka.brokers")
	all := endpoint + "/destinations"
	f(all, `{}`, "url")
	f(all, `{"ordering":{"by":"endpoint"}}`, "url")
	f(all, `{"kafka":{}}`, "kafka.brokers")
	f(all, `{"kafka":{"brokers":["kafka.example.com"],"topic":"a"}}`, "kafka.brokers")
	f(all, `{"kafka":{"brokers":["10.0.0.1:9092"],"topic":"a"}}`, "kafka.brokers")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"]}}`, "kafka.topic")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a b"}}`, "kafka.topic")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a","key":"customer"}}`, "kafka.key")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a","sasl":"plain"}}`, "kafka.password")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a","ca":"no PEM"}}`, "kafka.ca")
	c.do("POST", all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a"}}`).want(201)
	const key = `"access_key_id":"a","secret_access_key":"planted-secret-1"`
	f(all, `{"s3":{"bucket":"Events","region":"r",`+key+`}}`, "s3.bucket")
	f(all, `{"s3":{"bucket":"events",`+key+`}}`, "s3.region")
	f(all, `{"s3":{"bucket":"events","region":"r","access_key_id":"a"}}`, "s3.secret_access_key")
	f(all, `{"s3":{"bucket":"events","region":"r","endpoint":"http://a.example.com",`+key+`}}`, "s3.endpoint")
	f(all, `{"s3":{"bucket":"events","region":"r","endpoint":"https://a.example.com/b",`+key+`}}`, "s3.endpoint")
	f(all, `{"s3":{"bucket":"events","region":"r","key":"all.ndjson",`+key+`}}`, "s3.key")
	bucket := c.do("POST", all, `{"s3":{"bucket":"events","region":"eu-central-1",`+key+`}}`).want(201)
	if bucket.text("url") != "s3://events" || bucket.text("s3.secret_access_key") != "****et-1" {
		t.Errorf("%s", bucket.raw)
	}
	f(endpoint+"/destinations/"+bucket.text("id"), `{"s3":{"region":"elsewhere"}}`, "s3.secret_access_key")
}

// The order of a destination, of any kind.
func TestOrderingOfADestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/h",
		"ordering": map[string]any{"by": "body:$.data.id"}}, map[string]any{
		"kafka":    map[string]any{"brokers": []string{"kafka.example.com:9093"}, "topic": "orders"},
		"ordering": map[string]any{"by": "endpoint", "when_failed": "skip"}}}})
	if created.text("destinations.0.ordering.when_failed") != "block" ||
		created.text("destinations.1.ordering.when_failed") != "skip" {
		t.Errorf("%s", created.raw)
	}
	dest := "/v1/endpoints/" + created.text("id") + "/destinations/" + created.text("destinations.0.id")
	warned := func(a *answer, params ...string) {
		t.Helper()
		var got []string
		warnings, _ := a.get("warnings").([]any)
		for _, w := range warnings {
			if param := w.(map[string]any)["param"].(string); strings.Contains(param, "ordering") {
				got = append(got, param)
			}
		}
		is.Same(t, got, params)
	}
	is.Equal(t, created.text("destinations.0.ordering.unverified"), "unordered", "by default")
	warned(created, "destinations[0].ordering", "destinations[1].ordering")
	warned(c.do("PATCH", dest, `{"ordering":{"unverified":"ordered"}}`).want(200), "ordering.unverified")
	warned(c.do("PATCH", dest, `{"timeout_seconds":20}`).want(200))
	for body, param := range map[string]string{
		`{"ordering":{"unverified":"none"}}`:        "ordering.unverified",
		`{"ordering":{"by":"data.id"}}`:             "ordering.by",
		`{"ordering":{"by":"body:$.a|header:X-B"}}`: "ordering.by",
		`{"ordering":{"by":"header:no name"}}`:      "ordering.by",
		`{"ordering":{"by":null}}`:                  "ordering.by",
		`{"ordering":{"when_failed":"stop"}}`:       "ordering.when_failed",
		`{"ordering":"endpoint"}`:                   "ordering",
	} {
		c.do("PATCH", dest, body).wantError(400, "invalid_request", param)
	}
	if c.do("PATCH", dest, `{"ordering":{"when_failed":"skip"}}`).want(200).text("ordering.by") != "body:$.data.id" {
		t.Error("it was not merged")
	}
	if c.do("PATCH", dest, `{"ordering":null}`).want(200).get("ordering") != nil {
		t.Error("null does not end it")
	}
}

// The secrets of a source are sealed, masked and kept, and its brokers are checked. Its answer has the status.
func TestSourceOfAnEndpoint(t *testing.T) {
	c := newClient(t)
	endpoint := "/v1/endpoints/" + c.endpoint(nil).text("id")
	f := func(source, param string) {
		t.Helper()
		c.do("PATCH", endpoint, `{"source":`+source+`}`).wantError(400, "invalid_request", param)
	}
	f(`{}`, "source.kafka")
	f(`{"kafka":{}}`, "source.kafka.brokers")
	f(`{"kafka":{"brokers":["10.0.0.1:9092"],"topic":"orders"}}`, "source.kafka.brokers")
	f(`{"kafka":{"brokers":["kafka.example.com:9093"]}}`, "source.kafka.topic")
	f(`{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders","group":"a b"}}`, "source.kafka.group")
	f(`{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders","start":"now"}}`, "source.kafka.start")
	f(`{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders","sasl":"plain"}}`, "source.kafka.password")
	read := c.do("PATCH", endpoint, `{"source":{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders",
		"sasl":"plain","username":"relay","password":"planted-secret-1"}}}`).want(200)
	if k := read.get("source.kafka").(map[string]any); k["password"] != "****et-1" || k["start"] != "latest" ||
		k["group"] != "eventrelay-"+read.text("id") || read.get("source_status.lag") != 7.0 ||
		read.text("source_status.error") != "topic orders not found" {
		t.Errorf("%s", read.raw)
	}
	before, _ := configuration.Endpoint(read.text("id"))
	if stored := string(must.Get(json.Marshal(before))(t)); strings.Contains(stored+c.log.String(), "planted") {
		t.Error(stored)
	}
	f(`{"kafka":{"brokers":["elsewhere.example.com:9093"]}}`, "source.kafka.password")
	c.do("PATCH", endpoint, string(read.raw)).want(200)
	c.do("PATCH", endpoint, `{"source":{"kafka":{"topic":"orders"}}}`).want(200)
	if after, _ := configuration.Endpoint(read.text("id")); after.Rev != before.Rev {
		t.Error("a round trip has changed it")
	}
	if c.do("PATCH", endpoint, `{"source":null}`).want(200).get("source") != nil {
		t.Error("it has a source still")
	}
}

// The credential of a provider's API is sealed, masked and kept, and its settings are checked. How the last look ended
// can be read.
func TestReconcileOfAnEndpoint(t *testing.T) {
	c := newClient(t)
	generic := "/v1/endpoints/" + c.endpoint(nil).text("id")
	c.do("PATCH", generic, `{"reconcile":{"credential":"rk_test_1"}}`).wantError(400, "invalid_request", "reconcile")
	stripe := "/v1/endpoints/" + c.endpoint(map[string]any{"provider": "stripe"}).text("id")
	github := "/v1/endpoints/" + c.endpoint(map[string]any{"provider": "github"}).text("id")
	for _, x := range [][3]string{
		{stripe, `{}`, "reconcile.credential"},
		{stripe, `{"credential":"rk_test_1","hook":"repos/a/b/hooks/1"}`, "reconcile.hook"},
		{stripe, `{"credential":"rk_test_1","every_seconds":5}`, "reconcile.every_seconds"},
		{stripe, `{"credential":"rk_test_1","since":"yesterday-ish"}`, "reconcile.since"},
		{stripe, `{"credential":"rk_test_1","api_url":"http://10.0.0.1"}`, "reconcile.api_url"},
		{github, `{"credential":"github_pat_1"}`, "reconcile.hook"},
		{github, `{"credential":"github_pat_1","hook":"repos/a/../hooks/1?x="}`, "reconcile.hook"},
	} {
		c.do("PATCH", x[0], `{"reconcile":`+x[1]+`}`).wantError(400, "invalid_request", x[2])
	}
	c.do("PATCH", stripe, `{"dedup":null,"reconcile":{"credential":"rk_test_1"}}`).wantError(400, "invalid_request",
		"reconcile")
	none := c.do("GET", stripe+"/reconciliation", nil).want(200)
	if none.get("at") != nil || none.get("last.found") != 0.0 {
		t.Errorf("%s", none.raw)
	}
	read := c.do("PATCH", stripe, `{"reconcile":{"credential":"rk_test_planted","types":["invoice.paid"]}}`).want(200)
	if k := read.get("reconcile").(map[string]any); k["credential"] != "****nted" || k["every_seconds"] != 300.0 ||
		k["api_url"] != "https://api.stripe.com" || k["since"] == nil {
		t.Errorf("%s", read.raw)
	}
	before, _ := configuration.Endpoint(read.text("id"))
	if stored := string(must.Get(json.Marshal(before))(t)); strings.Contains(stored+c.log.String(), "planted") {
		t.Error(stored)
	}
	is.Equal(t, before.DedupWindow(), 31*24*time.Hour, "events are remembered for")
	c.do("PATCH", stripe, `{"reconcile":{"api_url":"https://elsewhere.example.com"}}`).wantError(400, "invalid_request",
		"reconcile.credential")
	c.do("PATCH", stripe, string(read.raw)).want(200)
	if after, _ := configuration.Endpoint(read.text("id")); after.Rev != before.Rev {
		t.Error("a round trip has changed it")
	}
	status := c.do("GET", stripe+"/reconciliation", nil).want(200)
	if status.get("last.stored") != 1.0 || status.get("total.found") != 9.0 || status.get("failed_in_a_row") != 2.0 ||
		status.text("error") != "api.stripe.com answers 500" || status.text("provider") != "stripe" {
		t.Errorf("%s", status.raw)
	}
	c.do("PATCH", github, `{"reconcile":{"credential":"github_pat_1","hook":"orgs/example/hooks/7"}}`).want(200)
	if c.do("PATCH", stripe, `{"reconcile":null}`).want(200).get("reconcile") != nil {
		t.Error("null does not end it")
	}
}

// What validation accepts and refuses is what the real request does; it creates and changes nothing.
func TestValidateEndpoints(t *testing.T) {
	c := newClient(t)
	members := map[string]any{"name": "only-validated", "destinations": []any{map[string]any{
		"url": "https://example.com/h", "headers": map[string]string{"Authorization": "Bearer 0123456789"}}}}
	target := "/v1/endpoints/validate"
	if a := c.do("POST", target, members).want(200); a.text("object") != "validation" {
		t.Errorf("%s", a.raw)
	}
	c.do("POST", target, `{"url":"https://example.com","retry_policy":{"max_attempts":400}}`).wantError(
		400, "invalid_request", "retry_policy.max_attempts")
	a := c.do("POST", target, `{"url":"https://example.com","nmae":"x"}`).want(200)
	is.Equal(t, a.text("warnings.0.param"), "nmae", "%s", a.raw)
	if list := c.do("GET", "/v1/endpoints?q=only-validated", nil).want(200); len(list.get("data").([]any)) != 0 {
		t.Errorf("%s", list.raw)
	}

	ep := c.do("POST", "/v1/endpoints", members).want(201)
	read := func() *answer { return c.do("GET", "/v1/endpoints/"+ep.text("id"), nil).want(200) }
	before := read()
	target = "/v1/endpoints/" + ep.text("id") + "/validate"
	dst := ep.text("destinations.0.id")
	headers := func(value string) map[string]any {
		return map[string]any{"destinations": []any{map[string]any{"id": dst,
			"headers": map[string]string{"Authorization": value}}}}
	}
	for _, body := range []any{`{"name":"other"}`, string(before.raw), headers("Bearer 9876543210"),
		headers("Bearer 0123456789")} {
		a := c.do("POST", target, body, "If-Match", before.Header.Get("ETag")).want(200)
		if len(a.Body) != 1 { // it does not say whether a guessed secret is right
			t.Errorf("%v: %s", body, a.raw)
		}
	}
	var large []any
	for i := range 50 {
		many := map[string]string{}
		for j := range 9 {
			many[fmt.Sprint("X-", j)] = strings.Repeat("x", 2040)
		}
		large = append(large, map[string]any{"url": fmt.Sprint("https://example.com/", i), "headers": many})
	}
	for path, method := range map[string]string{"/v1/endpoints": "POST", "/v1/endpoints/" + ep.text("id"): "PATCH"} {
		body := map[string]any{"destinations": large}
		real := c.do(method, path, body).want(400).text("error.message")
		if a := c.do("POST", path+"/validate", body).want(400); a.text("error.message") != real {
			t.Errorf("%s instead of %s", a.raw, real)
		}
	}
	c.do("POST", target, `{"retry_policy":{"max_attempts":400}}`).wantError(
		400, "invalid_request", "retry_policy.max_attempts")
	c.do("POST", target, `{"name":"x"}`, "If-Match", `"0"`).wantError(400, "conflict", "if-match")
	c.do("POST", "/v1/endpoints/ep_00000000000000000000000000/validate", `{}`).wantError(404, "not_found", "")
	c.as(readKey).do("POST", target, `{"name":"x"}`).wantError(403, "insufficient_scope", "")
	if after := read(); string(after.raw) != string(before.raw) || after.Header.Get("ETag") != before.Header.Get("ETag") {
		t.Errorf("%s\n%s", before.raw, after.raw)
	}
}

// A validation remembers no Idempotency-Key: the request for the change may come with the same one.
func TestValidationRemembersNoKey(t *testing.T) {
	c := newClient(t)
	body := map[string]any{"url": "https://example.com/h"}
	for _, target := range []string{"/v1/endpoints/validate", "/v1/endpoints"} {
		a := c.do("POST", target, body, "Idempotency-Key", "one")
		if a.Header.Get("Idempotent-Replayed") != "" || a.Status >= 300 {
			t.Errorf("%s: %d %s", target, a.Status, a.raw)
		}
	}
}

// The error of a new endpoint names a member that is unknown: it may be the one that is missing.
func TestErrorNamesAnUnknownMember(t *testing.T) {
	c := newClient(t)
	a := c.do("POST", "/v1/endpoints", `{"naem":"x"}`).wantError(400, "invalid_request", "destinations")
	is.Has(t, a.text("error.message"), `"naem" is an unknown member; did you mean name?`)
}

// A header that is never forwarded may be allowed, with a warning that it is in vain.
func TestNeverForwardedHeadersWarn(t *testing.T) {
	c := newClient(t)
	a := c.do("POST", "/v1/endpoints", map[string]any{"url": "https://example.com/h",
		"allow_headers": []string{"x-shop-id", "x-authenticated-user", "Cf-Access-"}})
	is.Equal(t, a.text("warnings.0.param")+" "+a.text("warnings.1.param"), "allow_headers[1] allow_headers[2]", a.raw)
}
