package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func settingsOf(t *testing.T, args []string, env map[string]string) (settings, error) {
	t.Helper()
	return loadSettings(cli.Call{Name: "dev", Args: args, Getenv: func(name string) string { return env[name] }})
}

// Every secret setting can be read from a file, named by a variable or a flag; a fault names the variable and no
// secret.
func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	good, empty, large := write("good", "  the secret\n"), write("empty", "\n"),
		write("large", strings.Repeat("x", cli.MaxSecretFile+1))
	secrets := 0
	eachSetting(&nodeconfig.Config{}, func(f setting) {
		file := f.env + "_FILE"
		if !f.secret {
			return
		}
		secrets++
		for name, s := range map[string]func() (settings, error){
			"environment": func() (settings, error) { return settingsOf(t, nil, map[string]string{file: good}) },
			"flag":        func() (settings, error) { return settingsOf(t, []string{"--" + f.flag + "-file", good}, nil) },
		} {
			got, err := s()
			eachSetting(&got.Config, func(g setting) {
				if g.flag == f.flag && (err != nil || g.value.String() != "the secret" || len(got.secretFlags) != 0) {
					t.Errorf("%s as a file, %s: %q, %v", f.flag, name, g.value, err)
				}
			})
		}
		for _, env := range []map[string]string{
			{file: empty}, {file: large}, {file: filepath.Join(dir, "none")}, {file: good, f.env: "other secret"}} {
			if _, err := settingsOf(t, nil, env); err == nil || !strings.Contains(err.Error(), file) ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: %v", env, err)
			}
		}
	})
	if secrets < 9 {
		t.Errorf("%d secret settings", secrets)
	}
}

// A file with a secret that other users can read is used, with a warning.
func TestOpenSecretFileWarns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		must.Do(t, errors.Join(os.WriteFile(path, []byte("hidden"), 0o600), os.Chmod(path, mode)))
		s := must.Get(settingsOf(t, nil, map[string]string{"RELAY_KAFKA_SASL_FILE": path}))(t)
		var out bytes.Buffer
		s.logWarnings(slog.New(slog.NewTextHandler(&out, nil)))
		if strings.Contains(out.String(), path) != warned || strings.Contains(out.String(), "hidden") {
			t.Errorf("mode %o: %s", mode, out.String())
		}
	}
}

// All faults of flags, variables and files are reported at once, and nothing is started or created.
func TestAllFaultsAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	env := map[string]string{
		"RELAY_DATA_DIR": dir, "RELAY_PARTITIONS": "many", "RELAY_MASTER_KEYS": "hidden",
		"RELAY_KAFKA_SASL": "kerberos:me:hidden", "RELAY_KAFKA_TLS": "/none/ca.pem",
		"RELAY_CLICKHOUSE_URL": "ftp://store", "RELAY_SEARCH_URL": "ftp://search", "RELAY_REDIS_URL": "ftp://redis",
		"RELAY_SMTP_URL_FILE": "/none/smtp", "RELAY_BOOTSTRAP_KEY": "hidden", "RELAY_LOG_LEVEL": "loud",
		"RELAY_LOG_FORMAT":    "xml",
		"RELAY_TLS_CERT_FILE": "/none/cert.pem", "RELAY_TLS_KEY_FILE": "/none/key.pem",
		"RELAY_EGRESS_CA_FILE": "/none/roots.pem", "RELAY_DNS_SERVER": "dns",
		"RELAY_EGRESS_ALLOW": "10.0.0.1", "RELAY_EGRESS_DENY": "::ffff:10.0.0.0/104",
	}
	args := strings.Fields("serve --max-body big --fsync=perhaps --retention-days 0 --admin-password-file /none/pw extra")
	var out, errs bytes.Buffer
	code := Program{Version: "1.0.0"}.Run(t.Context(), args, func(name string) string { return env[name] }, &out, &errs)
	if code != cli.ExitMisused || strings.Contains(errs.String(), "hidden") {
		t.Errorf("exit %d: %s", code, &errs)
	}
	for _, want := range []string{"RELAY_PARTITIONS:", "RELAY_MASTER_KEYS:", "RELAY_KAFKA_SASL:", "RELAY_KAFKA_TLS:",
		"RELAY_CLICKHOUSE_URL:", "RELAY_SEARCH_URL:", "RELAY_REDIS_URL:", "RELAY_SMTP_URL_FILE:", "RELAY_BOOTSTRAP_KEY:",
		"RELAY_LOG_FORMAT:",
		"RELAY_LOG_LEVEL:", "RELAY_TLS_CERT_FILE:", "RELAY_EGRESS_CA_FILE:", "RELAY_DNS_SERVER:", "--max-body:", "--fsync:",
		"RELAY_RETENTION_DAYS:", "--admin-password-file:", "unexpected argument",
		"RELAY_KAFKA_BROKERS: is missing, but RELAY_KAFKA_SASL is set", "RELAY_EGRESS_ALLOW:",
		"RELAY_EGRESS_DENY: ::ffff:10.0.0.0/104 would block no IPv4 address"} {
		is.Has(t, errs.String(), want, "%s is missing in:\n%s", want, &errs)
	}
	is.Equal(t, strings.Count(errs.String(), "RELAY_PARTITIONS:"), 1, "lines about RELAY_PARTITIONS:\n%s", &errs)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data directory: %v", err)
	}
}

