package dashboard

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// session is the value of the session's cookie; empty without one.
func (b *browser) session() string {
	if c := b.cookies[b.sessionName()]; c != nil {
		return c.Value
	}
	return ""
}

// sessionName is the name of the session's cookie.
func (b *browser) sessionName() string {
	names := maps.Clone(b.cookies)
	if len(names) == 0 { // signed out: the name is that of another session
		names = b.rig.signedIn().cookies
	}
	for name := range names {
		if !strings.HasSuffix(name, "-toast") {
			return name
		}
	}
	return ""
}

func TestCookieProperties(t *testing.T) {
	for _, base := range []string{origin, "https://relay.example.com"} {
		rig := newRig(t, func(c *ui.Config) { c.BaseURL = base })
		b := rig.browser()
		b.origin = base
		a := b.post("/app/sign-in", goodSignIn).wantRedirect("/app")
		secure := strings.HasPrefix(base, "https")
		for _, c := range b.cookies {
			if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.Secure != secure ||
				c.MaxAge != 12*60*60 || strings.HasPrefix(c.Name, "__Host-relay-") != secure ||
				!strings.HasPrefix(strings.TrimPrefix(c.Name, "__Host-"), "relay-") {
				t.Errorf("the cookie is %v", c)
			}
			is.Lacks(t, c.Value, "usr_", "the cookie can be read")
		}
		is.Equal(t, len(b.cookies), 1, "cookies")
		if hsts := a.header.Get("Strict-Transport-Security"); (hsts != "") != secure {
			t.Errorf("Strict-Transport-Security is %q at %s", hsts, base)
		}
	}
}

// Browsers send the cookies of a host to all of its ports.
func TestTwoRelaysOnAHostDoNotSignEachOtherOut(t *testing.T) {
	names := map[string]bool{}
	for _, base := range []string{"http://localhost:8080", "http://localhost:8081"} {
		b := newRig(t, func(c *ui.Config) { c.BaseURL = base }).browser()
		b.origin = base
		b.post("/app/sign-in", goodSignIn)
		names[b.sessionName()] = true
	}
	is.Equal(t, len(names), 2, "the names of their cookies are %v", names)
	if a, b := newRig(t).signedIn(), newRig(t).signedIn(); a.sessionName() != b.sessionName() {
		t.Error("two nodes of one relay have different names")
	}
}

func TestCookieThatDoesNotOpenIsSignedOut(t *testing.T) {
	rig := newRig(t)
	b := rig.signedIn()
	name, value := b.sessionName(), b.session()
	first := map[bool]string{true: "B", false: "A"}[value[0] == 'A'] // another than that of value
	for what, bad := range map[string]string{
		"empty": "", "no base64": "%%%", "short": "AAAA", "cut": value[:len(value)-4], "changed": first + value[1:],
	} {
		b.cookies[name] = &http.Cookie{Name: name, Value: bad}
		if a := b.get("/app"); a.code != 303 {
			t.Errorf("%s: %d", what, a.code)
		}
	}
	b.cookies[name] = &http.Cookie{Name: name, Value: value}
	b.get("/app").want(200)
	rig.key[0]++ // another data directory, or an import
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
	b.post("/app/sign-in", goodSignIn).wantRedirect("/app")
}

// Another program on the host can add a cookie of the same name over plain http. It does not sign anybody out.
func TestForeignCookieOfTheSameNameIsIgnored(t *testing.T) {
	b := newRig(t).signedIn()
	b.get("/app", "Cookie", b.sessionName()+"=planted").want(200)
}

func TestSessionsSlide(t *testing.T) {
	rig := newRig(t)
	b := rig.signedIn()
	first := b.session()
	rig.now = rig.now.Add(4 * time.Minute)
	b.get("/app").want(200)
	is.Equal(t, b.session(), first, "the cookie is replaced before it is 5 minutes old")
	rig.now = rig.now.Add(2 * time.Minute)
	b.get("/app").want(200)
	if b.session() == first {
		t.Error("the cookie is not replaced")
	}
	rig.now = rig.now.Add(11 * time.Hour)
	b.get("/app").want(200)
	rig.now = rig.now.Add(12 * time.Hour)
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
}

