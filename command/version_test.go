package command

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for _, c := range []struct{ release, commit, want string }{
		{"0.1.0-dev\n", "a6d2758", "0.1.0-dev+a6d2758"},
		{"0.1.0-dev\n", "a6d2758-dirty", "0.1.0-dev+a6d2758-dirty"},
		{"0.1.0-dev\n", "", "0.1.0-dev"}, // the test binary has no commit in it
		{"1.2.0\n", "a6d2758", "1.2.0"},
	} {
		if got := Version(c.release, c.commit); got != c.want {
			t.Errorf("version of %q built from %q is %q, want %q", c.release, c.commit, got, c.want)
		}
	}
	full := "a6d27581cf0f8d3c7f1c6bdb19e05d4cbd6b1234"
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: full}, {Key: "vcs.modified", Value: "true"}}
	if got := buildCommit(settings); got != "a6d2758-dirty" {
		t.Errorf("built from %q", got)
	}
}

// The file VERSION is the only place of the version: one semantic version in one line. make sets main.commit.
func TestVersionFile(t *testing.T) {
	text := func(name string) string {
		b, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if v := text("VERSION"); !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?\n$`).MatchString(v) {
		t.Errorf("VERSION holds %q, want one semantic version", v)
	}
	if !strings.Contains(text("Makefile"), "-X main.commit=$(COMMIT)") ||
		!strings.Contains(text("main.go"), "\nvar commit string\n") {
		t.Error("make does not set main.commit")
	}
}