// Each certificate file of Redis that cannot be used is named, both at once.
func TestCertificatesOfRedisAreNamed(t *testing.T) {
	s, err := settingsOf(t, nil, map[string]string{"RELAY_REDIS_URL": "rediss://redis",
		"RELAY_REDIS_CA_FILE": "/none/ca.pem", "RELAY_REDIS_CERT_FILE": "/none/cert.pem"})
	must.Do(t, err)
	err = s.Validate("dev")
	for _, want := range []string{"RELAY_REDIS_CA_FILE: ", "RELAY_REDIS_CERT_FILE: "} {
		is.Failed(t, err, want, "%s is missing in", want)
	}
}

// dev has engines of its own: it ignores settings of other engines, even invalid ones, with one warning.
func TestDevIgnoresEngines(t *testing.T) {
	s, err := settingsOf(t, nil, map[string]string{
		"RELAY_KAFKA_SASL": "nonsense", "RELAY_KAFKA_TLS": "/none", "RELAY_REDIS_URL": "nonsense",
		"RELAY_CLICKHOUSE_URL": "nonsense", "RELAY_REDIS_CA_FILE": "/none",
	})
	s.ignoreEngines()
	must.Do(t, errors.Join(err, s.Validate("dev")))
	is.Equal(t, s.KafkaSASL+s.KafkaTLS+s.RedisURL+s.ClickHouseURL, "", "kept: %+v", s)
	var out bytes.Buffer
	s.logWarnings(slog.New(slog.NewTextHandler(&out, nil)))
	want := "RELAY_KAFKA_SASL, RELAY_KAFKA_TLS, RELAY_CLICKHOUSE_URL, RELAY_REDIS_URL, " +
		"RELAY_REDIS_CA_FILE"
	if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), want) {
		t.Error(out.String())
	}
}

func TestUnknownVariables(t *testing.T) {
	f := func(variable, want string) {
		t.Helper()
		var out bytes.Buffer
		warnMisspelt(slog.New(slog.NewTextHandler(&out, nil)), []string{variable + "=hidden"})
		if (out.Len() > 0) != (want != "") || !strings.Contains(out.String(), want) ||
			strings.Contains(out.String(), "hidden") {
			t.Errorf("%s: %s", variable, out.String())
		}
	}
	f("RELAY_KAFKA_BROKER", "did_you_mean=RELAY_KAFKA_BROKERS")
	f("RELAY_REDIS_URL_FIEL", "did_you_mean=RELAY_REDIS_URL_FILE")
	f("RELAY_KAFKA_BROKERS", "")
	f("RELAY_ENGINE_KEY", "")
	f("RELAY_TEST_DIR", "")
	f("RELAY_SEED", "")
	f("PATH", "")
}

