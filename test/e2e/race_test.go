//go:build race

package e2e

// raced reports whether the race detector is on, which costs memory and time.
const raced = true
