package segment

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A copy has the commits of its beginning and the records up to its end, though the log was told to trim them and grows
// while it is copied.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), SegmentBytes: 500}
	l, key := start(t, cfg, osFiles()), Key{"events", 0}
	var want []string
	appendOne := func() {
		want = append(want, fmt.Sprintf("record %d", len(want)))
		must.Get(l.append("events", 0, want[len(want)-1]))(t)
	}
	commit := func() {
		must.Do(t, l.Commit(t.Context(), "store", map[Key]Commit{key: {Offset: int64(len(want))}}))
	}
	for range 30 {
		appendOne()
	}
	commit()
	s := l.Snapshot()
	for range 30 {
		appendOne()
	}
	commit()
	must.Do(t, l.Trim(map[Key]int64{key: 60}))
	to := filepath.Join(t.TempDir(), "copy")
	must.Do(t, os.Mkdir(to, 0o700))
	must.Do(t, s.Copy(func(name string, write func(io.Writer) error) error {
		must.Get(l.append("events", 0, "after the copy"))(t)
		f := must.Get(os.Create(filepath.Join(to, name)))(t)
		defer f.Close()
		return write(f)
	}))
	s.Close()
	copied := start(t, Config{Dir: to, SegmentBytes: 500}, osFiles())
	got := read(t, copied.Partition("events", 0), 1<<20)
	if at := copied.Commits("store")[key].Offset; at != 30 || len(got) < 61 || !slices.Equal(got[:60], want) ||
		len(got) > 62 { // the one appended while the state log is copied may be in
		t.Errorf("commit %d, %d records: %q", at, len(got), got)
	}
	must.Do(t, l.Trim(map[Key]int64{key: 60}))
	is.Equal(t, l.Partition("events", 0).Start(), 60, "after the copy the log is trimmed to")
}
