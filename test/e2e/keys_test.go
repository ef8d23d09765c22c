package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features/doctor"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/oidctest"
)

func TestKeysCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDevProcess(t, dir, "RELAY_ADMIN_EMAIL=Admin@example.com", "RELAY_ADMIN_PASSWORD=planted-password")
	usersCommands(t, p)
	dashboardSessions(t, p)
	relay := func(args ...string) (string, int) {
		t.Helper()
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"keys"}, args...), func(string) string { return "" }, &out, &errs)
		return out.String() + errs.String(), code
	}
	out, code := relay("create", "--name", "ci", "--scope", "read", "--data-dir", dir)
	lines := strings.Fields(out)
	if code != cli.ExitDone || len(lines) != 3 || lines[1] != "read" || !strings.HasPrefix(lines[2], "rly_live_") {
		t.Fatalf("create: %d %q", code, out)
	}
	as := p.withKey(lines[2])
	as.must(http.StatusOK, "GET", "/v1/me", nil)
	as.must(http.StatusForbidden, "POST", "/v1/endpoints", map[string]any{"destinations": []any{"https://example.com"}})
	if out, code := relay("list", "--data-dir", dir, "--json"); code != cli.ExitDone ||
		!strings.Contains(out, lines[0]) || strings.Contains(out, lines[2]) {
		t.Fatalf("list: %d %s", code, out)
	}
	used := regexp.MustCompile("(?m)^" + lines[0] + ` +read +active +.* used 20\S+ from 127\.0\.0\.1 +ci$`)
	eventually(t, 10*time.Second, func() string {
		if out, _ := relay("list", "--data-dir", dir); !used.MatchString(out) {
			return "the key's use is not listed:\n" + out
		}
		return ""
	})
	if out, code := relay("revoke", lines[0], "--data-dir", dir); code != cli.ExitDone {
		t.Fatalf("revoke: %d %s", code, out)
	}
	// The audit log has who created, used and revoked the key; the revocation is there at once.
	var actions []string
	for _, row := range p.must(http.StatusOK, "GET", "/v1/audit?entity_id="+lines[0], nil)["data"].([]any) {
		row := row.(map[string]any)
		actions = append(actions, fmt.Sprint(row["actor"].(map[string]any)["type"], " ", row["action"]))
	}
	is.List(t, actions, []string{"operator key.revoked", "key key.used", "operator key.created"})
	as.must(http.StatusUnauthorized, "GET", "/v1/me", nil)
	if _, code := relay("revoke", "key_nope", "--data-dir", dir); code != cli.ExitRefused {
		t.Fatalf("revoking an unknown key ended with %d", code)
	}
	if out, code := relay("create", "--name", "two\nlines", "--scope", "read", "--data-dir",
		dir); code != cli.ExitRefused || !strings.Contains(out, "refused: name: must have") {
		t.Fatalf("a name of two lines: %d %s", code, out)
	}
	out, code = relay("list", "--data-dir", filepath.Join(dir, "nowhere"))
	if code != cli.ExitNoProcess || !strings.HasPrefix(out, "relay: no running process answers on ") {
		t.Fatalf("without a running relay the command ended with %d: %s", code, out)
	}
}

func TestKeysRejectsMisuse(t *testing.T) {
	f := func(want string, code int, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := run(t.Context(), append([]string{"keys"}, args...), func(string) string { return "" }, &out, &errs)
		if text := out.String() + errs.String(); got != code || !strings.Contains(text, want) ||
			!strings.Contains(text, "Usage:") {
			t.Errorf("%q: %d, want %d\n%s", args, got, code, text)
		}
	}
	f("Exit codes", cli.ExitDone, "--help")
	f("Exit codes", cli.ExitDone, "create", "--help")
	f("Usage", cli.ExitMisused)
	f(`unknown command "make"`, cli.ExitMisused, "make")
	f("--name is required", cli.ExitMisused, "create", "--scope", "read")
	f("--scope is required", cli.ExitMisused, "create", "--name", "x")
	f(`unexpected argument "y"`, cli.ExitMisused, "create", "y", "--name", "x", "--scope", "read")
	f("id of one key", cli.ExitMisused, "revoke")
	f("id of one key", cli.ExitMisused, "revoke", "key_a", "key_b")
	// A fraction of a second must not become a key that never expires.
	f("at least 1s", cli.ExitMisused, "create", "--name", "x", "--scope", "read", "--expires", "999ms")
	f("at least 1s", cli.ExitMisused, "create", "--name", "x", "--scope", "read", "--expires", "-1h")
}

