package is

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// failed is a test that keeps what is said of it.
type failed struct {
	testing.TB
	text string
}

func (f *failed) Helper()           {}
func (f *failed) Error(args ...any) { f.text = fmt.Sprint(args...) }

// Every comparison says what differs and of what, and nothing if it holds.
func TestComparisons(t *testing.T) {
	wrapped := fmt.Errorf("read: %w", io.EOF)
	for _, x := range []struct {
		compare func(tb testing.TB) bool
		want    string
	}{
		{func(tb testing.TB) bool { return Equal(tb, 1, 1) }, ""},
		{func(tb testing.TB) bool { return Equal(tb, 1, 2) }, "1, want 2"},
		{func(tb testing.TB) bool { return Equal(tb, "", "a b", "part %d", 3) }, `part 3: "", want "a b"`},
		{func(tb testing.TB) bool { return Equal(tb, 1, 2, "100%") }, "100%: 1, want 2"},
		{func(tb testing.TB) bool { return List(tb, nil, []int{}) }, ""},
		{func(tb testing.TB) bool { return List(tb, []int{1, 2}, []int{2, 1}, "ids") }, "ids: [1 2]\nwant [2 1]"},
		{func(tb testing.TB) bool { return Same(tb, map[string]int{"a": 1}, map[string]int{"a": 1}) }, ""},
		{func(tb testing.TB) bool { return Has(tb, "abc", "b") }, ""},
		{func(tb testing.TB) bool { return Has(tb, "abc", "d") }, `"d" is missing in abc`},
		{func(tb testing.TB) bool { return Lacks(tb, "abc", "d") }, ""},
		{func(tb testing.TB) bool { return Lacks(tb, "abc", "b") }, `"b" is in abc`},
		{func(tb testing.TB) bool { return OK(tb, nil) }, ""},
		{func(tb testing.TB) bool { return OK(tb, io.EOF, "page") }, "page: EOF"},
		{func(tb testing.TB) bool { return ErrorIs(tb, wrapped, io.EOF) }, ""},
		{func(tb testing.TB) bool { return ErrorIs(tb, nil, io.EOF) }, "the error is <nil>, want EOF"},
		{func(tb testing.TB) bool { return Failed(tb, errors.New("no room"), "room") }, ""},
		{func(tb testing.TB) bool { return Failed(tb, nil, "") }, `the error is <nil>, want "" in it`},
	} {
		f := &failed{}
		if ok := x.compare(f); ok != (x.want == "") || x.want != "" && f.text != x.want {
			t.Errorf("%t: %q, want %q", ok, f.text, x.want)
		}
	}
	f := &failed{}
	if Same(f, []int{1}, []int{2}) || !strings.HasPrefix(f.text, "(-want +got):\n") {
		t.Errorf("unequal lists: %q", f.text)
	}
}
