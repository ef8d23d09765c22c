package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// example is the pair of programs in sdk/examples that docs/start/clients.md shows for one language.
type example struct {
	language      string
	dir           string
	send, receive []string // their command lines
	env           []string
	installed     string // what test/vendors.sh installs for them; "" = nothing
}

// The example programs send an event, verify its delivery, refuse a forged one, and handle a repeated one once.
func TestExamples(t *testing.T) {
	t.Parallel()
	built := t.TempDir() + "/"
	root := kit.Root(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", built, "./sdk/examples/go/...")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packages := filepath.Join(root, "bin/examples/python")
	port := strconv.Itoa(kit.FreePort(t))
	p := startDevProcess(t, t.TempDir(), "RELAY_EGRESS_ALLOW_HTTP=true", "RELAY_PORTAL_ORIGINS=http://localhost:"+port)
	t.Run("portal in Go", func(t *testing.T) { showsPortal(t, p.forTest(t), built+"portal", port) })
	for _, e := range []example{
		{"Go", root, []string{built + "send"}, []string{built + "receive"}, nil, ""},
		{"JavaScript", filepath.Join(root, "sdk/examples/javascript"), []string{"node", "send.mjs"},
			[]string{"node", "receive.mjs"}, nil, "sdk/examples/javascript/node_modules/standardwebhooks"},
		{"Python", filepath.Join(root, "sdk/examples/python"), []string{"python3", "send.py"},
			[]string{"python3", "receive.py"}, []string{"PYTHONPATH=" + packages, "PYTHONDONTWRITEBYTECODE=1"},
			"bin/examples/python/standardwebhooks"},
	} {
		t.Run(e.language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(e.send[0]); err != nil {
				kit.SkipMissing(t, "examples in %s: %v", e.language, err)
			}
			if _, err := os.Stat(filepath.Join(root, e.installed)); err != nil {
				kit.SkipMissing(t, "examples in %s: run test/vendors.sh: %v", e.language, err)
			}
			c := p.forTest(t)
			e.refuse(t, c)
			e.sendAndReceive(t, c)
		})
	}
}

// command returns one of the programs, not started yet.
func (e example) command(t *testing.T, line []string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Dir, cmd.Env = e.dir, append(append(os.Environ(), e.env...), env...)
	return cmd
}

// refuse starts the programs with something missing or wrong: each says it in one line, without a stack trace.
func (e example) refuse(t *testing.T, c client) {
	base, key := "RELAY_BASE_URL="+c.url, "RELAY_API_KEY="+c.key
	event := append(slices.Clone(e.send), "ep_unknown", "order.paid")
	const noPort = "PORT=-1" // ends a receiver that takes the secret
	for _, x := range []struct {
		line, env []string
		says      string
	}{
		{e.send, []string{base, key}, "usage: "},
		{append(slices.Clone(event), "{}"), []string{key}, "usage: "},
		{append(slices.Clone(event), "{"), []string{base, key}, "JSON"},
		{append(slices.Clone(event), "{}"), []string{base, key}, "404"},
		{append(slices.Clone(event), "{}"), []string{base, "RELAY_API_KEY=rly_live_unknown"}, "401"},
		{e.receive, nil, "RELAY_SIGNING_SECRET is missing"},
		{e.receive, []string{noPort, "RELAY_SIGNING_SECRET=whsec_"}, "at least 24 bytes"},
		{e.receive, []string{noPort, "RELAY_SIGNING_SECRET=whsec_c2hvcnQga2V5"}, "at least 24 bytes"},
		{e.receive, []string{noPort, "RELAY_SIGNING_SECRET=whsec_?"}, "at least 24 bytes"},
	} {
		_, err := e.command(t, x.line, x.env...).Output()
		if text := stderrOf(err); err == nil || !strings.Contains(text, x.says) ||
			strings.Count(strings.TrimSpace(text), "\n") > 0 {
			t.Errorf("%q prints %q and ends with %v, want %q in one line", x.line, text, err, x.says)
		}
	}
}

func (e example) sendAndReceive(t *testing.T, c client) {
	url := fmt.Sprintf("http://127.0.0.1:%d/hook", kit.FreePort(t))
	ep, _, secret := c.endpoint(map[string]any{"destinations": []any{url}})
	_, port, _ := strings.Cut(strings.TrimSuffix(url, "/hook"), "127.0.0.1:")
	printed := &tail{}
	receiver := e.command(t, e.receive, "PORT="+port, "RELAY_SIGNING_SECRET="+secret)
	receiver.Stdout, receiver.Stderr = printed, printed
	must.Do(t, receiver.Start())
	t.Cleanup(func() { _ = receiver.Wait() }) // it was killed with the test's context
	eventually(t, arrival, func() string {
		if !strings.Contains(printed.String(), "listening on 127.0.0.1:"+port) {
			return "the receiver does not listen: " + printed.String()
		}
		return ""
	})
	out, err := e.command(t, append(e.send, ep, "order.paid", `{"amount":4200}`),
		"RELAY_BASE_URL="+c.url, "RELAY_API_KEY="+c.key).Output()
	if err != nil {
		t.Fatalf("send: %v %v", err, stderrOf(err))
	}
	id := strings.TrimSpace(string(out))
	event := c.awaitStatus(id, "delivered", arrival)
	if want := "received " + id + " order.paid "; strings.Count(printed.String(), want) != 1 {
		t.Errorf("the receiver printed %s, want %s once", printed, want)
	}

	body := []byte(event["body"].(string))
	again := func(secret sign.Secret) int {
		now := time.Now()
		return c.post(url, map[string]string{
			"webhook-id": id, "webhook-timestamp": strconv.FormatInt(now.Unix(), 10),
			"webhook-signature": sign.Sign([]sign.Secret{secret}, id, now, body),
		}, body).StatusCode
	}
	own := must.Get(sign.ParseSecret(secret))(t)
	is.Equal(t, again(own), http.StatusNoContent, "a delivery that is repeated is answered")
	is.Equal(t, again(sign.NewSecret()), http.StatusUnauthorized, "a forged delivery is answered")
	is.Equal(t, strings.Count(printed.String(), "received "), 1, "the event was handled: times: %s", printed)
}

// stderrOf returns what a command that failed has printed.
func stderrOf(err error) string {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// showsPortal starts the application with the portal in a frame, and opens the link that it shows.
func showsPortal(t *testing.T, c client, program, port string) {
	app := exec.CommandContext(t.Context(), program)
	app.Env = append(os.Environ(), "RELAY_BASE_URL="+c.url, "RELAY_API_KEY="+c.key, "PORT="+port)
	must.Do(t, app.Start())
	t.Cleanup(func() { _ = app.Wait() }) // it was killed with the test's context
	eventually(t, arrival, func() string {
		resp, err := http.Get("http://localhost:" + port + "/")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		if page, _ := io.ReadAll(resp.Body); !strings.Contains(string(page), `src="`+c.url+`/portal/link/`) {
			return string(page)
		}
		return ""
	})
}
