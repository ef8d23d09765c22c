// Package must ends a test at once: at an error that only a broken set-up makes, or where a comparison of package is
// fails and the rest of the test would say nothing.
package must

import (
	"testing"

	"github.com/eventrelay/relay/test/is"
)

// Get returns the value of a call that must succeed: must.Get(os.ReadFile(name))(t).
func Get[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		Do(tb, err)
		return v
	}
}

// Do ends the test if there is an error.
func Do(tb testing.TB, err error, about ...any) {
	tb.Helper()
	end(tb, is.OK(tb, err, about...))
}

// Equal ends the test if two values are not equal.
func Equal[T comparable](tb testing.TB, got, want T, about ...any) {
	tb.Helper()
	end(tb, is.Equal(tb, got, want, about...))
}

// List ends the test if two lists are not equal.
func List[T comparable](tb testing.TB, got, want []T, about ...any) {
	tb.Helper()
	end(tb, is.List(tb, got, want, about...))
}

// ErrorIs ends the test if the error is another.
func ErrorIs(tb testing.TB, err, want error, about ...any) {
	tb.Helper()
	end(tb, is.ErrorIs(tb, err, want, about...))
}

func end(tb testing.TB, ok bool) {
	tb.Helper()
	if !ok {
		tb.FailNow()
	}
}
