//go:build !sim

package sim

// seeded says that the runtime follows a seed.
const seeded = false

// seedChoices does nothing: only a build for the simulation seeds the choices of the runtime.
func seedChoices(uint64) {}
