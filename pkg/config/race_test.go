//go:build race

package config

// raced is whether the race detector, which costs memory and time, is on.
const raced = true
