// Package crash has what only builds with the tag faults have. RELAY_FAULT_CRASH=<point>[:n] kills the process when the
// named point is passed for the nth time, the first unless given: so tests show what a killed process leaves.
// RELAY_FAULT_CLOCK moves the clock. In a release every point is an empty call, and the clock is the system's.
//
// All files with that tag are here: the linters read files without it, and the step faults of test/run.sh vets this
// package with it.
package crash
