package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const thingForm = `{{with .Data}}<form method="post">{{template "nonce" .}}{{template "problem" .}}` +
	`{{template "field" (field . "name" "label=Name" "hint=What it is" "required" "max=100")}}` +
	`{{template "area" (field . "text" "rows=3" "focus")}}</form>{{end}}`

// addThings adds a form that changes a thing of the API.
func (r *rig) addThings() {
	r.addPage(frame.Route{"GET", "/app/thing", frame.Reader, func(v *frame.Visit) error {
		return v.Page("thing", frame.NewForm(url.Values{"name": {"before"}}, "1"))
	}}, "thing", thingForm)
	r.addPage(frame.Route{"POST", "/app/thing", frame.Writer, func(v *frame.Visit) error {
		f, err := v.Form()
		if err != nil {
			return err
		}
		if f.Version != "1" {
			v.Status = f.SetStale("1", map[string]string{"name": "of somebody else", "text": f.Value("text")})
			return v.Page("thing", f)
		}
		err = v.Send("POST", "/v1/things", map[string]string{"name": f.Value("name")}, f.Nonce, nil)
		if e, ok := errors.AsType[*frame.APIError](err); ok {
			v.Status = f.SetError(e)
			return v.Page("thing", f)
		}
		return v.Redirect("/app", "Saved "+f.Value("name"))
	}}, "", "")
}

// A user has at most a few unanswered large forms. A small form, such as the one that ends all sessions, is always
// accepted.
func TestFormsOfAPersonAreBounded(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	nonce := []string{b.get("/app/thing").nonce()}
	large := url.Values{"nonce": nonce, "version": {"1"}, "name": {"after"}, "unused": {strings.Repeat("a", 4<<10)}}
	open := 0 // forms that wait for the answer of the API to the next one
	rig.api.responses["POST /v1/things"] = func(apiCall) (int, http.Header, string) {
		if open++; open < 16 {
			b.post("/app/thing", large).wantRedirect("/app")
		} else if open == 16 {
			b.post("/app/thing", large).want(http.StatusTooManyRequests, "Nothing was done")
			b.post("/app/thing", url.Values{"nonce": nonce, "version": {"1"}, "name": {"small"}}).wantRedirect("/app")
		}
		return 201, nil, `{}`
	}
	b.post("/app/thing", large).wantRedirect("/app")
	b.post("/app/thing", large).wantRedirect("/app")
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
	must.Equal(t, len(rig.api.calls), 2, "calls")
	for _, c := range rig.api.calls {
		if c.Key != page.nonce() || c.Body != `{"name":"after"}` || c.Principal.ID != "usr_1" ||
			c.Principal.Account != "acc_1" || c.Principal.Name != "ops@example.com" || c.Principal.Agent {
			t.Errorf("the call is %+v by %+v", c, c.Principal)
		}
	}
	b.get("/app").want(200, "Saved after")
	is.Lacks(t, b.get("/app").body, "Saved after", "the message is shown twice")
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
	is.Equal(t, strings.Count(a.body, " autofocus"), 1, "the focus is not on the field at fault alone")
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
	b.post("/app/thing", url.Values{"name": {strings.Repeat("x", 1048576)}}).want(400, "larger than 1048576 bytes")
	rig.browser().post("/app/sign-in", url.Values{"email": {strings.Repeat("x", 16384)}}).
		want(400, "larger than 16384 bytes")
	b.post("/app/thing", url.Values{}, "Content-Type", "multipart/form-data").want(400)
	b.post("/app/thing", url.Values{}, "Content-Type", "text/plain").want(400)
}

// A page says as of when its data is, and which error of the API it has.
func TestCallsOfTheAPI(t *testing.T) {
	rig := newRig(t)
	rig.api.on("GET /v1/endpoints", 200, `{"data":[{"id":"ep_1"}]}`)
	b := rig.signedIn()
	rig.api.responses["GET /v1/overview"] = func(apiCall) (int, http.Header, string) {
		return 200, http.Header{"Relay-Data-As-Of": {"2026-08-21T22:20:36.000Z"}}, overviewJSON
	}
	b.get("/app").want(200, `Data as of <time datetime="2026-08-21T22:20:36.000Z">`, "4\u00a0min ago")
	rig.api.on("GET /v1/overview", 503, `{"error":{"type":"unavailable","message":"the store is away"}}`)
	b.get("/app").want(200, "the store is away", "still accepted")
	rig.api.responses["GET /v1/overview"] = func(apiCall) (int, http.Header, string) {
		return 429, http.Header{"Retry-After": {"3"}}, `{"error":{"type":"rate_limited","message":"too many"}}`
	}
	if a := b.get("/app").want(429, "Too many.", "Try again", `<span class="nb">22:24:40.000`); a.header.Get(
		"Retry-After") != "3" {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	rig.api.on("GET /v1/overview", 500, `not JSON`)
	b.get("/app").want(500, "Something failed")
}
