//go:build race

package config

// raced reports whether the race detector is on, which costs memory and time.
const raced = true
