package command

import (
	"log/slog"
	"strings"

	"github.com/eventrelay/relay/node"
)

// warnUnknown names variables that no setting has and that are misspelt, by the looks of them. Others that begin like a
// setting may be for other programs.
func warnUnknown(log *slog.Logger, environ []string) {
	known := map[string]bool{engineKeyEnv: true}
	eachSetting(&node.Config{}, func(f setting) {
		known[f.env] = true
		if f.secret {
			known[f.env+"_FILE"] = true
		}
	})
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "RELAY_") || known[name] {
			continue
		}
		if near := nearestName(name, known); near != "" {
			log.Warn("no setting has the name of this variable, which is ignored", "variable", name, "did_you_mean", near)
		}
	}
}

// maxMisspelt is how many characters of a name may be wrong, maxName how long it may be in bytes.
const (
	maxMisspelt = 2
	maxName     = 64
)

// nearestName is the known name that differs least, "" if none is near. Of several it is the first in the alphabet.
func nearestName(name string, known map[string]bool) (best string) {
	if len(name) > maxName {
		return ""
	}
	least := maxMisspelt + 1
	for k := range known {
		if d := editDistance(name, k); d < least || d == least && d <= maxMisspelt && k < best {
			best, least = k, d
		}
	}
	return best
}

// editDistance is the number of characters to insert, delete or replace (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
