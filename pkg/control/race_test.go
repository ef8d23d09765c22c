//go:build race

package control

// raced is whether the race detector, which costs memory and time, is on.
const raced = true
