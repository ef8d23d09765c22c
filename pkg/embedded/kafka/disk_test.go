package kafka

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

// createSegment creates an empty segment and sets the time at which its directory changed.
func createSegment(t testing.TB, dir string, base int64, changed time.Time) {
	t.Helper()
	must.Do(t, os.WriteFile(segmentPath(dir, base), nil, 0o600))
	must.Do(t, os.Chtimes(dir, changed, changed))
}

func TestSegmentsAreRemembered(t *testing.T) {
	dir := t.TempDir()
	var l listing
	expect := func(what string, want ...int64) {
		t.Helper()
		if got, err := l.segments(dir); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: segments %v, %v, want %v", what, got, err, want)
		}
	}
	before := time.Now().Add(-time.Hour)
	createSegment(t, dir, 0, before)
	expect("first", 0)
	// A change that leaves the directory's time alone cannot happen. It shows that the directory is not listed again.
	createSegment(t, dir, 10, before)
	expect("remembered", 0)
	// The directory has just changed, by a clock that is a minute ahead, in case that this machine pauses: another change
	// may have the same time.
	now := time.Now().Add(time.Minute)
	createSegment(t, dir, 20, now)
	expect("after a change", 0, 10, 20)
	createSegment(t, dir, 30, now)
	expect("changed twice at the same time", 0, 10, 20, 30)

	createSegment(t, dir, 40, before)
	expect("not remembered", 0, 10, 20, 30, 40)
	createSegment(t, dir, 50, before)
	l.wall += int64(time.Minute) // the clock was set back since
	expect("after the clock was set", 0, 10, 20, 30, 40, 50)

	must.Do(t, os.RemoveAll(dir))
	if _, err := l.segments(dir); !os.IsNotExist(err) {
		t.Errorf("removed directory: %v", err)
	}
}

func BenchmarkSegments(b *testing.B) {
	dir := b.TempDir()
	must.Do(b, os.WriteFile(filepath.Join(dir, "0.idx"), nil, 0o600))
	createSegment(b, dir, 0, time.Now().Add(-time.Hour))
	b.Run("listed", func(b *testing.B) {
		for b.Loop() {
			must.Get(segments(dir))(b)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		var l listing
		for b.Loop() {
			must.Get(l.segments(dir))(b)
		}
	})
}