// If a component ends while others start, the error is that component's, not that the start was cancelled.
func TestErrorOfStartCutShort(t *testing.T) {
	broken := errors.New("no room on disk")
	st := node.NewStack(t.Context(), slog.New(slog.DiscardHandler))
	st.Start("log", func(context.Context) error { return broken })
	<-st.Context().Done()
	if err := st.StopAfterFailedStart(st.Ready(make(chan struct{}))); !errors.Is(err, broken) ||
		errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	st = node.NewStack(t.Context(), slog.New(slog.DiscardHandler))
	is.ErrorIs(t, st.StopAfterFailedStart(broken), broken)
}

// A secret in a flag causes a warning that does not repeat it. A public address without TLS causes a warning too.
func TestSettingsWarnings(t *testing.T) {
	f := func(args string, want ...string) {
		t.Helper()
		s := must.Get(settingsOf(t, strings.Fields(args), nil))(t)
		var out bytes.Buffer
		s.logWarnings(slog.New(slog.NewTextHandler(&out, nil)))
		if strings.Count(out.String(), "\n") != len(want) || strings.Contains(out.String(), "hidden") {
			t.Errorf("%s: %s", args, out.String())
		}
		for _, part := range want {
			is.Has(t, out.String(), part, "%s: does not say %q", args, part)
		}
	}
	f("")
	f("--master-keys hidden --admin-password hidden --kafka-sasl hidden", "--master-keys", "--admin-password",
		"--kafka-sasl")
	f("--redis-url redis://localhost:6379 --clickhouse-url http://ch:8123/relay")
	f("--redis-url redis://:hidden@localhost --clickhouse-url http://ch:8123/relay?password=hidden", "--redis-url",
		"--clickhouse-url")
	random := apikey.New()
	guessed := "setting=RELAY_BOOTSTRAP_READ_KEY"
	f("--bootstrap-key "+random+" --bootstrap-read-key hidden-hidden-hidden-hidden", "--bootstrap-key",
		"--bootstrap-read-key", guessed)
	f("--base-url http://relay.example.com", "RELAY_BASE_URL is http://")
	f("--base-url http://localhost:8080")
	exposed := "Kafka password is sent unencrypted"
	f("--kafka-brokers k:9092 --kafka-sasl plain:relay:hidden", "--kafka-sasl", exposed)
	f("--kafka-brokers k:9092 --kafka-sasl plain:relay:hidden --kafka-tls system", "--kafka-sasl")
	f("--kafka-brokers k:9092 --kafka-sasl scram-sha-512:relay:hidden", "--kafka-sasl")
	f("--base-url https://relay.example.com")
}

func TestAdminSettings(t *testing.T) {
	f := func(email, password string, faults ...string) {
		t.Helper()
		s, err := settingsOf(t, nil, map[string]string{"RELAY_ADMIN_EMAIL": email, "RELAY_ADMIN_PASSWORD": password})
		must.Do(t, err)
		err = s.Validate("dev")
		is.Equal(t, err == nil, len(faults) == 0, "%q %q: %v", email, password, err)
		for _, fault := range faults {
			is.Failed(t, err, fault, "%q %q", email, password)
		}
		if err != nil && password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("a fault repeats the password: %v", err)
		}
	}
	f("", "")
	f("ops@example.com", strings.Repeat("x", 12))
	f("ops@example.com", strings.Repeat("x", 1000))
	f("ops@example.com", strings.Repeat("x", 11), "RELAY_ADMIN_PASSWORD: must have 12 to 1000 bytes")
	f("ops@example.com", strings.Repeat("x", 1001), "RELAY_ADMIN_PASSWORD: must have")
	f("ops@example.com", "", "RELAY_ADMIN_EMAIL: must be set together with RELAY_ADMIN_PASSWORD")
	f("", strings.Repeat("x", 12), "must be set together")
	f("ops", strings.Repeat("y", 5), "RELAY_ADMIN_EMAIL: must be an address", "RELAY_ADMIN_PASSWORD: must have")
}

