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
	"time"

	"github.com/eventrelay/relay/test/must"
)

// releasedDir has a directory for each release: what later versions must read.
const releasedDir = "released"

var (
	releaseHead    = regexp.MustCompile(`(?m)^## (.*)$`)
	datedRelease   = regexp.MustCompile(`^(\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})$`)
	headingOfLists = regexp.MustCompile(`(?m)^#+ .*$`)
)

// changelogProblems returns what is wrong with a changelog in the tree of a version. A pre-release collects its changes
// below Unreleased. A release has its own section on top, with a date.
func changelogProblems(version, changelog string) (problems []string) {
	heads := releaseHead.FindAllStringSubmatchIndex(changelog, -1)
	if len(heads) == 0 {
		return []string{"CHANGELOG.md has no section"}
	}
	number, _, preRelease := strings.Cut(version, "-")
	lastNumber, lastDate := "", ""
	for i, at := range heads {
		head, end := changelog[at[2]:at[3]], len(changelog)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		if i == 0 && preRelease {
			if head != "Unreleased" {
				problems = append(problems, "VERSION is "+version+", and the first section is not Unreleased")
			}
			lastNumber = number
			continue
		}
		m := datedRelease.FindStringSubmatch(head)
		if m == nil {
			problems = append(problems, "section "+head+" is not a number and a date")
			continue
		}
		if _, err := time.Parse(time.DateOnly, m[2]); err != nil {
			problems = append(problems, "section "+head+": "+err.Error())
		}
		if i == 0 && m[1] != version {
			problems = append(problems, "VERSION is "+version+", and the first section is "+m[1])
		}
		if lastNumber != "" && compareVersions(m[1], lastNumber) >= 0 {
			problems = append(problems, m[1]+" stands below "+lastNumber)
		}
		if lastDate != "" && m[2] > lastDate {
			problems = append(problems, m[1]+" is younger than the release above it")
		}
		lastNumber, lastDate = m[1], m[2]
		if strings.TrimSpace(headingOfLists.ReplaceAllString(changelog[at[1]:end], "")) == "" {
			problems = append(problems, "section "+head+" is empty")
		}
	}
	return problems
}

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

func TestChangelogFitsTheVersion(t *testing.T) {
	for _, problem := range changelogProblems(strings.TrimSpace(text(t, "VERSION")), text(t, "CHANGELOG.md")) {
		t.Error(problem)
	}
	const before = "## 0.1.0 - 2026-11-23\n\n- First.\n"
	for _, c := range []struct{ version, changelog, want string }{
		{"0.2.0-dev", "# Changelog\n\n## Unreleased\n\n" + before, ""},
		{"0.10.0", "## 0.10.0 - 2026-12-01\n\n- More.\n\n## 0.9.0 - 2026-11-30\n\n- Less.\n\n" + before, ""},
		{"0.2.0-dev", before, "the first section is not Unreleased"},
		{"0.1.0-dev", "## Unreleased\n\n" + before, "0.1.0 stands below 0.1.0"},
		{"0.2.0", "## Unreleased\n\n- A.\n\n" + before, "section Unreleased is not a number and a date"},
		{"0.2.0", before, "the first section is 0.1.0"},
		{"0.2.0", "## 0.2.0\n\n- A.\n\n" + before, "section 0.2.0 is not a number and a date"},
		{"0.2.0", "## 0.2.0 - 2026-13-01\n\n- A.\n\n" + before, "month out of range"},
		{"0.2.0", "## 0.2.0 - 2026-11-01\n\n- A.\n\n" + before, "0.1.0 is younger than the release above it"},
		{"0.2.0", "## 0.2.0 - 2026-12-01\n\n### Added\n\n" + before, "section 0.2.0 - 2026-12-01 is empty"},
		{"0.2.0", "# Changelog\n", "has no section"},
	} {
		got := strings.Join(changelogProblems(c.version, c.changelog), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s with\n%s\nhas %q, want %q", c.version, c.changelog, got, c.want)
		}
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
		want := text(t, path.Join(releasedDir, e.Name(), sumsFile))
		if got := sumsOf(t, filepath.Join(releasedDir, e.Name())); got != want {
			t.Errorf("released/%s differs from its checksums: restore it\n%swant\n%s", e.Name(), got, want)
		}
		for _, name := range frozenFiles {
			if !strings.Contains(want, "  "+name+"\n") {
				t.Errorf("released/%s has no %s", e.Name(), name)
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
