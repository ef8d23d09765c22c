package dashboard

import (
	"encoding/json"
	"html"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/test/must"
)

// fields returns what a browser sends of the form with that action, unchanged.
func (a *answer) fields(action string) url.Values {
	a.t.Helper()
	_, form, found := strings.Cut(a.body, `action="`+action+`"`)
	if !found {
		a.t.Fatalf("there is no form %s: %s", action, a.main())
	}
	form, _, _ = strings.Cut(form, "</form>")
	values := url.Values{}
	for _, at := range inputTag.FindAllStringSubmatchIndex(form, -1) {
		tag, kind := form[at[0]:at[1]], form[at[2]:at[3]]
		name := nameOf.FindStringSubmatch(tag)
		switch after := form[at[1]:]; {
		case name == nil:
		case kind == "textarea":
			text, _, _ := strings.Cut(strings.TrimPrefix(after, "\n"), "</textarea>")
			values.Add(name[1], strings.ReplaceAll(frame.UnixLines(unescape(text)), "\n", "\r\n")) // as browsers do
		case kind == "select":
			options, _, _ := strings.Cut(after, "</select>")
			if chosen := regexp.MustCompile(`value="([^"]*)" selected`).FindStringSubmatch(options); chosen != nil {
				values.Add(name[1], unescape(chosen[1]))
			} else if first := valueOf.FindStringSubmatch(options); first != nil {
				values.Add(name[1], unescape(first[1]))
			}
		case strings.Contains(tag, `type="checkbox"`) || strings.Contains(tag, `type="radio"`):
			if strings.Contains(tag, " checked") {
				values.Add(name[1], unescape(valueOf.FindStringSubmatch(tag)[1]))
			}
		default:
			value := valueOf.FindStringSubmatch(tag)
			values.Add(name[1], unescape(value[1]))
		}
	}
	return values
}

func unescape(text string) string {
	return html.UnescapeString(text)
}

// A form that is sent as it was drawn changes nothing: neither masks nor new lines are taken for new values.
func TestUnchangedFormsChangeNothing(t *testing.T) {
	for path, page := range map[string]string{
		"/app/endpoints/ep_1/settings": "", "/app/endpoints/ep_1/retries": "",
		"/app/endpoints/ep_1/destinations/dst_1/settings": "",
	} {
		r := newEndpointRig(t)
		b := r.signedIn()
		b.post(path, b.get(path+page).want(200).fields(path)).wantRedirect(path)
		if n := r.changes(); n > 0 {
			t.Errorf("%s: %d changes: %s", path, n, r.api.calls[len(r.api.calls)-1].Body)
		}
	}
}

