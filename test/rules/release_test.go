package rules

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// releasedDir has a directory for each release: what later versions must read.
const releasedDir = "test/released"

var (
	releaseHead    = regexp.MustCompile(`(?m)^## (.*)$`)
	datedRelease   = regexp.MustCompile(`^(\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})$`)
	headingOfLists = regexp.MustCompile(`(?m)^#+ .*$`)
)

// compareVersions orders numbers such as 0.10.2.
func compareVersions(a, b string) int {
	numbers := func(v string) (all []int) {
		for part := range strings.SplitSeq(v, ".") {
			n, _ := strconv.Atoi(part)
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b))
}

// A pre-release collects its changes below Unreleased. A release has its own section on top, with a date. The newest
// section can be read in a minute; docs/releases has the whole list.
func TestChangelogFitsTheVersion(t *testing.T) {
	changelog, version := text(t, "CHANGELOG.md"), strings.TrimSpace(text(t, "VERSION"))
	above, _, preRelease := strings.Cut(version, "-")
	date := "9"
	for i, part := range strings.Split("\n"+changelog, "\n## ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		if n := strings.Count(body, "\n"); i == 0 && n > 60 {
			t.Errorf("section %s has %d lines, at most 60: move details to docs/releases", head, n)
		}
		if i == 0 && preRelease {
			is.Equal(t, head, "Unreleased", "VERSION is %s, and the first section is", version)
			continue
		}
		m := datedRelease.FindStringSubmatch(head)
		switch {
		case m == nil:
			t.Fatalf("section %s is not a number and a date", head)
		case i == 0 && m[1] != version:
			t.Errorf("VERSION is %s, and the first section is %s", version, m[1])
		case i > 0 && compareVersions(m[1], above) >= 0 || m[2] > date:
			t.Errorf("%s stands below %s, or is younger", m[1], above)
		case strings.TrimSpace(headingOfLists.ReplaceAllString(body, "")) == "":
			t.Errorf("section %s is empty", head)
		}
		above, date = m[1], m[2]
	}
}

// TestFrozenFilesDoNotChange: nothing in the directory of a release changes, is added or removed, and every release of
// CHANGELOG.md has one. Of each release all tests compare the same files.
func TestFrozenFilesDoNotChange(t *testing.T) {
	for _, m := range releaseHead.FindAllStringSubmatch(text(t, "CHANGELOG.md"), -1) {
		if release := datedRelease.FindStringSubmatch(m[1]); release != nil {
			if _, err := os.Stat(filepath.Join(releasedDir, release[1], sumsFile)); err != nil {
				t.Errorf("%s is released, and nothing of it is frozen: run tools/release/freeze.sh", release[1])
			}
		}
	}
	entries := must.Get(os.ReadDir(releasedDir))(t)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		want := text(t, path.Join(releasedDir, e.Name(), sumsFile))
		if got := sumsOf(t, filepath.Join(releasedDir, e.Name())); got != want {
			t.Errorf("test/released/%s differs from its checksums: restore it\n%swant\n%s", e.Name(), got, want)
		}
		for _, name := range frozenFiles {
			if !strings.Contains(want, "  "+name+"\n") {
				t.Errorf("test/released/%s has no %s", e.Name(), name)
			}
		}
	}
}

const sumsFile = "SHA256SUMS"

// frozenFiles are in the directory of every release.
var frozenFiles = []string{
	"configuration.json", "control.json", "headers.txt", "members.txt", "openapi.yaml", "records.json", "schema.sql",
	"settings.txt", "steps.txt",
}

// sumsOf returns what sha256sum prints of the files of a directory.
func sumsOf(t *testing.T, dir string) string {
	t.Helper()
	files := must.Get(os.ReadDir(dir))(t)
	slices.SortFunc(files, func(a, b os.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	var out bytes.Buffer
	for _, f := range files {
		if f.Name() == sumsFile {
			continue
		}
		content := must.Get(os.ReadFile(filepath.Join(dir, f.Name())))(t)
		sum := sha256.Sum256(content)
		fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name())
	}
	return out.String()
}
