package dashboard

import (
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/argon"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/oidctest"
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
	open := func(host string, change func(*ui.Config)) string {
		rig := newRig(t, func(c *ui.Config) {
			c.BaseURL, c.Listen = "http://localhost:8080", netip.IPv4Unspecified()
			c.BaseURLIsDefault = true
			change(c)
		})
		return rig.browser().get("/app/sign-in", "Host", host).want(200).main()
	}
	if got := open("192.0.2.7:8080", func(*ui.Config) {}); !strings.Contains(got, text) ||
		!strings.Contains(got, "http://localhost:8080") || !strings.Contains(got, "192.0.2.7:8080") {
		t.Errorf("the page is %s", got)
	}
	is.Lacks(t, open("localhost:8080", func(*ui.Config) {}), text, "it says so under the base URL")
	set := func(c *ui.Config) { c.BaseURLIsDefault, c.AllowedHosts = false, []string{"inside"} }
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
	b.post(ui.SignInPath, url.Values{"email": {"ops@example.com"}, "password": {changed}}).want(429)
	if rig.people.verified != before || rig.people.password != changed {
		t.Error("a password was verified beyond the limit")
	}
}

var ada = oidctest.Person{Subject: "1", Email: "ada@example.com", Groups: []string{"ops"}}

// issuedRig is a dashboard whose people sign in at an issuer, and the issuer.
func issuedRig(t *testing.T) (*rig, *oidctest.Issuer) {
	t.Helper()
	i := oidctest.New(t, origin+IssuerCallback, ada)
	r := newRig(t)
	r.now = time.Now()
	r.use(i)
	return r, i
}

// use lets people sign in at an issuer.
func (r *rig) use(i *oidctest.Issuer) {
	r.t.Helper()
	r.deps.OIDC = must.Get(oidc.New(oidc.Config{Issuer: i.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.Secret,
		Scopes: []string{"openid", "email"}, GroupsClaim: "groups", VerifiedClaim: "email_verified",
		WriteGroups: []string{"ops"}, ReadGroups: []string{"staff"}, RedirectURL: origin + IssuerCallback},
		func() time.Time { return r.now }))(r.t)
	r.d = must.Get(New(r.cfg, r.deps, must.Get(allPages())(r.t)))(r.t)
}

// begin opens the way to the issuer, and returns the path to which the issuer sends the browser back.
func (b *browser) begin(i *oidctest.Issuer, path string) string {
	b.t.Helper()
	a := b.get(path, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "same-origin").want(http.StatusSeeOther)
	return i.SignIn(b.t, a.header.Get("Location"), ada.Subject).RequestURI()
}

