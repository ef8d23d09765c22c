// Package nearest suggests the known name that is most like a misspelt one.
package nearest

import "github.com/agnivade/levenshtein"

// maxName bounds the names that are compared, in bytes: a comparison takes time proportional to the product of both
// lengths.
const maxName = 64

// Name returns the known name with the smallest Levenshtein distance from name, if that is at most maxDistance; "" if
// there is none, or if name is longer than 64 bytes. Of equally near names it returns the first in the alphabet.
func Name(name string, known []string, maxDistance int) (best string) {
	if len(name) > maxName {
		return ""
	}
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < maxDistance || d == maxDistance && (best == "" || k < best) {
			best, maxDistance = k, d
		}
	}
	return best
}
