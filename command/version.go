package command

import (
	"runtime/debug"
	"strings"
)

// dirty ends the commit of a build from changed files.
const dirty = "-dirty"

// Version returns the version of the program: the number of a release, or for a pre-release and a changed release the
// number with the commit as build metadata (Semantic Versioning 2.0.0): 0.1.0-dev+a6d2758. If commit is empty, it uses
// the commit that the compiler recorded; tests and builds outside a repository have none.
func Version(release, commit string) string {
	release = strings.TrimSpace(release)
	if commit == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			commit = buildCommit(info.Settings)
		}
	}
	if commit == "" || !strings.Contains(release, "-") && !strings.HasSuffix(commit, dirty) {
		return release
	}
	return release + "+" + commit
}

// buildCommit returns the commit of a build, formatted as git describe --always --dirty does; "" if none was recorded.
func buildCommit(settings []debug.BuildSetting) string {
	var revision, changed string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(7, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = dirty
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}
