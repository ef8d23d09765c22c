package dashboard

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/argon"
	"github.com/eventrelay/relay/test/is"
)

var goodSignIn = url.Values{"email": {"ops@example.com"}, "password": {goodPassword}}

func TestSignInAndOut(t *testing.T) {
	b := newRig(t).browser()
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
	b.get("/app/sign-in?next=/app").want(200, "Sign in", `name="next" value="/app"`)
	form := url.Values{"email": {" Ops@Example.com"}, "password": {goodPassword}, "next": {"/app?x=1"}}
	b.post("/app/sign-in", form).wantRedirect("/app?x=1")
	b.get("/app").want(200, "ops@example.com", "Start")
	b.get("/app/sign-in?next=/app%3Fx=1").wantRedirect("/app?x=1")
	b.post("/app/sign-out", url.Values{}).wantRedirect("/app/sign-in")
	b.get("/app/sign-in").want(200, "You are signed out.")
	for _, bare := range []string{"/", "/app/"} { // what people type
		b.get(bare).wantRedirect("/app")
	}
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
}

func TestWrongPasswordsAreLimited(t *testing.T) {
	rig := newRig(t)
	b := rig.browser()
	wrong := url.Values{"email": {"ops@example.com"}, "password": {"wrong"}}
	for range 5 {
		a := b.post("/app/sign-in", wrong).want(403, "No person has this email and password", `value="ops@example.com"`)
		is.Lacks(t, a.body, `value="wrong"`, "the page shows the password")
	}
	a := b.post("/app/sign-in", goodSignIn).want(429, "Too many requests", "Try again", `<span class="nb">22:25:19.000`)
	if a.header.Get("Retry-After") != "42" || len(b.cookies) > 0 {
		t.Errorf("Retry-After is %q, cookies are %v", a.header.Get("Retry-After"), b.cookies)
	}
	unknown := url.Values{"email": {"nobody@example.com"}, "password": {"wrong"}}
	b.post("/app/sign-in", unknown).want(403, "No person has this email and password")
	b.post("/app/sign-in", url.Values{"email": {"no address"}}).want(400, "The email must be an address")

	rig.people.err = argon.ErrBusy
	b.post("/app/sign-in", unknown).want(503, "Too many people sign in")
	rig.people.err = config.ErrLease
	b.post("/app/sign-in", unknown).want(503, "cannot confirm sign-ins at the moment")
	if n := rig.limit["nobody@example.com192.0.2.1"]; n != 1 {
		t.Errorf("%d failures are counted, want 1: a busy service is no wrong password", n)
	}
}

// Of passwords that are tried at the same time, five are verified. The sixth is refused before that, though it is
// right, and is no sign-in.
func TestSignInsAtTheSameTimeAreLimited(t *testing.T) {
	rig := newRig(t)
	wrong := url.Values{"email": {"ops@example.com"}, "password": {"wrong"}}
	b := rig.browser()
	rig.people.during = func() {
		if rig.people.verified < 5 {
			b.post("/app/sign-in", wrong).want(403)
			return
		}
		b.post("/app/sign-in", goodSignIn).want(429)
	}
	b.post("/app/sign-in", wrong).want(403)
	if rig.people.verified != 5 || len(b.cookies) > 0 {
		t.Errorf("%d passwords were verified, the cookies are %v", rig.people.verified, b.cookies)
	}
}

// Right passwords do not use the limit up.
func TestRightPasswordsAreNotLimited(t *testing.T) {
	rig := newRig(t)
	for range 7 {
		rig.signedIn()
	}
}

// Nobody guesses why ingest URLs do not work: the page says so.
func TestSignInPageNamesAnUnsetBaseURL(t *testing.T) {
	const text = "RELAY_BASE_URL is not set"
	open := func(host string, change func(*frame.Config)) string {
		rig := newRig(t, func(c *frame.Config) {
			c.BaseURL, c.Listen = "http://localhost:8080", netip.IPv4Unspecified()
			c.BaseURLIsDefault = true
			change(c)
		})
		return rig.browser().get("/app/sign-in", "Host", host).want(200).main()
	}
	if got := open("192.0.2.7:8080", func(*frame.Config) {}); !strings.Contains(got, text) ||
		!strings.Contains(got, "http://localhost:8080") || !strings.Contains(got, "192.0.2.7:8080") {
		t.Errorf("the page is %s", got)
	}
	is.Lacks(t, open("localhost:8080", func(*frame.Config) {}), text, "it says so under the base URL")
	set := func(c *frame.Config) { c.BaseURLIsDefault, c.AllowedHosts = false, []string{"inside"} }
	is.Lacks(t, open("inside", set), text, "it says so of a base URL that is set")
}

