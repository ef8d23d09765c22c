// Package must ends a test at an error that only a broken set-up makes.
package must

import "testing"

// Get returns the value of a call that must succeed: must.Get(os.ReadFile(name))(t).
func Get[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Do(tb, err)
		return v
	}
}

// Do ends the test if there is an error.
func Do(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
