package command

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// relay ready exits with 0 if the node at RELAY_LISTEN is ready, otherwise with 1, and names what is missing. It needs
// neither the other settings nor a valid certificate.
func TestReady(t *testing.T) {
	var status int
	var answer string
	path := "/readyz"
	node := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is.Equal(t, r.URL.Path, path, "asked for %s", r.URL)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	})
	plain, secure := httptest.NewServer(node), httptest.NewTLSServer(node)
	defer plain.Close()
	defer secure.Close()
	f := func(env map[string]string, args string, code int, stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := Program{Version: "1.0.0"}.Run(t.Context(), append([]string{"ready"}, strings.Fields(args)...),
			func(name string) string { return env[name] }, &out, &errs)
		if got != code || out.String() != stdout || !strings.Contains(errs.String(), stderr) ||
			(stderr == "") != (errs.Len() == 0) {
			t.Errorf("%v %s: exit %d, stdout %q, stderr %q; want %d, %q, %q", env, args, got, &out, &errs, code, stdout, stderr)
		}
	}
	at := map[string]string{
		"RELAY_LISTEN": plain.Listener.Addr().String(), "RELAY_MASTER_KEYS_FILE": "/does/not/exist",
	}
	status, answer = 200, `{"status":"ready","checks":[{"name":"configuration","ok":true,"required":true}]}`
	f(at, "", ExitDone, "ready\n", "")
	f(at, "--json", ExitDone, answer, "")
	f(nil, "--listen "+at["RELAY_LISTEN"], ExitDone, "ready\n", "")
	_, port, err := net.SplitHostPort(at["RELAY_LISTEN"])
	must.Do(t, err)
	f(map[string]string{"RELAY_LISTEN": "0.0.0.0:" + port}, "", ExitDone, "ready\n", "")
	f(map[string]string{"RELAY_LISTEN": secure.Listener.Addr().String(), "RELAY_TLS_CERT_FILE": "cert.pem"}, "",
		ExitDone, "ready\n", "")
	answer = `{"status":"ready","checks":[{"name":"store","ok":false,"required":false}]}`
	f(at, "", ExitDone, "ready, but without: store\n", "")
	status, answer = 503, `{"status":"not ready","checks":[{"name":"configuration","ok":false,"required":true},`+
		`{"name":"clock","ok":false,"required":true},{"name":"ids","ok":true,"required":true}]}`
	f(at, "", ExitRefused, "", "not ready: configuration, clock;")
	f(at, "--json", ExitRefused, answer, "not ready: configuration, clock;")
	answer = "<html>"
	f(at, "", ExitRefused, "", "not a relay node")
	f(at, "extra", ExitMisused, "", "unexpected argument")
	path, status, answer = "/healthz", 200, `{"status":"ok"}`
	f(at, "--alive", ExitDone, "alive\n", "")
	f(at, "--alive --json", ExitDone, answer, "")
	status = 404
	f(at, "--alive", ExitRefused, "", "not alive: the server at")
	plain.Close()
	f(at, "", ExitRefused, "", "not ready: no node answers at RELAY_LISTEN")
	f(at, "--alive", ExitRefused, "", "not alive: no node answers at RELAY_LISTEN")
}

// A caller that gives up ends the question.
func TestReadyEnds(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := Program{Version: "1.0.0"}.Run(ctx, []string{"ready", "--listen", silent.Addr().String()},
		func(string) string { return "" }, &out, &errs)
	is.Equal(t, code, ExitRefused, "exit: %s", &errs)
}
