package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

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