// A master key is rotated as the help describes: secrets sealed with the old key can be opened without it afterwards.
func TestMasterKeyRotation(t *testing.T) {
	t.Parallel()
	skipShort(t)
	old, young := seal.GenerateKey("old"), seal.GenerateKey("young")
	p := newDevProcess(t, t.TempDir())
	env := p.env
	restart := func(keys ...string) {
		t.Helper()
		if p.url != "" {
			must.Do(t, p.stop(syscall.SIGTERM), "SIGTERM ended with: %s", p.logs)
		}
		p.env = append(env[:len(env):len(env)], "RELAY_MASTER_KEYS="+strings.Join(keys, ","))
		p.start()
	}
	rewrap := func(want int, flags ...string) string {
		t.Helper()
		out, code := runToEnd(t, p.command(append([]string{"keys", "rewrap", "--data-dir", p.dir}, flags...)...))
		must.Equal(t, code, want, "rewrap ended with: \n%s", out)
		return out
	}
	restart(old)
	dest := newSink(t, nil)
	ep, in, secret := p.endpoint(map[string]any{
		"destinations": []any{map[string]any{"url": dest.URL, "headers": map[string]any{"X-Planted": "planted-header"}}},
		"provider":     "github", "verification": map[string]any{"type": "github", "secret": "planted-provider-secret"},
	})
	deliver := func(n int) {
		t.Helper()
		p.awaitStatus(p.send(ep, n), "delivered", arrival)
		got := dest.wait(t, n, arrival)[n-1]
		verifyDelivery(t, secret, got)
		is.Equal(t, got.header.Get("X-Planted"), "planted-header", "delivery %d has lost its header", n)
		if resp := p.post(in, map[string]string{"X-Hub-Signature-256": "sha256=" + strings.Repeat("0", 64)},
			[]byte("{}")); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("a wrong signature was answered %s", resp.Status)
		}
	}
	deliver(1)
	restart(young, old)
	deliver(2)
	// The ingest token, the provider's secret, the signing secret and the header, and the secret of the service.
	if out := rewrap(cli.ExitDone); !strings.HasSuffix(
		out, "6 secrets of 3 entities were sealed with the first master key; none is left under another\n") {
		t.Errorf("%s", out)
	}
	deliver(3)
	if out := rewrap(cli.ExitDone, "--json"); out != "{\"entities\":0,\"rewrapped\":0,\"secrets\":0}"+
		"\n{\"finished\":true}\n" {
		t.Errorf("%s", out)
	}
	restart(young)
	deliver(4)
	// With the old key alone the configuration log cannot be opened: the process does not start, and changes nothing.
	must.Do(t, p.stop(syscall.SIGTERM))
	p.env = append(env[:len(env):len(env)], "RELAY_MASTER_KEYS="+old)
	if out, code := runToEnd(t, p.command(append(p.args, "--listen", "127.0.0.1:0")...)); code == cli.ExitDone ||
		!strings.Contains(out, "add that key to RELAY_MASTER_KEYS") {
		t.Errorf("%d %s", code, out)
	}
	p.env = append(env[:len(env):len(env)], "RELAY_MASTER_KEYS="+young)
	p.start()
	deliver(5)
	for _, planted := range []string{"planted", secret, old[4:], young[6:]} {
		is.Lacks(t, p.logs.String(), planted, "%s is in the log", planted)
	}
}

