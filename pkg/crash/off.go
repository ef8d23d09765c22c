//go:build !faults

package crash

import "time"

// Built says whether this binary has crash points; a release has none.
const Built = false

// At does nothing in a release.
func At(string) {}

// Clock returns the clock that the node passes to its components.
func Clock() func() time.Time { return time.Now }
