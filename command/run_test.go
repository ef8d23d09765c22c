package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/node/admin"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The help names every subcommand once, each with its help. The error for an unknown command names relay help.
func TestHelpNamesEverySubcommand(t *testing.T) {
	run := func(words ...string) (code int, out, complaint string) {
		var stdout, stderr bytes.Buffer
		code = Program{Version: "1.2.3"}.Run(t.Context(), words, func(string) string { return "" }, &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	code, help, _ := run("help")
	if code != cli.ExitDone || !strings.HasSuffix(help, "lists the flags of a command\n") {
		t.Errorf("help ends with %d: %s", code, help)
	}
	for _, s := range subcommands() {
		if s.Help == "" || s.Run == nil || len(s.Name) > 10 || strings.Count(help, "\n  "+s.Name+" ") != 1 {
			t.Errorf("%q: %q, in the help:\n%s", s.Name, s.Help, help)
		}
	}
	if code, _, complaint := run("deliver"); code != cli.ExitMisused ||
		!strings.Contains(complaint, "relay help lists them") {
		t.Errorf("an unknown command is %d: %s", code, complaint)
	}
	for _, x := range []struct {
		words string
		code  int
		want  string
	}{
		{"doctr", cli.ExitMisused, `unknown command "doctr", did you mean doctor; relay help`},
		{"keys creat", cli.ExitMisused, `unknown command "creat", did you mean create`},
		{"dev --lisen 1", cli.ExitMisused,
			"relay: unknown flag --lisen, did you mean --listen; relay dev --help lists them\n"},
		{"help doctor", cli.ExitDone, "Usage:\n  relay doctor [flags]\n\nCheck the running process"},
		{"help keys", cli.ExitDone, "relay keys create"},
		{"help ready", cli.ExitDone, "\n  --alive\n        Ask only whether"},
		{"engine redis --help", cli.ExitDone, "  --listen VALUE\n        Address to listen on"},
		{"version --help", cli.ExitDone, "Usage:\n  relay version"},
		{"version 2", cli.ExitMisused, `unexpected argument "2"`},
	} {
		code, out, complaint := run(strings.Fields(x.words)...)
		if code != x.code || !strings.Contains(out+complaint, x.want) || strings.Count(out+complaint, "--lisen") > 1 {
			t.Errorf("relay %s is %d: %s%s", x.words, code, out, complaint)
		}
	}
	// Each command names the flag that may have been meant, and the help of each is no error.
	for _, words := range []string{
		"serve", "dev", "migrate", "doctor", "ready", "apply", "plan", "engine redis", "keys list", "users list", "dead list",
		"config export", "endpoints move",
	} {
		misspelt := "--jso"
		if words == "serve" || words == "dev" || words == "engine redis" {
			misspelt = "--lisen"
		}
		code, out, complaint := run(append(strings.Fields(words), misspelt)...)
		if code != cli.ExitMisused || out != "" || !strings.HasSuffix(complaint, "; relay "+words+" --help lists them\n") ||
			!strings.Contains(complaint, ", did you mean --") || strings.Count(complaint, "\n") != 1 {
			t.Errorf("relay %s with a misspelt flag is %d: %s%s", words, code, out, complaint)
		}
		if code, out, complaint := run(append(strings.Fields(words), "--help")...); code != cli.ExitDone || complaint != "" ||
			!strings.HasPrefix(out, "Usage:\n  relay "+words+" ") &&
				!strings.HasPrefix(out, "Usage:\n  relay "+words+"\n") {
			t.Errorf("help of relay %s is %d: %s%s", words, code, out, complaint)
		}
	}
	for words, want := range map[string]string{"version": "1.2.3\n", "--version": "1.2.3\n",
		"version --json": "{\"version\":\"1.2.3\"}\n"} {
		if code, out, _ := run(strings.Fields(words)...); code != cli.ExitDone || out != want {
			t.Errorf("%s is %d: %s", words, code, out)
		}
	}
}

// The help of a command that reads settings is short: its own flags and the settings that are usual for it. All of them
// need --all. Every description is a sentence.
func TestHelpOfSettingsIsShort(t *testing.T) {
	for _, name := range []string{"dev", "serve", "migrate", "doctor", "backup", "restore", "upgrade"} {
		var short, all, errs bytes.Buffer
		none := func(string) string { return "" }
		is.Equal(t, Program{}.Run(t.Context(), []string{name, "--help"}, none, &short, &errs), cli.ExitDone)
		is.Equal(t, Program{}.Run(t.Context(), []string{name, "--help", "--all"}, none, &all, &errs), cli.ExitDone)
		settings := 0
		eachSetting(&nodeconfig.Config{}, func(f setting) {
			settings++
			is.Has(t, all.String(), "\n  --"+f.flag, name+" --help --all")
		})
		is.Has(t, short.String(), fmt.Sprintf("relay %s --help --all lists all %d settings", name, settings))
		is.Has(t, short.String(), "\n  --data-dir VALUE\n        Directory of", name)
		if lines := strings.Count(short.String(), "\n"); lines > 60 {
			t.Errorf("the help of %s has %d lines", name, lines)
		}
		for line := range strings.Lines(short.String()) {
			if text, ok := strings.CutPrefix(line, "        "); ok && !unicode.IsUpper(rune(text[0])) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// Every line of a log has time, level, message and node, in both formats. Times are in UTC.
func TestLogLinesNameTheNode(t *testing.T) {
	var out bytes.Buffer
	logger := newLogger(logHandler(&out, logJSON, slog.LevelInfo), "node-1")
	logger.Debug("left out")
	logger.Warn("cannot trim the log", "error", errors.New("line one\nline two"))
	var line struct{ Time, Level, Msg, Node, Error string }
	must.Do(t, json.Unmarshal(out.Bytes(), &line), "in %s", &out)
	if line.Time == "" || line.Level != "WARN" || line.Msg != "cannot trim the log" || line.Node != "node-1" ||
		line.Error != "line one\nline two" {
		t.Errorf("%s", &out)
	}
	out.Reset()
	logger = newLogger(logHandler(&out, logText, slog.LevelInfo), "node-1")
	at := time.Date(2026, 9, 1, 2, 0, 0, 0, time.FixedZone("", 3*3600))
	record := slog.NewRecord(at, slog.LevelError, "cannot trim the log", 0)
	record.Add("since", at)
	must.Do(t, logger.Handler().Handle(t.Context(), record))
	is.Equal(t, out.String(), "time=2026-08-31T23:00:00.000Z level=ERROR msg=\"cannot trim the log\" node=node-1 "+
		"since=2026-08-31T23:00:00.000Z\n")
}

// What libraries write to the standard logger is a debug line of the node's log, without what a destination sent.
func TestStandardLoggerWritesNoReceivedBytes(t *testing.T) {
	before, flags := log.Writer(), log.Flags()
	defer func() {
		log.SetOutput(before)
		log.SetFlags(flags)
	}()
	write := func(lowest slog.Level) string {
		var out bytes.Buffer
		newLogger(logHandler(&out, logJSON, lowest), "node-1")
		// The line of net/http, and a long one.
		log.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v",
			"HTTP/1.1 400 Bad\r\nX-Echo: Bearer hush\r\n", errors.New("hush"))
		log.Print(strings.Repeat("é", 200) + "hush")
		return out.String()
	}
	is.Equal(t, write(slog.LevelInfo), "", "at level info")
	out := write(slog.LevelDebug)
	var lines []string
	for text := range strings.Lines(out) {
		var record struct{ Level, Node, Line string }
		if err := json.Unmarshal([]byte(text), &record); err != nil || record.Level != "DEBUG" || record.Node != "node-1" {
			t.Errorf("%v: %s", err, text)
		}
		lines = append(lines, record.Line)
	}
	if len(lines) != 2 || lines[0] != "Unsolicited response received on idle HTTP channel starting with" ||
		lines[1] != strings.Repeat("é", maxLibraryLine/2) || strings.Contains(out, "hush") {
		t.Errorf("%s", out)
	}
}

// A process whose log is JSON ends with a line of JSON, not with text.
func TestFailureIsALineOfTheLog(t *testing.T) {
	var out bytes.Buffer
	env := map[string]string{
		"RELAY_LOG_FORMAT": "json", "RELAY_DATA_DIR": "/dev/null/x", "RELAY_NODE_NAME": "node-1",
	}
	code := Program{Version: "test"}.Run(t.Context(), []string{"dev"},
		func(name string) string { return env[name] }, &out, &out)
	if code != cli.ExitRefused || !strings.Contains(out.String(), "data directory") {
		t.Fatalf("%d %s", code, &out)
	}
	for line := range strings.Lines(out.String()) {
		var record struct{ Level, Msg, Node string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg == "" || record.Node != "node-1" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// relay keys list marks keys that a web page has sent, whatever it knows of their last use, and no others.
func TestKeysOfWebPagesAreMarkedInTheList(t *testing.T) {
	for _, k := range []admin.Key{
		{}, {LastUseUnknown: true}, {LastUse: &admin.KeyUse{At: time.Now(), RemoteIP: "192.0.2.1"}},
	} {
		const mark = "sent by a web page"
		is.Lacks(t, lastUse(&k), mark, "no web page has sent the key")
		k.UsedFromBrowser = true
		is.Has(t, lastUse(&k), mark, "a web page has sent the key")
	}
}

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
	f(at, "", cli.ExitDone, "ready\n", "")
	f(at, "--json", cli.ExitDone, answer, "")
	f(nil, "--listen "+at["RELAY_LISTEN"], cli.ExitDone, "ready\n", "")
	_, port, err := net.SplitHostPort(at["RELAY_LISTEN"])
	must.Do(t, err)
	f(map[string]string{"RELAY_LISTEN": "0.0.0.0:" + port}, "", cli.ExitDone, "ready\n", "")
	f(map[string]string{"RELAY_LISTEN": secure.Listener.Addr().String(), "RELAY_TLS_CERT_FILE": "cert.pem"}, "",
		cli.ExitDone, "ready\n", "")
	answer = `{"status":"ready","checks":[{"name":"store","ok":false,"required":false}]}`
	f(at, "", cli.ExitDone, "ready, but without: store\n", "")
	status, answer = 503, `{"status":"not ready","checks":[{"name":"configuration","ok":false,"required":true},`+
		`{"name":"clock","ok":false,"required":true},{"name":"ids","ok":true,"required":true}]}`
	f(at, "", cli.ExitRefused, "", "not ready: configuration, clock;")
	f(at, "--json", cli.ExitRefused, answer, "not ready: configuration, clock;")
	answer = "<html>"
	f(at, "", cli.ExitRefused, "", "not a relay node")
	f(at, "extra", cli.ExitMisused, "", "unexpected argument")
	path, status, answer = "/healthz", 200, `{"status":"ok"}`
	f(at, "--alive", cli.ExitDone, "alive\n", "")
	f(at, "--alive --json", cli.ExitDone, answer, "")
	status = 404
	f(at, "--alive", cli.ExitRefused, "", "not alive: the server at")
	plain.Close()
	f(at, "", cli.ExitRefused, "", "not ready: no node answers at RELAY_LISTEN")
	f(at, "--alive", cli.ExitRefused, "", "not alive: no node answers at RELAY_LISTEN")
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
	is.Equal(t, code, cli.ExitRefused, "exit: %s", &errs)
}

// Each subcommand of a feature names one behind which the help lists it, and a key that is refused says why.
func TestCommandsOfFeatures(t *testing.T) {
	listed := subcommands()
	for _, f := range node.Features {
		for _, c := range f.Commands {
			at := func(name string) int {
				return slices.IndexFunc(listed, func(s cli.Command) bool { return s.Name == name })
			}
			is.Equal(t, at(c.After) >= 0 && at(c.After) < at(c.Name), true, c.Name+" after "+c.After)
		}
	}
	s := settings{Config: nodeconfig.Config{BootstrapKey: "short"}}
	is.Has(t, s.Validate("dev").Error(), "RELAY_BOOTSTRAP_KEY: must be at least 16 printable characters", "a short key")
}
