// Package crash kills the process at named points, in builds with the tag faults: RELAY_FAULT_CRASH=<point>[:n] kills
// it when the point is passed for the nth time, the first unless given. So tests show what a killed process leaves. In
// a release every point is an empty call.
package crash
