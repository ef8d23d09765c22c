//go:build race

package sign

// raceEnabled is true if the test runs with the race detector, under which sync.Pool drops values at random: counts of
// allocations mean nothing then.
const raceEnabled = true