// back is what the browser sends when the issuer has sent it back.
func (b *browser) back(path string) *answer {
	b.t.Helper()
	return b.get(path, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site")
}

const toIssuer = "/app/sign-in/issuer"

// A sign-in that one node began ends on another. It leads to the page that the person wanted, never elsewhere.
func TestSignInByAnIssuer(t *testing.T) {
	r, i := issuedRig(t)
	other := *r
	other.d = must.Get(New(r.cfg, r.deps, must.Get(allPages())(r.t)))(t)
	b := r.browser()
	page := b.get("/app/sign-in?next=/app/events%3Fq=1").want(200, "Sign in with "+strings.TrimPrefix(i.URL, "http://"))
	if !strings.Contains(page.body, `href="/app/sign-in/issuer?next=%2fapp%2fevents%3fq%3d1"`) {
		t.Errorf("the page is %s", page.main())
	}
	path := b.begin(i, toIssuer+"?next=/app/events%3Fq=1")
	for _, c := range b.cookies {
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 600 || strings.Contains(c.Value, "state") {
			t.Errorf("the cookie is %v", c)
		}
	}
	second := *b
	second.rig = &other
	second.back(path).wantRedirect("/app/events?q=1")
	b.get("/app").want(200, ada.Email)
	if r.people.person.Scope != config.ReadWrite || len(b.cookies) != 1 {
		t.Errorf("%+v, cookies %v", r.people.person, b.cookies)
	}
	b.get("/app/settings/password").want(400, "The OpenID Connect issuer decides")
	b.post("/app/sign-out", url.Values{}).wantRedirect("/app/sign-in")
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")

	for _, next := range []string{"https://evil.example.com/app", "//evil.example.com/app", "/app/../x",
		"/app/sign-in/issuer", "/app/sign-in/issuer/callback?code=1", "javascript:1"} {
		b.back(b.begin(i, toIssuer+"?"+url.Values{"next": {next}}.Encode())).wantRedirect("/app")
	}
	is.Equal(t, r.log.String(), "", "the log")
}

// Who has not begun the sign-in in this browser, or ends it twice, is not signed in. The log says why, without secrets.
func TestSignInsAtTheIssuerThatAreRefused(t *testing.T) {
	r, i := issuedRig(t)
	refused := func(b *browser, path, onPage, logged string) {
		t.Helper()
		before := r.people.issued
		r.use(i) // a new one has logged nothing yet
		b.back(path).want(403, onPage, "Sign in with ")
		if !strings.Contains(r.log.String(), logged) || r.people.issued != before {
			t.Errorf("signed in %d times, the log is %s", r.people.issued-before, r.log)
		}
		b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
		r.log.Reset()
		clear(r.limit)
	}
	const notBegun = "was not begun in this browser under " + origin
	b := r.browser()
	path := b.begin(i, toIssuer)
	refused(r.browser(), path, notBegun, "reason=\""+oidc.NotBegun) // someone else's link
	u := must.Get(url.Parse(path))(t)
	q := u.Query()
	refused(b, u.Path+"?code="+q.Get("code"), notBegun, oidc.NotBegun)
	refused(b, u.Path+"?error=access_denied&state="+q.Get("state"), "has not signed you in", "access_denied")
	refused(b, path, notBegun, oidc.NotBegun) // the sign-in is used up

	path = b.begin(i, toIssuer)
	copied := maps.Clone(b.cookies)
	b.back(path).wantRedirect("/app")
	b.cookies = copied // a copy of the cookie does not make the code valid again
	refused(b, path, "does not accept the code", "invalid_grant")

	var first, second string
	for b = r.browser(); len(b.cookies) < 2; { // two tabs, unless their states share a cookie
		b.cookies = map[string]*http.Cookie{}
		first, second = b.begin(i, toIssuer), b.begin(i, toIssuer)
	}
	b.back(second).wantRedirect("/app")
	b.back(first).wantRedirect("/app")

	i.Set(oidctest.Person{Subject: ada.Subject, Email: ada.Email, Groups: []string{"others"}})
	b = r.browser()
	refused(b, b.begin(i, toIssuer), "You are in no group of", "none of RELAY_OIDC_READ_GROUPS")
	i.Set(oidctest.Person{Subject: ada.Subject, Email: ada.Email, Unverified: true, Groups: ada.Groups})
	refused(b, b.begin(i, toIssuer), "has not verified an email address", "email_verified is not true")

	b.get(toIssuer, "Sec-Fetch-Mode", "no-cors").want(404) // an image of another site
	is.Equal(t, len(b.cookies), 0, "the cookies are %v", b.cookies)
	for range 21 { // anybody can make the browser of a visitor ask for this
		b.back(u.Path+"?code=x&state=y").want(403, notBegun)
	}
	if n := strings.Count(r.log.String(), oidc.NotBegun); n > 3 {
		t.Errorf("%d lines in the log", n)
	}
	wrong := func() *answer {
		t.Helper()
		state := must.Get(url.Parse(b.begin(i, toIssuer)))(t).Query().Get("state")
		return b.back(u.Path + "?code=x&state=" + state)
	}
	for range 5 {
		wrong().want(403, "does not accept the code")
	}
	wrong().want(429, "refused sign-ins")
	if log := r.log.String(); strings.Contains(log, q.Get("code")) || strings.Contains(log, oidctest.Secret) {
		t.Errorf("the log has a secret: %s", log)
	}
}

// The issuer confirms a session within the hour, without a click of the person and without another session. A person
// whom it admits no more is out on every node; so is everybody an hour after it went away.
func TestIssuerConfirmsSessions(t *testing.T) {
	r, i := issuedRig(t)
	b := r.browser()
	b.back(b.begin(i, toIssuer)).wantRedirect("/app")
	began := r.now
	at := func(d time.Duration) { r.now = began.Add(d) }
	copied := maps.Clone(b.cookies)
	epoch := r.people.person.Epoch
	form := url.Values{"password": {"x"}, "again": {"y"}}

	at(44 * time.Minute)
	b.get("/app").want(200)
	at(46 * time.Minute)
	const way = toIssuer + "?next=%2Fapp%2Fevents%3Fq%3D1"
	b.get("/app", "Relay-Part", "main").want(200) // an open tab goes on
	b.post("/app/password", form).want(400, "The two passwords differ")
	b.get("/app/events?q=1").wantRedirect(way)
	at(56 * time.Minute)
	b.post("/app/password", form).want(401)
	if a := b.get("/app/events?q=1", "Relay-Part", "main"); a.header.Get("Relay-Redirect") !=
		"/app/sign-in?next=%2Fapp%2Fevents%3Fq%3D1" {
		t.Errorf("an open tab is sent to %v", a.header)
	}
	b.get("/app/events?q=1").wantRedirect(way)
	b.back(b.begin(i, way)).wantRedirect("/app/events?q=1")
	b.get("/app").want(200)
	if r.people.issued != 1 {
		t.Errorf("%d sign-ins, want 1: the others confirm", r.people.issued)
	}
	b.post("/app/sign-out", url.Values{}).wantRedirect("/app/sign-in")
	stale := r.browser()
	stale.cookies = copied
	at(0)
	stale.get("/app/events").want(303) // the copy from before the confirmation has ended too
	is.Equal(t, r.people.person.Epoch, epoch, "all sessions have ended")

	b.back(b.begin(i, toIssuer)).wantRedirect("/app")
	second := r.browser()
	second.back(second.begin(i, toIssuer)).wantRedirect("/app")
	i.Set(oidctest.Person{Subject: ada.Subject, Email: ada.Email})
	at(50 * time.Minute)
	b.back(b.begin(i, toIssuer)).want(403, "You are in no group")
	second.post("/app/password", form).want(401)
	second.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")

	i.Set(ada)
	b.back(b.begin(i, toIssuer)).wantRedirect("/app")
	i.Stop()
	at(50*time.Minute + 54*time.Minute)
	b.get("/app", "Relay-Part", "main").want(200)
	at(50*time.Minute + 55*time.Minute)
	b.get("/app").wantRedirect(toIssuer + "?next=%2Fapp")
	b.post("/app/password", form).want(401)
	at(50*time.Minute - 3*time.Minute) // a node whose clock is behind accepts no session for longer
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
}

// What the issuer says is as old as the sign-in may be: who holds back its answer is not in for longer.
func TestConfirmationCountsFromItsBeginning(t *testing.T) {
	r, i := issuedRig(t)
	b := r.browser()
	path, began := b.begin(i, toIssuer), r.now
	r.now = began.Add(9 * time.Minute)
	b.back(path).wantRedirect("/app")
	b.get("/app").want(200)
	r.now = began.Add(56 * time.Minute)
	b.post("/app/sign-out", url.Values{}).want(401)
}

// A sign-in and the end of an identity are in the audit log with the address and the request that made them.
func TestAnswersOfAnIssuerHaveAnOrigin(t *testing.T) {
	r, i := issuedRig(t)
	for _, groups := range [][]string{{"ops"}, nil} {
		i.Set(oidctest.Person{Subject: ada.Subject, Email: ada.Email, Groups: groups})
		b := r.browser()
		b.back(b.begin(i, toIssuer))
		if o := r.people.origin; !o.RemoteIP.IsValid() || o.RequestID == "" || o.Actor != "" {
			t.Errorf("groups %v: %+v", groups, o)
		}
		r.people.origin = config.Origin{}
	}
}

// Browsers drop cookies of more than 4096 bytes: a page with a long address does not keep a person from signing in.
func TestSignInFromAPageWithALongAddress(t *testing.T) {
	r, i := issuedRig(t)
	for next, kept := range map[string]bool{"/app/events?" + strings.Repeat("&", 390): true,
		"/app/events?" + strings.Repeat("&", 500): false, "/app/events?q=" + strings.Repeat("x", 1100): true,
		"/app/events?q=" + strings.Repeat("x", 5000): false} {
		want := "/app"
		if kept {
			want = next
		}
		b := r.browser()
		path := b.begin(i, toIssuer+"?"+url.Values{"next": {next}}.Encode())
		for _, c := range b.cookies {
			if n := len(c.Name) + len(c.Value); n > 4096 {
				t.Errorf("the cookie has %d bytes", n)
			}
		}
		b.back(path).wantRedirect(want)
	}
}

// Confirmations alone keep no session: a page that reloads by itself would keep it for ever.
func TestConfirmedSessionsEndWhenNobodyUsesThem(t *testing.T) {
	r, i := issuedRig(t)
	b := r.browser()
	b.back(b.begin(i, toIssuer)).wantRedirect("/app")
	for range 11 {
		r.now = r.now.Add(time.Hour)
		b.get("/app").wantRedirect(toIssuer + "?next=%2Fapp")
		b.back(b.begin(i, toIssuer)).wantRedirect("/app")
	}
	r.now = r.now.Add(time.Hour)
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
}

// While the issuer does not answer, the page says so. Without the issuer in the settings its people have no session.
func TestIssuerThatIsAway(t *testing.T) {
	r, i := issuedRig(t)
	b := r.browser()
	b.back(b.begin(i, toIssuer)).wantRedirect("/app")
	without := *r
	without.deps.OIDC = nil
	without.d = must.Get(New(r.cfg, without.deps, must.Get(allPages())(t)))(t)
	b.rig = &without
	b.get("/app").wantRedirect("/app/sign-in?next=%2Fapp")
	b.get(toIssuer).want(404)
	b.get(IssuerCallback + "?code=x").want(404)
	if page := b.get("/app/sign-in").want(200); strings.Contains(page.body, toIssuer) {
		t.Error("the page offers an issuer")
	}
	i.Stop()
	b.rig.use(i)
	b.get(toIssuer).want(503, "issuer does not answer", "sign in with their password")
	is.Has(t, r.log.String(), "the OpenID Connect issuer cannot be used", "the log")
}

// People of an issuer are shown as such, and offered nothing that the issuer decides.
func TestPeopleOfAnIssuer(t *testing.T) {
	r, i := issuedRig(t)
	r.account.others = []*config.User{{Meta: r.people.person.Meta, Email: "bo@example.com", Issuer: i.URL, Subject: "2",
		Scope: config.ReadWrite}}
	r.account.others[0].ID = "usr_2"
	page := r.signedIn().get("/app/settings/people").want(200, "signs in by "+i.URL, "decides what this person may do",
		"Nobody else may change anything").body
	for _, path := range []string{"usr_2/scope", "usr_2/reset", "usr_1/scope", "usr_1/remove"} {
		is.Lacks(t, page, path, "the page offers %s", path)
	}
	if !strings.Contains(page, "usr_2/sign-out") || !strings.Contains(page, "usr_2/remove") {
		t.Error("the page does not offer to end sessions, or to remove the person")
	}
}
