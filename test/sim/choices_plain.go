//go:build !sim

package sim

// seedChoices does nothing: only a build for the simulation seeds the choices of the runtime.
func seedChoices(uint64) {}
