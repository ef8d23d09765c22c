package command

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/nearest"
)

// maxMisspelt is how many characters of a name may be wrong.
const maxMisspelt = 2

// warnUnknown names variables that no setting has and that are misspelt, by the looks of them. Others that begin like a
// setting may be for other programs.
func warnUnknown(log *slog.Logger, environ []string) {
	known := []string{engineKeyEnv}
	eachSetting(&node.Config{}, func(f setting) {
		known = append(known, f.env)
		if f.secret {
			known = append(known, f.env+"_FILE")
		}
	})
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "RELAY_") || slices.Contains(known, name) {
			continue
		}
		if near := nearest.Name(name, known, maxMisspelt); near != "" {
			log.Warn("no setting has the name of this variable, which is ignored", "variable", name, "did_you_mean", near)
		}
	}
}