// Every number has bounds: -2 is valid for no setting.
func TestNumbersHaveBounds(t *testing.T) {
	eachSetting(&nodeconfig.Config{}, func(f setting) {
		if f.value.Kind() != reflect.Int {
			return
		}
		for _, value := range []string{"-1", "-2"} {
			s := must.Get(settingsOf(t, []string{"--" + f.flag, value}, nil))(t)
			is.Failed(t, s.Validate("dev"), f.env+": must be", "%s takes %s", f.env, value)
		}
	})
}

// Package node, a feature or a command reads every setting. A setting that is parsed and validated but never read has
// no effect.
func TestSettingsAreRead(t *testing.T) {
	read := map[string]bool{}
	for _, pattern := range []string{"*.go", "../node/*.go", "../pkg/nodeconfig/*.go", "../features/*/*.go"} {
		files := must.Get(filepath.Glob(pattern))(t)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "settings") {
				continue
			}
			file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
			ast.Inspect(file, func(n ast.Node) bool {
				if x, ok := n.(*ast.SelectorExpr); ok {
					switch types.ExprString(x.X) {
					case "s", "settings", "n.Settings", "h.Settings":
						read[x.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	for f := range reflect.TypeFor[nodeconfig.Config]().Fields() {
		if f.Tag.Get("flag") != "" && !read[f.Name] {
			t.Errorf("nothing reads the setting %s", f.Name)
		}
	}
}

func TestAddressesSettings(t *testing.T) {
	f := func(address string, ok bool) {
		t.Helper()
		for _, env := range []string{"RELAY_LISTEN", "RELAY_ADMIN_LISTEN"} {
			s := must.Get(settingsOf(t, nil, map[string]string{env: address}))(t)
			if err := s.Validate("dev"); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), env) {
				t.Errorf("%s=%q: %v", env, address, err)
			}
		}
	}
	for _, right := range []string{
		"", ":0", ":8080", "0.0.0.0:80", "[::1]:8080", "relay.internal:8080", ":http", "127.0.0.1:"} {
		f(right, true)
	}
	for _, wrong := range []string{"abc", "8080", "127.0.0.1", ":99999", ":-1", "::1:x"} {
		f(wrong, false)
	}
}

func TestHostsSettings(t *testing.T) {
	lists := []string{"RELAY_ALLOWED_HOSTS", "RELAY_ADMIN_HOSTS"}
	f := func(hosts string, ok bool, settings ...string) {
		t.Helper()
		for _, env := range settings {
			s := must.Get(settingsOf(t, nil, map[string]string{env: hosts}))(t)
			if err := s.Validate("dev"); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), env) {
				t.Errorf("%s=%q: %v", env, hosts, err)
			}
		}
	}
	f("relay.example.com, inside", true, lists...)
	f("relay.example.com, inside", false, "RELAY_DASHBOARD_HOST")
	all := append(lists, "RELAY_DASHBOARD_HOST")
	f("", true, all...)
	f("relay.example.com", true, all...)
	f("relay.example.com:8080", false, all...)
	f("relay.example.com:", false, all...)
	f("https://relay.example.com", false, all...)
	f("relay.example.com/x", false, all...)
	f("me@relay.example.com", false, all...)
}

// Without brokers serve needs nothing, and is alone; with them it needs what nodes share.
func TestWhatServeNeeds(t *testing.T) {
	brokers := map[string]string{"RELAY_KAFKA_BROKERS": "kafka:9092"}
	for _, x := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"RELAY_CLICKHOUSE_URL": "http://store/relay", "RELAY_REDIS_URL": "redis://counts"}, ""},
		{map[string]string{"RELAY_CLICKHOUSE_CLUSTER": "main"}, "RELAY_KAFKA_BROKERS: is missing"},
		{map[string]string{"RELAY_ROLES": "ingest"}, "RELAY_ROLES: must name all roles"},
		{brokers, "RELAY_NODE_NAME: is required by serve with RELAY_KAFKA_BROKERS\n" +
			"RELAY_CLICKHOUSE_URL: is required by serve with RELAY_KAFKA_BROKERS\n" +
			"RELAY_MASTER_KEYS: is required by serve with RELAY_KAFKA_BROKERS"},
	} {
		s := must.Get(settingsOf(t, nil, x.env))(t)
		err := s.Validate("serve")
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v, want %q", x.env, err, x.want)
		}
	}
}

