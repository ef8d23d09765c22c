//go:build sim

package sim

import _ "unsafe" // for linkname

// seeded says that the runtime follows a seed.
const seeded = true

// seedChoices makes the runtime's choices follow from a seed: which case of a select is taken, in which order timers of
// one moment fire and maps are read, and which goroutine runs next. overlay.go has how.
//
//go:linkname seedChoices runtime.simSeed
func seedChoices(seed uint64)