// However often it is used, a session ends 30 days after the sign-in, and so does its last cookie.
func TestSessionsEnd(t *testing.T) {
	rig := newRig(t)
	b := rig.signedIn()
	end := rig.now.Add(30 * 24 * time.Hour)
	for rig.now.Before(end.Add(-11 * time.Hour)) {
		rig.now = rig.now.Add(11 * time.Hour)
		b.get("/app").want(200)
	}
	if c := b.cookies[b.sessionName()]; time.Duration(c.MaxAge)*time.Second != end.Sub(rig.now) {
		t.Errorf("the cookie lives for another %d s, the session for %s", c.MaxAge, end.Sub(rig.now))
	}
	rig.now = end.Add(-time.Second)
	b.get("/app").want(200)
	rig.now = end
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
}

// What a page asks for by itself does not keep a session, and does not begin it again after the sign-out.
func TestOnlyOpenedPagesRenewSessions(t *testing.T) {
	rig := newRig(t)
	rig.api.on("GET /v1/events", http.StatusOK, `{"data":[],"has_more":false}`)
	b := rig.signedIn()
	first := b.session()
	rig.now = rig.now.Add(time.Hour)
	ask := func(path string, headers ...string) {
		t.Helper()
		if a := b.get(path, headers...).want(200); len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("%s with %q sets %q", path, headers, a.header["Set-Cookie"])
		}
	}
	for _, path := range []string{"/app", ui.EventsPath, ui.KeysPath} {
		ask(path, "Relay-Part", "rows")
		ask(path, "Sec-Fetch-Mode", "cors")
	}
	ask(ui.EventsPath + "?tail=1") // reloads by itself without scripts
	must.Equal(t, b.session(), first, "the cookie was replaced")
	b.get(ui.EventsPath, "Sec-Fetch-Mode", "navigate").want(200)
	if b.session() == first {
		t.Error("a page that the person opened does not renew the session")
	}
}

// The clock of the node that issued a cookie may be ahead; a cookie from the far future is none.
func TestClocksOfNodesDiffer(t *testing.T) {
	rig := newRig(t)
	b := rig.signedIn()
	rig.now = rig.now.Add(-20 * time.Second)
	b.get("/app").want(200)
	rig.now = rig.now.Add(-time.Hour)
	b.get("/app").want(303)
}

// Signing out ends the session, not only its cookie in this browser: a copy of it is worth nothing. Others go on.
func TestCopyOfASessionEndsWithIt(t *testing.T) {
	rig := newRig(t)
	one, two := rig.signedIn(), rig.signedIn()
	name, kept := one.sessionName(), one.session()
	one.post("/app/sign-out", url.Values{}).wantRedirect("/app/sign-in")
	one.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
	one.cookies[name] = &http.Cookie{Name: name, Value: kept}
	one.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
	two.get("/app").want(200)
}

func TestLogOutEverywhere(t *testing.T) {
	rig := newRig(t)
	one, two := rig.signedIn(), rig.signedIn()
	name, kept := one.sessionName(), one.session()
	one.post("/app/sign-out-everywhere", url.Values{}).wantRedirect("/app/sign-in")
	must.Equal(t, rig.people.ended, 1, "the sessions were ended … times")
	two.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
	one.cookies[name] = &http.Cookie{Name: name, Value: kept}
	one.get("/app").want(303)
}

// What an open tab sends after the session has ended does nothing, and says so.
func TestOpenTabAfterSigningOut(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	b := rig.signedIn()
	form := url.Values{"nonce": {b.get("/app/thing").nonce()}, "version": {"1"}, "name": {"x"}}
	rig.people.person.Epoch++
	b.post("/app/thing", form).want(401, "Signed out", "Nothing was done", `href="/app/sign-in"`)
	b.post("/app/thing", form, "Relay-Part", "rows").want(401, "Nothing was done")
	if len(rig.api.calls) > 0 {
		t.Errorf("the calls are %+v", rig.api.calls)
	}
}