// The tables of docs/operate/settings.md are made from the settings, so that they cannot drift.
func TestSettingsTables(t *testing.T) {
	const begin, end = "<!-- settings -->\n", "<!-- /settings -->"
	document := must.Get(os.ReadFile("../docs/operate/settings.md"))(t)
	_, rest, ok := bytes.Cut(document, []byte(begin))
	table, _, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("settings.md has no %q … %q", begin, end)
	}
	if want := settingsTable(); string(table) != want {
		t.Errorf("the tables of settings.md are out of date; they should be:\n%s", want)
	}
}

// settingsTable returns the tables of settings, one for each section.
func settingsTable() string {
	var b strings.Builder
	eachSetting(&nodeconfig.Config{}, func(f setting) {
		if f.section != "" {
			fmt.Fprintf(&b, "\n## %s\n\n| variable | meaning | default |\n|---|---|---|\n", f.section)
		}
		variable := "`" + f.env + "`"
		if f.secret {
			variable += " or `" + f.env + "_FILE`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", variable, strings.ReplaceAll(f.help, "|", "\\|"), f.defaultText())
	})
	return b.String() + "\n"
}

// Every setting explains itself in whole sentences and says what holds when it is not given.
func TestSettingsExplainThemselves(t *testing.T) {
	sections := 0
	eachSetting(&nodeconfig.Config{}, func(f setting) {
		if f.section != "" {
			sections++
		}
		if sections == 0 {
			t.Errorf("%s is in no section", f.flag)
		}
		if f.help == "" || !unicode.IsUpper(rune(f.help[0])) || !strings.HasSuffix(f.help, ".") {
			t.Errorf("the help of %s is no sentence: %q", f.flag, f.help)
		}
		if f.defaultText() == "" {
			t.Errorf("nothing says what holds without %s", f.flag)
		}
	})
}

func TestBaseURL(t *testing.T) {
	for s, want := range map[string]bool{
		"https://hooks.example.com": true, "http://localhost:8080": true, "https://hooks.example.com/": true,
		"https://[2001:db8::1]:8443": true, "HTTPS://hooks.example.com": true,
		"hooks.example.com": false, "ftp://hooks.example.com": false, "https://": false, "https://:8080": false,
		"https://hooks.example.com/relay": false, "https://hooks.example.com//": false,
		"https://hooks.example.com?a=b": false, "https://hooks.example.com/?": false,
		"https://hooks.example.com#x": false, "https://user:pass@hooks.example.com": false,
		"https://hooks.example.com:": false, "https://hooks.example.com:0": false, "https://hooks.example.com:99999": false,
	} {
		is.Equal(t, isBaseURL(s), want, s)
	}
}

