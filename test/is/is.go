// Package is compares what a test got with what it wants. A comparison that fails marks the test as failed, prints both
// values and goes on; package must has those that end the test. What is compared may be named behind the values, by one
// value or by a format with its arguments: is.Equal(t, len(hits), 2, "hits of %s", name).
package is

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Equal wants two values to be equal.
func Equal[T comparable](tb testing.TB, got, want T, about ...any) bool {
	tb.Helper()
	return held(tb, got == want, about, "%s, want %s", show(got), show(want))
}

// List wants two lists of equal elements in the same order.
func List[T comparable](tb testing.TB, got, want []T, about ...any) bool {
	tb.Helper()
	return held(tb, slices.Equal(got, want), about, "%+v\nwant %+v", got, want)
}

// Same wants two values to be equal in depth, as cmp.Diff compares them.
func Same(tb testing.TB, got, want any, options ...cmp.Option) bool {
	tb.Helper()
	diff := cmp.Diff(want, got, options...)
	return held(tb, diff == "", nil, "(-want +got):\n%s", diff)
}

// Has wants a text that contains another.
func Has(tb testing.TB, got, part string, about ...any) bool {
	tb.Helper()
	return held(tb, strings.Contains(got, part), about, "%q is missing in %s", part, got)
}

// Lacks wants a text that does not contain another.
func Lacks(tb testing.TB, got, part string, about ...any) bool {
	tb.Helper()
	return held(tb, !strings.Contains(got, part), about, "%q is in %s", part, got)
}

// OK wants no error.
func OK(tb testing.TB, err error, about ...any) bool {
	tb.Helper()
	return held(tb, err == nil, about, "%v", err)
}

// ErrorIs wants an error that is another, or wraps it.
func ErrorIs(tb testing.TB, err, want error, about ...any) bool {
	tb.Helper()
	return held(tb, errors.Is(err, want), about, "the error is %v, want %v", err, want)
}

// Failed wants an error whose text contains another.
func Failed(tb testing.TB, err error, part string, about ...any) bool {
	tb.Helper()
	return held(tb, err != nil && strings.Contains(err.Error(), part), about, "the error is %v, want %q in it", err, part)
}

// held reports whether a comparison held, and marks the test as failed if not.
func held(tb testing.TB, ok bool, about []any, format string, values ...any) bool {
	if ok {
		return true
	}
	tb.Helper()
	text := fmt.Sprintf(format, values...)
	switch len(about) {
	case 0:
	case 1:
		text = fmt.Sprint(about[0]) + ": " + text
	default:
		text = fmt.Sprintf(fmt.Sprint(about[0]), about[1:]...) + ": " + text
	}
	tb.Error(text)
	return false
}

// show quotes a short text, so that empty ones and blanks at the ends are seen.
func show(v any) string {
	if s, ok := v.(string); ok && !strings.Contains(s, "\n") {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%+v", v)
}