// A node whose lease has ended confirms no session, and does not sign anybody out either.
func TestNodeWithoutALeaseConfirmsNoSession(t *testing.T) {
	rig := newRig(t)
	b := rig.signedIn()
	rig.people.err = config.ErrLease
	b.get("/app").want(503, "cannot confirm sign-ins at the moment")
	b.post("/app/sign-out-everywhere", url.Values{}).want(503)
	b.post("/app/sign-out", url.Values{}).want(503)
	rig.people.err = nil
	b.get("/app").want(200)
}

func TestReadPersonChangesNothing(t *testing.T) {
	rig := newRig(t)
	rig.addThings()
	rig.people.person.Scope = config.Read
	b := rig.signedIn()
	form := url.Values{"nonce": {b.get("/app/thing").nonce()}, "version": {"1"}, "name": {"x"}}
	b.post("/app/thing", form).want(403, "You may only read")
	if len(rig.api.calls) > 0 {
		t.Errorf("the calls are %+v", rig.api.calls)
	}
	b.get("/app").want(200, "You may read everything and change nothing")
	b.get("/app/audit")
	is.Equal(t, rig.api.calls[0].Principal.Scope, config.Read, "the API is called with the scope")
}

// No method and no spelling of a path leads a person with the scope read to an action.
func TestReadPersonReachesNoAction(t *testing.T) {
	rig := newRig(t)
	rig.people.person.Scope = config.Read
	b := rig.signedIn()
	id := strings.NewReplacer("{endpoint}", "ep_1", "{destination}", "dst_1", "{event}", "evt_1", "{key}", "key_1",
		"{person}", rig.people.person.ID)
	// The own session and password, and what only computes something, which the API allows a read key too.
	allowed := []string{ui.SignInPath, ui.SignOutPath, "/app/sign-out-everywhere", "/app/link/" + "{token}",
		ui.PasswordPath,
		"/app/settings/password", "/app/endpoints/{endpoint}/workbench", ui.DestinationPath + "/rules",
		"/app/settings/detection" + "/try",
		ui.EventsPath + "/choices"}
	for _, x := range routes(t) {
		if x.Method != http.MethodPost || slices.Contains(allowed, x.Path) {
			continue
		}
		path := id.Replace(x.Path)
		b.post(path, url.Values{"nonce": {newNonce()}}).want(403, "You may only read")
		rest := strings.TrimPrefix(path, "/app/")
		for _, other := range []string{path + "/", "/app//" + rest, "/app/x/../" + rest, "/app/%2e/" + rest,
			"/app/%" + strconv.FormatInt(int64(rest[0]), 16) + rest[1:], path + "%2f", path + ";x"} {
			for _, method := range []string{"POST", "PUT", "post"} {
				a := b.send(method, other, url.Values{"nonce": {newNonce()}}, "Sec-Fetch-Site", "same-origin",
					"X-HTTP-Method-Override", "POST")
				if a.code < 400 {
					t.Errorf("%s %s answers %d", method, other, a.code)
				}
			}
		}
	}
	for _, c := range rig.api.calls {
		is.Equal(t, c.Method, http.MethodGet, "the API is called with: %s", c.Path)
	}
}

// A long call asks again whether its session is still valid.
func TestCallsCarryTheSession(t *testing.T) {
	rig := newRig(t)
	rig.signedIn().get("/app/endpoints").want(200)
	check := rig.api.calls[0].check
	if check == nil {
		t.Fatal("the call has no check of its session")
	}
	if key, err := check(); err != nil || key.ID != "usr_1" {
		t.Errorf("the check returns %+v, %v", key, err)
	}
	rig.people.person.Epoch++
	if _, err := check(); err == nil {
		t.Error("the check accepts a session that has ended")
	}
}
