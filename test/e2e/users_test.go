package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/test/is"
)

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
	lines := strings.Fields(relay(command.ExitDone, "usr_", "add", "Ops@example.com"))
	token, linked := strings.CutPrefix(lines[len(lines)-1], p.url+"/app/link/")
	if len(lines) != 3 || lines[1] != "ops@example.com" || !linked || len(token) != 43 {
		t.Fatalf("%q", lines)
	}
	relay(command.ExitRefused, "email: already belongs to a user", "add", "ops@EXAMPLE.com")
	relay(command.ExitRefused, "email: must be an address", "add", "ops")
	is.Lacks(t, relay(command.ExitDone, lines[0], "reset", "ops@example.com"), token)
	list := relay(command.ExitDone, "admin@example.com\t", "list")
	if !strings.Contains(list, "\tread_write\t") || !strings.Contains(list, "\tnever signed in\thas a password\n") ||
		!strings.Contains(list, "\thas a link until ") {
		t.Errorf("%s", list)
	}
	var users []admin.User
	if err := json.Unmarshal([]byte(relay(command.ExitDone, "", "list", "--json")), &users); err != nil ||
		len(users) != 2 || users[0].ID != lines[0] || users[0].Link != "" || !users[1].PasswordSet ||
		users[0].Scope != "read_write" || users[0].LastSignInAt != nil {
		t.Errorf("%+v, %v", users, err)
	}
	relay(command.ExitRefused, "scope: must be read or read_write", "add", "reader@example.com", "--scope", "admin")
	relay(command.ExitDone, "reader@example.com", "add", "reader@example.com", "--scope", "read")
	is.Has(t, relay(command.ExitDone, "", "list"), "\treader@example.com\tread\t")
	relay(command.ExitRefused, "scope: must be read or read_write", "scope", "reader@example.com", "admin")
	relay(command.ExitDone, "\nread_write\n", "scope", "Reader@example.com", "read_write")
	relay(command.ExitDone, "\nread\n", "scope", "reader@example.com", "read")
	relay(command.ExitRefused, "no user has this address", "scope", "nobody@example.com", "read")
	relay(command.ExitDone, "", "remove", "reader@example.com")
	relay(command.ExitDone, "removed ops@example.com", "remove", "ops@example.com")
	relay(command.ExitRefused, "no user has this address", "remove", "ops@example.com")
	relay(command.ExitRefused, "last user with the scope read_write; add another one first: relay users add", "remove",
		"admin@example.com")
	relay(command.ExitRefused, "last user with the scope read_write", "scope", "admin@example.com", "read")
	relay(command.ExitRefused, "no user has this address", "reset", "ops@example.com")
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
	f("Exit codes", command.ExitDone, "--help")
	f("email address of one user", command.ExitMisused, "add")
	f("email address of one user", command.ExitMisused, "reset", "a", "b")
	f("email address of one user", command.ExitMisused, "remove")
	f("email address of one user and a scope", command.ExitMisused, "scope", "ops@example.com")
	f(`unexpected argument "x"`, command.ExitMisused, "list", "x")
	f("no running process", command.ExitNoProcess, "list", "--data-dir", t.TempDir())
}
