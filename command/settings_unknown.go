package command

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/nearest"
)

// didYouMean suggests the name that is most like a misspelt one; empty if none is.
func didYouMean(name string, known []string) string {
	if near := nearest.Name(name, known, min(maxTypos, len(name)/2)); near != "" {
		return fmt.Sprintf(", did you mean %s", near)
	}
	return ""
}

// maxTypos is how many characters of a misspelt name may differ.
const maxTypos = 2

// warnMisspelt logs variables whose names are close to a setting's. Other unknown RELAY_ variables may belong to other
// programs.
func warnMisspelt(log *slog.Logger, environ []string) {
	known := []string{engineKeyEnv, apiKeyEnv, apiKeyFileEnv}
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
		if near := nearest.Name(name, known, maxTypos); near != "" {
			log.Warn("no setting has this name; the variable is ignored", "variable", name, "did_you_mean", near)
		}
	}
}
