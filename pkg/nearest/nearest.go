// Package nearest finds what somebody may have meant who misspelt a name.
package nearest

import "github.com/agnivade/levenshtein"

// maxName bounds the names that are compared, in bytes: comparing takes the product of both lengths.
const maxName = 64

// Name is the known name that differs least from name, in at most so many characters to insert, delete or replace; ""
// if there is none. Of several it is the first in the alphabet.
func Name(name string, known []string, most int) (best string) {
	if len(name) > maxName {
		return ""
	}
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < most || d == most && (best == "" || k < best) {
			best, most = k, d
		}
	}
	return best
}
