package command

import (
	"runtime/debug"
	"strings"
)

// Version is what the program calls itself: a release by its number alone, anything before it (0.1.0-dev) with the
// commit it was built from, as Semantic Versioning writes it: 0.1.0-dev+a6d2758. Without a commit it asks what the
// compiler noted, which is nothing for tests and for sources outside a repository.
func Version(release, commit string) string {
	release = strings.TrimSpace(release)
	if commit == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			commit = builtFrom(info.Settings)
		}
	}
	if commit == "" || !strings.Contains(release, "-") {
		return release
	}
	return release + "+" + commit
}

// builtFrom writes the commit of a build as git describe --always --dirty does.
func builtFrom(settings []debug.BuildSetting) string {
	var revision, dirty string
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(7, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
