//go:build race

package sign

// raceEnabled is set where sync.Pool drops values on purpose, so that counting allocations means
// nothing.
const raceEnabled = true