// The banner shows a key that dev has made, and neither one that it was given nor one that was revoked.
func TestBanner(t *testing.T) {
	const key = "rly_live_of-the-first-start"
	for _, x := range []struct {
		given, accepted bool
		shown           int
		says            string
	}{
		{false, true, 2, "(read and write): " + key},
		{true, true, 0, "Bearer $RELAY_BOOTSTRAP_KEY"},
		{false, false, 0, "was revoked. relay keys create"},
		{true, false, 0, "was revoked. relay keys create"},
	} {
		shown, line := keyLine(key, x.given, x.accepted)
		text := banner("http://localhost:8080", shown, line, "", "{}")
		if strings.Count(text, key) != x.shown || !strings.Contains(text, x.says) {
			t.Errorf("given %v, accepted %v: the banner says %s", x.given, x.accepted, text)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, c := range []struct{ release, commit, want string }{
		{"0.1.0-dev\n", "a6d2758", "0.1.0-dev+a6d2758"},
		{"0.1.0-dev\n", "a6d2758-dirty", "0.1.0-dev+a6d2758-dirty"},
		{"0.1.0-dev\n", "", "0.1.0-dev"}, // the test binary has no commit in it
		{"1.2.0\n", "a6d2758", "1.2.0"},
		{"1.2.0\n", "a6d2758-dirty", "1.2.0+a6d2758-dirty"}, // a release from changed files is none
	} {
		is.Equal(t, Version(c.release, c.commit), c.want, "version of %q built from %q is", c.release, c.commit)
	}
	full := "a6d27581cf0f8d3c7f1c6bdb19e05d4cbd6b1234"
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: full}, {Key: "vcs.modified", Value: "true"}}
	is.Equal(t, buildCommit(settings), "a6d2758-dirty", "built from")
}

// The file VERSION is the only place of the version: one semantic version in one line. make sets main.commit.
func TestVersionFile(t *testing.T) {
	text := func(name string) string {
		b := must.Get(os.ReadFile("../" + name))(t)
		return string(b)
	}
	if v := text("VERSION"); !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?\n$`).MatchString(v) {
		t.Errorf("VERSION holds %q, want one semantic version", v)
	}
	if !strings.Contains(text("Makefile"), "-X main.commit=$(COMMIT)") ||
		!strings.Contains(text("main.go"), "\nvar commit string\n") {
		t.Error("make does not set main.commit")
	}
	for file, want := range map[string]string{
		"deploy/image/Dockerfile": `COMMIT="${COMMIT}"`,
		"docker-compose.yml":      `args: {COMMIT: "${COMMIT:-}"}`,
		"tools/release/build.sh":  "-X main.commit=${COMMIT:-}",
		"test/docker/images.sh":   `--build-arg COMMIT="$commit"`,
		"docs/operate/install.md": "--build-arg COMMIT=$(git describe --always --dirty --exclude '*')",
	} {
		if !strings.Contains(text(file), want) {
			t.Errorf("%s does not pass the commit on: want %s", file, want)
		}
	}
}

// A clone that belongs to another user (root builds in a directory that is mounted into a container) is built with its
// commit too: without safe.directory Git refuses to read it, and the version would lack the commit.
func TestMakeFindsTheCommit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		kit.SkipMissing(t, "Git is not installed")
	}
	makefile := must.Get(os.ReadFile("../Makefile"))(t)
	m := regexp.MustCompile(`(?m)^COMMIT := \$\(shell (.*)\)$`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile sets no COMMIT: this test looks for the wrong text")
	}
	dir := t.TempDir()
	env := append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TEST_ASSUME_DIFFERENT_OWNER=1",
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	run := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		must.Do(t, err, "%s: %s", script, out)
		return strings.TrimSpace(string(out))
	}
	run("export GIT_TEST_ASSUME_DIFFERENT_OWNER=0; git init -q . && git -c user.name=a -c user.email=a@example.com " +
		"commit -q --allow-empty -m first")
	if got := run(string(m[1]) + "; true"); !regexp.MustCompile(`^[0-9a-f]{7,}$`).MatchString(got) {
		t.Errorf("make takes %q for the commit of a clone of another user", got)
	}
}

// TestReleasedSettingsExist: every setting of a release is one of this version, by its variable and its flag.
func TestReleasedSettingsExist(t *testing.T) {
	var lines []string
	eachSetting(&nodeconfig.Config{}, func(f setting) { lines = append(lines, f.env+" --"+f.flag) })
	slices.Sort(lines)
	now := []byte(strings.Join(lines, "\n") + "\n")
	kit.Freeze(t, "settings.txt", func() []byte { return now })
	for version, text := range kit.Released(t, "settings.txt") {
		for _, line := range kit.MissingLines(text, now) {
			t.Errorf("%s has the setting %s", version, line)
		}
	}
}