// usersCommands creates, lists, changes and removes a user on a process whose environment names admin@example.com.
func usersCommands(t *testing.T, p *process) {
	t.Helper()
	relay := func(want int, words string, args ...string) string {
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
	eventually(t, arrival, func() string { // somebody has a password, so no link is printed
		if text := p.printed.String(); !strings.Contains(text, "\nDashboard: "+p.url+"/app\n") {
			return "printed " + text
		}
		return ""
	})
	lines := strings.Fields(relay(cli.ExitDone, "usr_", "add", "Ops@example.com"))
	token, linked := strings.CutPrefix(lines[len(lines)-1], p.url+"/app/link/")
	if len(lines) != 3 || lines[1] != "ops@example.com" || !linked || len(token) != 43 {
		t.Fatalf("%q", lines)
	}
	relay(cli.ExitRefused, "email: already belongs to a user", "add", "ops@EXAMPLE.com")
	relay(cli.ExitRefused, "email: must be an address", "add", "ops")
	is.Lacks(t, relay(cli.ExitDone, lines[0], "reset", "ops@example.com"), token)
	list := relay(cli.ExitDone, "admin@example.com ", "list")
	if !strings.Contains(list, " read_write ") || !strings.Contains(list, "  never signed in  has a password\n") ||
		!strings.Contains(list, " has a link until ") {
		t.Errorf("%s", list)
	}
	var users []admin.User
	if err := json.Unmarshal([]byte(relay(cli.ExitDone, "", "list", "--json")), &users); err != nil ||
		len(users) != 2 || users[0].ID != lines[0] || users[0].Link != "" || !users[1].PasswordSet ||
		users[0].Scope != "read_write" || users[0].LastSignInAt != nil {
		t.Errorf("%+v, %v", users, err)
	}
	relay(cli.ExitRefused, "scope: must be read or read_write", "add", "reader@example.com", "--scope", "admin")
	relay(cli.ExitDone, "reader@example.com", "add", "reader@example.com", "--scope", "read")
	is.Has(t, relay(cli.ExitDone, "", "list"), "  reader@example.com  read ")
	relay(cli.ExitRefused, "scope: must be read or read_write", "scope", "reader@example.com", "admin")
	relay(cli.ExitDone, "\nread_write\n", "scope", "Reader@example.com", "read_write")
	relay(cli.ExitDone, "\nread\n", "scope", "reader@example.com", "read")
	relay(cli.ExitRefused, "no user has this address", "scope", "nobody@example.com", "read")
	relay(cli.ExitDone, "", "remove", "reader@example.com")
	relay(cli.ExitDone, "removed ops@example.com", "remove", "ops@example.com")
	relay(cli.ExitRefused, "no user has this address", "remove", "ops@example.com")
	relay(cli.ExitRefused, "last user with the scope read_write; add another one first: relay users add", "remove",
		"admin@example.com")
	relay(cli.ExitRefused, "last user with the scope read_write", "scope", "admin@example.com", "read")
	relay(cli.ExitRefused, "no user has this address", "reset", "ops@example.com")
	var actions []string
	for _, row := range p.must(http.StatusOK, "GET", "/v1/audit?entity_id="+lines[0], nil)["data"].([]any) {
		row := row.(map[string]any)
		actions = append(actions, fmt.Sprint(row["actor"].(map[string]any)["type"], " ", row["action"], " ", row["changes"]))
	}
	if got := strings.Join(actions, ", "); got != "operator user.deleted [], operator user.updated [epoch link.expires "+
		"link.hash], operator user.created []" {
		t.Errorf("%s", got)
	}
	for _, secret := range []string{"planted-password", token} {
		is.Lacks(t, p.logs.String(), secret, "the log contains a secret")
	}
}

func TestUsersRejectsMisuse(t *testing.T) {
	f := func(want string, code int, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := run(t.Context(), append([]string{"users"}, args...), func(string) string { return "" }, &out, &errs)
		if text := out.String() + errs.String(); got != code || !strings.Contains(text, want) {
			t.Errorf("%q: %d, want %d\n%s", args, got, code, text)
		}
	}
	f("Exit codes", cli.ExitDone, "--help")
	f("email address of one user", cli.ExitMisused, "add")
	f("email address of one user", cli.ExitMisused, "reset", "a", "b")
	f("email address of one user", cli.ExitMisused, "remove")
	f("email address of one user and a scope", cli.ExitMisused, "scope", "ops@example.com")
	f(`unexpected argument "x"`, cli.ExitMisused, "list", "x")
	f("no running process", cli.ExitNoProcess, "list", "--data-dir", t.TempDir())
}

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
	list := users(cli.ExitDone, "  signs in by "+i.URL, "list")
	var id string
	for line := range strings.Lines(list) {
		if strings.Contains(line, "ada@example.com") {
			id, _, _ = strings.Cut(line, " ")
		}
	}
	users(cli.ExitRefused, "no user has this address", "remove", "ada@example.com")
	users(cli.ExitRefused, "OpenID Connect issuer", "scope", id, "read")
	users(cli.ExitRefused, "OpenID Connect issuer", "reset", id)
	row := p.must(http.StatusOK, "GET", "/v1/audit?entity_id="+id, nil)["data"].([]any)[0].(map[string]any)
	if actor := row["actor"].(map[string]any); row["action"] != "user.created" || actor["id"] != id ||
		row["remote_ip"] != "127.0.0.1" {
		t.Errorf("%v", row)
	}
	users(cli.ExitDone, "removed "+id, "remove", id)
	b.want(p.client, http.StatusSeeOther, "/app/sign-in?next=%2Fapp", "", http.MethodGet, "/app", nil)

	i.Stop()
	if checks, _ := p.runDoctor(); checks[check].State != doctor.StateFail {
		t.Errorf("%+v", checks[check])
	}
	is.Lacks(t, p.logs.String(), oidctest.Secret, "the log has the secret")
}
