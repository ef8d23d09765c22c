package dashboard

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/oidc"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/oidctest"
)

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
	r.d = must.Get(New(r.cfg, r.deps))(r.t)
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
	other.d = must.Get(New(r.cfg, r.deps))(t)
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
	without.d = must.Get(New(r.cfg, without.deps))(t)
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