func TestLinkLeadsToAPassword(t *testing.T) {
	rig := newRig(t)
	rig.people.password = ""
	b := rig.browser()
	for range 2 { // a program that previews links uses nothing up
		a := b.get("/app/link/link-token").want(200, "Use the link")
		if strings.Contains(a.body, "link-token") || a.header.Get("Referrer-Policy") != "strict-origin" {
			t.Errorf("the page or its Referer shows the token: %s", a.body)
		}
	}
	b.post("/app/link/other", url.Values{}).want(404, "The link does not work", "relay users reset")
	b.post("/app/link/link-token", url.Values{}, "Sec-Fetch-Site", "cross-site").want(403)
	b.post("/app/link/link-token", url.Values{}).wantRedirect("/app/password")
	rig.browser().post("/app/link/link-token", url.Values{}).want(404, "The link does not work")

	b.get("/app").wantRedirect("/app/password")
	b.post("/app/sign-out-everywhere", url.Values{}).wantRedirect("/app/password")
	if rig.people.ended > 0 {
		t.Error("an action is done before a password is chosen")
	}
	if page := b.get("/app/password").want(200, "Choose a password", `minlength="12"`); strings.Contains(
		page.body, "<nav") {
		t.Error("the page offers more than the password")
	}
	b.post("/app/password", url.Values{"password": {"a long password"}, "again": {"another"}}).
		want(400, "The two passwords differ", `id="f-again-err"`)
	a := b.post("/app/password", url.Values{"password": {"short"}, "again": {"short"}}).
		want(400, "Must have 12 to 1000 bytes", `id="f-password-err"`)
	is.Lacks(t, a.body, `"short"`, "the page shows the password")
	before := b.session()
	good := url.Values{"password": {"a long password"}, "again": {"a long password"}}
	b.post("/app/password", good).wantRedirect("/app")
	if b.session() == before {
		t.Error("the session is the one from before")
	}
	b.get("/app").want(200, "Your password is set.")
	b.get("/app/password").wantRedirect("/app")
	b.post("/app/password", good).wantRedirect("/app")
	rig.browser().post("/app/sign-in",
		url.Values{"email": {"ops@example.com"}, "password": {"a long password"}}).wantRedirect("/app")
	if log := rig.log.String(); strings.Contains(log, "link-token") || strings.Contains(log, "long password") {
		t.Errorf("the log has a secret: %s", log)
	}
}

// A failed link leaves its route in the log, not its path.
func TestTokenIsNotLogged(t *testing.T) {
	rig := newRig(t)
	rig.people.err = config.ErrUnavailable
	rig.browser().post("/app/link/link-token", url.Values{}).want(503)
	if log := rig.log.String(); strings.Contains(log, "link-token") || !strings.Contains(log, "/app/link/{token}") {
		t.Errorf("the log is %s", log)
	}
}

// A person who knows the password changes it, a person with the scope read too. The other sessions end; wrong passwords
// count as at the sign-in.
func TestChangePassword(t *testing.T) {
	rig := newRig(t)
	rig.people.person.Scope = config.Read
	b, other := rig.signedIn(), rig.signedIn()
	const changed = "a new password"
	form := func(current, password, again string) url.Values {
		return url.Values{"current": {current}, "password": {password}, "again": {again}}
	}
	b.get("/app").want(200, `href="/app/settings/password"`)
	page := b.get("/app/settings/password").want(200, "Change your password", `autocomplete="current-password"`)
	is.Lacks(t, page.body, goodPassword, "the page shows a password")
	b.post("/app/settings/password", form(goodPassword, changed, "another")).want(400, "The two passwords differ")
	b.post("/app/settings/password", form(goodPassword, "short", "short")).want(400, "Must have 12 to 1000 bytes")
	a := b.post("/app/settings/password", form("wrong-secret", changed, changed)).want(403, `id="f-current-err"`)
	if strings.Contains(a.body, "wrong-secret") || strings.Contains(a.body, changed) {
		t.Error("the page shows a password")
	}
	other.get("/app").want(200) // nothing has happened

	b.post("/app/settings/password", form(goodPassword, changed, changed)).wantRedirect("/app/settings/password")
	b.get("/app/settings/password").want(200, "Your password is changed")
	other.get("/app").want(303)

	for range 4 { // the fifth was above
		b.post("/app/settings/password", form("wrong", goodPassword, goodPassword)).want(403)
	}
	before := rig.people.verified
	b.post("/app/settings/password", form(changed, goodPassword, goodPassword)).want(429, "too many wrong passwords")
	b.post(frame.SignInPath, url.Values{"email": {"ops@example.com"}, "password": {changed}}).want(429)
	if rig.people.verified != before || rig.people.password != changed {
		t.Error("a password was verified beyond the limit")
	}
}
