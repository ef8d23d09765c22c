// Package noquery keeps Bubble Tea from asking the terminal for its background colour when the program starts: a
// terminal that does not answer would delay each command by five seconds, and show the question.
//
// Bubble Tea asks when it is initialized, unless the environment says that this is a CI. This package sets that. It
// imports nothing but os and its path sorts before os/exec, which Bubble Tea imports, so it is initialised earlier (Go
// specification, Program initialization). Restore undoes it.
package noquery

import "os"

const variable = "CI"

// wasSet is set when the package is initialized.
var wasSet = set()

func set() (was bool) {
	if was = os.Getenv(variable) != ""; !was {
		_ = os.Setenv(variable, "true")
	}
	return was
}

// Restore restores the environment, and reports whether it was changed. A package that imports Bubble Tea calls it when
// it is initialized.
func Restore() (changed bool) {
	if !wasSet {
		_ = os.Unsetenv(variable)
	}
	return !wasSet
}