// Only the members that were changed are sent.
func TestFormsSendOnlyWhatChanged(t *testing.T) {
	const endpoint, destination = "/app/endpoints/ep_1", "/app/endpoints/ep_1/destinations/dst_1/settings"
	for _, x := range []struct {
		path, api string
		change    url.Values
		want      string
	}{
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"name": {"new"}}, `{"name":"new"}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"description": {""}, "enabled": nil},
			`{"description":null,"enabled":false}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"dedup.key": {""}}, `{"dedup":null}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"dedup.window_seconds": {"60"}},
			`{"dedup":{"window_seconds":60}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"ingest_limit.events_per_second": {""}},
			`{"ingest_limit":null}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"ingest_limit.bytes_per_second": {"x"}},
			`{"ingest_limit":{"bytes_per_second":"x"}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"metadata": {`{"a":"b"}`}},
			`{"metadata":{"a":"b","team":null}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"alerts.channels": {"slack"}},
			`{"alerts":{"channels":["slack"]}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"verification.mode": {"off"}}, `{"verification":null}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", // refused: the secret would be lost
			url.Values{"verification.mode": {"off"}, "verification.secret": {"new secret"}},
			`{"verification":{"type":"shopify","mode":"off","tolerance_seconds":300,"secret":"new secret"}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"verification.mode": {"observe"}},
			`{"verification":{"type":"shopify","mode":"observe","tolerance_seconds":300}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1",
			url.Values{"verification.secret": {"new secret"}, "verification.keep": {"true"}},
			`{"verification":{"type":"shopify","mode":"enforce","tolerance_seconds":300,"secrets":["new secret","****c41e"]}}`},
		{endpoint + "/settings", "/v1/endpoints/ep_1", url.Values{"provider": {"generic"}},
			`{"provider":"generic","verification":null}`},
		{endpoint + "/retries", "/v1/endpoints/ep_1", url.Values{"retry_policy.schedule_seconds": {"5, 60 600"}},
			`{"retry_policy":{"schedule_seconds":[5,60,600]}}`},
		{endpoint + "/retries", "/v1/endpoints/ep_1",
			url.Values{"retry_policy.strategy": {"linear"}, "retry_policy.interval_seconds": {"30"}},
			`{"retry_policy":{"strategy":"linear","interval_seconds":30}}`},
		{endpoint + "/retries", "/v1/endpoints/ep_1", url.Values{"retry_policy.retry_on": {""}},
			`{"retry_policy":{"retry_on":[]}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"headers": {"Authorization: ****1234"}},
			`{"headers":{"Authorization":"****1234","X-Team":null}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"auth.username": {"other"}},
			`{"auth":{"username":"other"}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"auth.type": {""}}, `{"auth":null}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"filter.types": {""}, "filter.body": {""}},
			`{"filter":null}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"filter.types": {"a.b\r\nc.*"}},
			`{"filter":{"types":["a.b","c.*"],"body":{"data.paid":true}}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"rate_limit.per_second": {""}},
			`{"rate_limit":null}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1",
			url.Values{"rate_limit.per_second": {"2.5"}, "rate_limit.burst": {""}},
			`{"rate_limit":{"per_second":2.5,"burst":3}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"signing.algorithm": {"ed25519"}},
			`{"signing":{"algorithm":"ed25519"}}`},
		{destination, "/v1/endpoints/ep_1/destinations/dst_1", url.Values{"signing.secret": {"whsec_x"}},
			`{"signing":{"secret":"whsec_x"}}`},
	} {
		r := newEndpointRig(t)
		r.api.on("PATCH "+x.api, 200, sampleEndpoint)
		b := r.signedIn()
		form := b.get(x.path).want(200).fields(x.path)
		for name, values := range x.change {
			form[name] = values
		}
		b.post(x.path, form).wantRedirect(x.path)
		var want map[string]any
		must.Do(t, json.Unmarshal([]byte(x.want), &want))
		if got := r.lastBody("PATCH", x.api); !reflect.DeepEqual(got, want) {
			t.Errorf("%v: the body is %v, want %v", x.change, got, want)
		}
	}
}

// A form that was drawn before somebody else's change saves nothing and shows what is stored now.
func TestStaleEndpointForms(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("PATCH /v1/endpoints/ep_1", 200, sampleEndpoint)
	b := r.signedIn()
	const path = "/app/endpoints/ep_1/settings"
	form := b.get(path).want(200).fields(path)
	form.Set("description", "mine")
	r.api.on("GET /v1/endpoints/ep_1", 200, strings.Replace(sampleEndpoint, `"name":"orders"`, `"name":"theirs"`, 1))
	a := b.post(path, form).want(400, "Somebody changed this", "Stored now: <code>theirs</code>", `value="mine"`)
	if n := r.changes(); n > 0 {
		t.Fatalf("%d changes were made", n)
	}
	b.post(path, a.fields(path)).wantRedirect(path)
	if got := r.lastBody("PATCH", "/v1/endpoints/ep_1"); got["description"] != "mine" || got["name"] != "orders" {
		t.Errorf("the second answer saves %v", got)
	}
}

// Errors of the API stand at the field that they are about, also those of a part of it.
func TestErrorsOfEndpointsStandAtTheirFields(t *testing.T) {
	for _, x := range []struct{ path, api, param, field string }{
		{"/app/endpoints/ep_1/settings", "/v1/endpoints/ep_1", "metadata.team", "metadata"},
		{"/app/endpoints/ep_1/settings", "/v1/endpoints/ep_1", "dedup.key", "dedup.key"},
		{"/app/endpoints/ep_1/retries", "/v1/endpoints/ep_1", "retry_policy.schedule_seconds[1]",
			"retry_policy.schedule_seconds"},
		{"/app/endpoints/ep_1/destinations/dst_1/settings", "/v1/endpoints/ep_1/destinations/dst_1", "headers.X-Team",
			"headers"},
		{"/app/endpoints/ep_1/destinations/dst_1/settings", "/v1/endpoints/ep_1/destinations/dst_1", "filter.types[0]",
			"filter.types"},
	} {
		r := newEndpointRig(t)
		r.api.on("PATCH "+x.api, 400, `{"error":{"type":"invalid_request","param":"`+x.param+`","message":"`+x.param+
			`: is not good"}}`)
		b := r.signedIn()
		form := b.get(x.path).want(200).fields(x.path)
		for _, field := range []string{"name", "retry_policy.max_attempts"} {
			if form.Has(field) {
				form.Set(field, "7")
			}
		}
		b.post(x.path, form).want(400, `id="f-`+x.field+`-err"`, "s not good", `href="#f-`)
	}
}
