package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/node/doctor"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/oidctest"
)

// A person signs in by the issuer in the settings, and appears in relay users and the audit log, until an operator
// removes them. relay doctor names the redirect URL, and says when the issuer is away. No secret is in the log.
func TestSignInByAnIssuer(t *testing.T) {
	base := fmt.Sprintf("http://127.0.0.1:%d", kit.FreePort(t))
	i := oidctest.New(t, base+"/app/sign-in/issuer/callback",
		oidctest.Person{Subject: "1", Email: "ada@example.com", Groups: []string{"ops"}})
	p := newDevProcess(t, t.TempDir(), "RELAY_OIDC_ISSUER="+i.URL,
		"RELAY_OIDC_CLIENT_ID="+oidctest.ClientID, "RELAY_OIDC_CLIENT_SECRET="+oidctest.Secret,
		"RELAY_OIDC_WRITE_GROUPS=admins,ops")
	p.url = base // listens there
	p.start()
	const check = "sign-in"
	if checks, _ := p.runDoctor(); checks[check].State != doctor.StateOK ||
		!strings.Contains(checks[check].Text, base+"/app/sign-in/issuer/callback") {
		t.Errorf("%+v", checks[check])
	}
	b := newBrowser(t, base)
	res, _, err := b.send(p.client, http.MethodGet, "/app/sign-in/issuer?next=/app/settings/people", nil)
	must.Do(t, err)
	back := i.SignIn(t, res.Header.Get("Location"), "1").RequestURI()
	b.want(p.client, http.StatusSeeOther, "/app/settings/people", "", http.MethodGet, back, nil)
	b.want(p.client, http.StatusOK, "", "signs in by "+i.URL, http.MethodGet, "/app/settings/people", nil)

	users := func(want int, words string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"users", args[0], "--data-dir", p.dir}, args[1:]...), func(string) string {
			return ""
		}, &out, &errs)
		if text := out.String() + errs.String(); code != want || !strings.Contains(text, words) {
			t.Fatalf("users %v: %d, want %d: %s", args, code, want, text)
		}
		return out.String()
	}
	list := users(command.ExitDone, "\tsigns in by "+i.URL, "list")
	var id string
	for line := range strings.Lines(list) {
		if strings.Contains(line, "ada@example.com") {
			id, _, _ = strings.Cut(line, "\t")
		}
	}
	users(command.ExitRefused, "no user has this address", "remove", "ada@example.com")
	users(command.ExitRefused, "OpenID Connect issuer", "scope", id, "read")
	users(command.ExitRefused, "OpenID Connect issuer", "reset", id)
	row := p.must(http.StatusOK, "GET", "/v1/audit?entity_id="+id, nil)["data"].([]any)[0].(map[string]any)
	if actor := row["actor"].(map[string]any); row["action"] != "user.created" || actor["id"] != id ||
		row["remote_ip"] != "127.0.0.1" {
		t.Errorf("%v", row)
	}
	users(command.ExitDone, "removed "+id, "remove", id)
	b.want(p.client, http.StatusSeeOther, "/app/sign-in?next=%2Fapp", "", http.MethodGet, "/app", nil)

	i.Stop()
	if checks, _ := p.runDoctor(); checks[check].State != doctor.StateFail {
		t.Errorf("%+v", checks[check])
	}
	is.Lacks(t, p.logs.String(), oidctest.Secret, "the log has the secret")
}
