package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/test/kit"
)

// TestReleasedSettingsExist: every setting of a release is one of this version, by its variable and its flag.
func TestReleasedSettingsExist(t *testing.T) {
	var lines []string
	eachSetting(&node.Config{}, func(f setting) { lines = append(lines, f.env+" --"+f.flag) })
	slices.Sort(lines)
	now := []byte(strings.Join(lines, "\n") + "\n")
	kit.Freeze(t, "settings.txt", func() []byte { return now })
	for version, text := range kit.Released(t, "settings.txt") {
		for _, line := range kit.MissingLines(text, now) {
			t.Errorf("%s has the setting %s", version, line)
		}
	}
}
