package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

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
