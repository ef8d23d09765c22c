package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const thingForm = `{{with .Data}}<form method="post">{{template "nonce" .}}{{template "problem" .}}` +
	`{{template "field" (field . "name" "label=Name" "hint=What it is" "required" "max=100")}}` +
	`{{template "area" (field . "text" "rows=3" "focus")}}</form>{{end}}`

// addThings adds a form that changes a thing of the API.
func (r *rig) addThings() {
	r.addPage(route{"GET", "/app/thing", reader, func(v *visit) error {
		return v.page("thing", newForm(url.Values{"name": {"before"}}, "1"))
	}}, "thing", thingForm)
	r.addPage(route{"POST", "/app/thing", writer, func(v *visit) error {
		f, err := v.form()
		if err != nil {
			return err
		}
		if f.Version != "1" {
			v.status = f.setStale("1", map[string]string{"name": "of somebody else", "text": f.Value("text")})
			return v.page("thing", f)
		}
		err = v.send("POST", "/v1/things", map[string]string{"name": f.Value("name")}, f.Nonce, nil)
		if e, ok := errors.AsType[*apiError](err); ok {
			v.status = f.setError(e)
			return v.page("thing", f)
		}
		return v.redirect("/app", "Saved "+f.Value("name"))
	}}, "", "")
}

// Large forms of a person that have not been answered are bounded, whoever has the session. Others have their own. A
// small one, as that which ends all sessions, is always taken.
func TestFormsOfAPersonAreBounded(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	rig.api.on("POST /v1/things", 201, `{}`)
	b := rig.signedIn()
	form := url.Values{"nonce": {b.get("/app/thing").nonce()}, "version": {"1"}, "name": {"after"}}
	var leave func()
	for range maxForms {
		var err error
		if leave, err = rig.d.forms.enter("usr_1"); err != nil {
			t.Fatal(err)
		}
	}
	form.Set("unused", strings.Repeat("a", uncountedForm))
	b.post("/app/thing", form).want(http.StatusTooManyRequests, "Nothing was done")
	b.post("/app/thing", url.Values{"nonce": form["nonce"], "version": {"1"}, "name": {"small"}}).wantRedirect("/app")
	if other, err := rig.d.forms.enter("usr_2"); err != nil {
		t.Error(err)
	} else {
		other()
	}
	leave()
	b.post("/app/thing", form).wantRedirect("/app")
	if rig.d.forms.of["usr_1"] != maxForms-1 || len(rig.d.forms.of) != 1 {
		t.Errorf("%v", rig.d.forms.of)
	}
}

// The nonce of a form is the Idempotency-Key of its call: a second submit is a repeat.
func TestNonceIsTheIdempotencyKey(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	rig.api.on("POST /v1/things", 201, `{}`)
	b := rig.signedIn()
	page := b.get("/app/thing").want(200, `value="before"`, `maxlength="100"`, `aria-describedby="f-name-hint"`)
	if page.nonce() == b.get("/app/thing").nonce() {
		t.Error("two forms have one nonce")
	}
	form := url.Values{"nonce": {page.nonce()}, "version": {"1"}, "name": {"after"}}
	for range 2 {
		b.post("/app/thing", form).wantRedirect("/app")
	}
	if len(rig.api.calls) != 2 {
		t.Fatalf("%d calls", len(rig.api.calls))
	}
	for _, c := range rig.api.calls {
		if c.Key != page.nonce() || c.Body != `{"name":"after"}` || c.Principal.ID != "usr_1" ||
			c.Principal.Account != "acc_1" || c.Principal.Name != "ops@example.com" || c.Principal.Agent {
			t.Errorf("the call is %+v by %+v", c, c.Principal)
		}
	}
	b.get("/app").want(200, "Saved after")
	if strings.Contains(b.get("/app").body, "Saved after") {
		t.Error("the message is shown twice")
	}
	for _, nonce := range []string{"", "x", strings.Repeat("x", 23), strings.Repeat("é", 11)} {
		b.post("/app/thing", url.Values{"nonce": {nonce}, "version": {"1"}}).want(400, "The form is incomplete")
	}
}

