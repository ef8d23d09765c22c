package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/must"
)

// browser is a person's browser: it keeps cookies, and sends forms as a browser on a LAN does, which leaves
// Sec-Fetch-Site out over plain http.
type browser struct {
	t       *testing.T
	base    string // address of the dashboard, as in RELAY_BASE_URL
	cookies map[string]*http.Cookie
}

func newBrowser(t *testing.T, base string) *browser {
	return &browser{t, base, map[string]*http.Cookie{}}
}

// send sends a request to a node and returns the response with its body, or an error if there is none.
func (b *browser) send(to client, method, path string, form url.Values, header ...string) (*http.Response, string,
	error) {
	b.t.Helper()
	r := must.Get(http.NewRequestWithContext(b.t.Context(), method, to.url+path, strings.NewReader(form.Encode())))(b.t)
	r.Host = strings.TrimPrefix(b.base, "http://")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.base)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	res, err := (&http.Client{Transport: to.transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}).Do(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c
		}
	}
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// want ends the test unless the answer has that status, redirect and words.
func (b *browser) want(to client, status int, leadsTo, words, method, path string, form url.Values, header ...string) {
	b.t.Helper()
	res, body, err := b.send(to, method, path, form, header...)
	must.Do(b.t, err, "%s %s", method, path)
	if res.StatusCode != status || res.Header.Get("Location") != leadsTo || !strings.Contains(body, words) {
		b.t.Fatalf("%s %s: %d to %q: %s", method, path, res.StatusCode, res.Header.Get("Location"), body)
	}
}

// addPerson adds a person through the command socket of a process and returns the path of the one-time link.
func addPerson(t *testing.T, p *process, email string) (path string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"users", "add", email, "--data-dir", p.dir}, func(string) string {
		return ""
	}, &out, &errs); code != cli.ExitDone {
		t.Fatalf("users add: %d %s", code, errs.String())
	}
	_, token, _ := strings.Cut(strings.Fields(out.String())[2], "/app/link/")
	return "/app/link/" + token
}

// newPassword is the form that chooses a password.
var newPassword = url.Values{"password": {"a long password"}, "again": {"a long password"}}

// dashboardSessions signs people in to the dashboard of a process whose environment names admin@example.com, and shows
// what their cookies open.
func dashboardSessions(t *testing.T, p *process) {
	t.Helper()
	b, c := newBrowser(t, p.url), p.forTest(t)
	path := addPerson(t, p, "ops@example.com")
	b.want(c, 303, "/app/sign-in?next=%2Fapp", "", "GET", "/app", nil)
	b.want(c, 200, "", "Use the link", "GET", path, nil)
	b.want(c, 403, "", "Nothing was done", "POST", path, nil, "Origin", "http://evil.example")
	b.want(c, 303, "/app/password", "", "POST", path, nil)
	b.want(c, 303, "/app", "", "POST", "/app/password", newPassword)
	b.want(c, 200, "", "ops@example.com", "GET", "/app", nil)
	b.want(c, 303, "/app/sign-in", "", "POST", "/app/sign-out", url.Values{})
	b.want(c, 303, "/app/sign-in?next=%2Fapp", "", "GET", "/app", nil, "Authorization", "Bearer "+p.key)

	admin := url.Values{"email": {"admin@example.com"}, "password": {"planted-password"}}
	b.want(c, 303, "/app", "", "POST", "/app/sign-in", admin)
	b.want(c, 200, "", "admin@example.com", "GET", "/app", nil)
	b.want(c, 401, "", "authentication_required", "GET", "/v1/me", nil)
	b.want(c, 404, "", "<!doctype html>", "GET", "/app/nothing", nil)
	b.want(c, 303, "/app/sign-in", "", "POST", "/app/sign-out-everywhere", url.Values{})
	b.want(c, 303, "/app/sign-in?next=%2Fapp", "", "GET", "/app", nil)
}

// sessionsOnThreeNodes signs a person out in all browsers on one node: the others refuse the cookie from the answer on,
// one of them with a clock that is 20 s ahead. That one is then cut off from the others: after its lease it confirms no
// session, and whoever signs out meanwhile is signed out there too.
func sessionsOnThreeNodes(t *testing.T, c *cluster) {
	const base = "http://relay.test"
	start := func(name string, env ...string) client {
		p := c.node(name, "--roles", "api")
		p.env = append(append(p.env, "RELAY_BASE_URL="+base), env...)
		p.url = "http://" + net.JoinHostPort(p.host.Addr.String(), "8080")
		p.start()
		t.Cleanup(p.kill) // the tests that follow need the machine
		if name == "front" {
			b := newBrowser(t, base)
			b.want(p.client, 303, "/app/password", "", "POST", addPerson(t, p, "ops@example.com"), nil)
			b.want(p.client, 303, "/app", "", "POST", "/app/password", newPassword)
		}
		return p.forTest(t)
	}
	front, other, ahead := start("front"), start("other"), start("ahead", "RELAY_FAULT_CLOCK=20s")
	host := c.hosts["ahead"]
	ahead.transport = host.Transport() // reaches the node while it is cut off
	nodes := []client{front, other, ahead}
	signIn := url.Values{"email": {"ops@example.com"}, "password": newPassword["password"]}
	signedIn := func() *browser {
		b := newBrowser(t, base)
		b.want(front, 303, "/app", "", "POST", "/app/sign-in", signIn)
		return b
	}
	kept, b := signedIn(), signedIn() // two browsers of one person
	for _, n := range nodes {
		kept.want(n, 200, "", "ops@example.com", "GET", "/app/settings/people", nil)
	}
	b.want(front, 303, "/app/sign-in", "", "POST", "/app/sign-out-everywhere", url.Values{})
	for _, n := range nodes {
		kept.want(n, 303, "/app/sign-in?next=%2Fapp%2Fsettings%2Fpeople", "", "GET", "/app/settings/people", nil)
	}

	kept, b = signedIn(), signedIn()
	kept.want(ahead, 200, "", "ops@example.com", "GET", "/app/settings/people", nil)
	host.Cut(t)
	cut := time.Now()
	b.want(front, 303, "/app/sign-in", "", "POST", "/app/sign-out-everywhere", url.Values{})
	kept.want(other, 303, "/app/sign-in?next=%2Fapp%2Fsettings%2Fpeople", "", "GET", "/app/settings/people", nil)
	kept.want(ahead, 503, "", "cannot confirm sign-ins at the moment", "GET", "/app/settings/people", nil)
	kept.want(ahead, 503, "", "cannot confirm sign-ins at the moment", "POST", "/app/sign-in", signIn)
	t.Logf("a node that is cut off has refused the session %v after the cut", time.Since(cut).Round(time.Millisecond))
	host.Heal(t)
	eventually(t, time.Minute, func() string { // its lease is back, and it knows what has happened
		res, body, err := kept.send(ahead, "GET", "/app/settings/people", nil)
		if err != nil || res.StatusCode == http.StatusServiceUnavailable {
			return "the page is " + body
		}
		must.Equal(t, res.StatusCode, http.StatusSeeOther, "the session that has ended is answered %s", res.Status)
		return ""
	})
}
