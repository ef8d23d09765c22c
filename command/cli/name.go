package cli

import (
	"fmt"
	"strings"
)

// Named is something that a command takes by its id or its name.
type Named struct{ ID, Name string }

// shownIDs bounds the ids that an error lists.
const shownIDs = 10

// ByName returns the id of the only endpoint, or what thing says, with this name.
func ByName(thing, name string, all []Named) (string, error) {
	var ids, names []string
	for _, n := range all {
		if names = append(names, n.Name); n.Name == name {
			ids = append(ids, n.ID)
		}
	}
	more := ""
	switch n := len(ids); {
	case n == 1:
		return ids[0], nil
	case n == 0:
		return "", fmt.Errorf("no %s has the id or the name %q%s", thing, name, DidYouMean(name, names))
	case n > shownIDs:
		ids, more = ids[:shownIDs], fmt.Sprintf(" and %d more", n-shownIDs)
	}
	return "", fmt.Errorf("more than one %s has the name %q; give the id: %s%s", thing, name, strings.Join(ids, ", "),
		more)
}