// A rejected form keeps what was typed and says at the field what to change.
func TestRejectedFormsSayWhatToChange(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	form := url.Values{"nonce": {b.get("/app/thing").nonce()}, "version": {"1"}, "name": {`<b>"`}, "text": {"a\nb"}}
	rig.api.on("POST /v1/things", 400,
		`{"error":{"type":"invalid_request","param":"name","message":"name: must be shorter"}}`)
	a := b.post("/app/thing", form).want(400, `value="&lt;b&gt;&#34;"`, "Must be shorter.", `aria-invalid="true"`,
		`Not saved. <a href="#f-name">Name</a>: Must be shorter.`, `id="f-name-err"`, ">\na\nb</textarea>",
		`required autofocus aria-invalid="true"`)
	if strings.Count(a.body, " autofocus") != 1 {
		t.Error("the focus is not on the field at fault alone")
	}
	if a.nonce() == form.Get("nonce") {
		t.Error("a rejected form keeps its nonce, with which other values would be refused")
	}
	rig.api.on("POST /v1/things", 503, `{"error":{"type":"unavailable","message":"the log is away"}}`)
	if a := b.post("/app/thing", form).want(503, "The log is away."); a.nonce() != form.Get("nonce") {
		t.Error("a form that may have taken effect gets another nonce, with which it would do it twice")
	}
}

// A form that was drawn before somebody else's change replaces nothing without asking.
func TestStaleFormsAskAgain(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	form := url.Values{"nonce": {b.get("/app/thing").nonce()}, "version": {"0"}, "name": {"mine"}, "text": {"same"}}
	a := b.post("/app/thing", form).
		want(400, "Somebody changed this", `value="mine"`, "Stored now: <code>of somebody else")
	if len(rig.api.calls) > 0 || strings.Count(a.body, "Stored now") != 1 ||
		!strings.Contains(a.body, `name="version" value="1"`) {
		t.Errorf("%d calls; the page is %s", len(rig.api.calls), a.body)
	}
}

func TestFormsAreBounded(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	b.post("/app/thing", url.Values{"name": {strings.Repeat("x", maxForm)}}).want(400, "larger than 1048576 bytes")
	rig.browser().post("/app/sign-in", url.Values{"email": {strings.Repeat("x", maxPublicForm)}}).
		want(400, "larger than 16384 bytes")
	b.post("/app/thing", url.Values{}, "Content-Type", "multipart/form-data").want(400)
	b.post("/app/thing", url.Values{}, "Content-Type", "text/plain").want(400)
}

// A page says as of when its data is, and which error of the API it has.
func TestCallsOfTheAPI(t *testing.T) {
	rig := newRig(t)
	b := rig.signedIn()
	rig.api.responses["GET /v1/endpoints"] = func(apiCall) (int, http.Header, string) {
		return 200, http.Header{"Relay-Data-As-Of": {"2026-08-21T22:20:36.000Z"}}, `{"data":[{"id":"ep_1"}]}`
	}
	b.get("/app").want(200, `Data as of <time datetime="2026-08-21T22:20:36.000Z">`, "4\u00a0min ago")
	rig.api.on("GET /v1/endpoints", 503, `{"error":{"type":"unavailable","message":"the store is away"}}`)
	b.get("/app").want(200, "the store is away", "still accepted")
	rig.api.responses["GET /v1/endpoints"] = func(apiCall) (int, http.Header, string) {
		return 429, http.Header{"Retry-After": {"3"}}, `{"error":{"type":"rate_limited","message":"too many"}}`
	}
	if a := b.get("/app").want(429, "Too many.", "Try again", `<span class="nb">22:24:40.000`); a.header.Get(
		"Retry-After") != "3" {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	rig.api.on("GET /v1/endpoints", 500, `not JSON`)
	b.get("/app").want(500, "Something failed")
}

func TestFieldSettingsAreKnown(t *testing.T) {
	if _, err := newField(nil, "name", "lable=Name"); err == nil {
		t.Error("a misspelled setting is accepted")
	}
	x, err := newChoice(newForm(url.Values{"scope": {"read"}}, ""), "scope", []option{{Value: "read"}, {Value: "write"}})
	if err != nil || !x.Options[0].Chosen || x.Options[1].Chosen {
		t.Errorf("%+v, %v", x, err)
	}
	if x, err := newField(newForm(url.Values{"password": {"secret"}}, ""), "password", "type=password"); err != nil ||
		x.Value != "" {
		t.Errorf("a password is shown again: %+v, %v", x, err)
	}
}
