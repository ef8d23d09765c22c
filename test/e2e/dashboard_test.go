package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command"
)

// dashboardSessions signs people in to the dashboard of a process whose environment names admin@example.com, and shows
// what their cookies open.
func dashboardSessions(t *testing.T, p *process) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"users", "add", "ops@example.com", "--data-dir", p.dir}, func(string) string {
		return ""
	}, &out, &errs); code != command.ExitDone {
		t.Fatalf("users add: %d %s", code, errs.String())
	}
	link := strings.Fields(out.String())[2]
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	// A browser on a LAN sends no Sec-Fetch-Site over plain http.
	send := func(method, address string, form url.Values, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Origin", p.url)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res, string(body)
	}
	want := func(status int, leadsTo, words, method, path string, form url.Values, header ...string) {
		t.Helper()
		res, body := send(method, p.url+path, form, header...)
		if res.StatusCode != status || res.Header.Get("Location") != leadsTo || !strings.Contains(body, words) {
			t.Fatalf("%s %s: %d to %q: %s", method, path, res.StatusCode, res.Header.Get("Location"), body)
		}
	}
	path := strings.TrimPrefix(link, p.url)
	want(303, "/app/sign-in?next=%2Fapp", "", "GET", "/app", nil)
	want(200, "", "Use the link", "GET", path, nil)
	want(403, "", "Nothing was done", "POST", path, nil, "Origin", "http://evil.example")
	want(303, "/app/password", "", "POST", path, nil)
	password := url.Values{"password": {"a long password"}, "again": {"a long password"}}
	want(303, "/app", "", "POST", "/app/password", password)
	want(200, "", "ops@example.com", "GET", "/app", nil)
	want(303, "/app/sign-in", "", "POST", "/app/sign-out", url.Values{})
	want(303, "/app/sign-in?next=%2Fapp", "", "GET", "/app", nil, "Authorization", "Bearer "+p.key)

	admin := url.Values{"email": {"admin@example.com"}, "password": {"planted-password"}}
	want(303, "/app", "", "POST", "/app/sign-in", admin)
	want(200, "", "admin@example.com", "GET", "/app", nil)
	want(401, "", "authentication_required", "GET", "/v1/me", nil)
	want(404, "", "<!doctype html>", "GET", "/app/nothing", nil)
	want(303, "/app/sign-in", "", "POST", "/app/sign-out-everywhere", url.Values{})
	want(303, "/app/sign-in?next=%2Fapp", "", "GET", "/app", nil)
}
