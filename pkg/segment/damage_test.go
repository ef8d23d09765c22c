package segment

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// damages are what may happen to the end of a file. The last record has size bytes.
var damages = map[string]func(b []byte, size int) []byte{
	"without its last byte":        func(b []byte, _ int) []byte { return b[:len(b)-1] },
	"without its last record":      func(b []byte, size int) []byte { return b[:len(b)-size] },
	"without its last 4 KiB":       func(b []byte, _ int) []byte { return b[:max(0, len(b)-4096)] },
	"without its second half":      func(b []byte, _ int) []byte { return b[:len(b)/2] },
	"empty":                        func([]byte, int) []byte { return nil },
	"with a flip in the last byte": func(b []byte, _ int) []byte { return flipped(b, len(b)-1) },
	"with a flip in the last head": func(b []byte, size int) []byte { return flipped(b, len(b)-size+3) },
	"with a flip 4 KiB before the end": func(b []byte, _ int) []byte {
		return flipped(b, max(0, len(b)-4096))
	},
	"with a flip in the middle": func(b []byte, _ int) []byte { return flipped(b, len(b)/2) },
	"with a flip at the start":  func(b []byte, _ int) []byte { return flipped(b, 0) },
}

func flipped(b []byte, at int) []byte {
	b[at] ^= 4
	return b
}

// damagedLogs calls each with all ways in which one file of a log can be damaged. The log was killed after its last
// commit, or stopped.
func damagedLogs(t *testing.T, each func(name, dir string, ends map[Key]int64)) {
	t.Helper()
	for _, stopped := range []bool{false, true} {
		dir, ends := t.TempDir(), make(map[Key]int64)
		l := start(t, Config{Dir: dir, SegmentBytes: 3000}, osFiles())
		for i := range 90 {
			key := Key{[]string{"events", "other"}[i%2], int32(i / 2 % 2)}
			must.Get(l.append(key.Topic, key.Index, fmt.Sprint("record ", i, strings.Repeat(".", 100+i))))(t)
			if i%10 == 9 { // one record of a partition at most is above the committed offset and not completed
				must.Do(t, l.Commit(t.Context(), "g", map[Key]Commit{key: {Offset: l.Partition(key.Topic, key.Index).End() - 1}}))
			}
		}
		if !stopped {
			must.Do(t, l.Commit(t.Context(), "h", map[Key]Commit{{"events", 0}: {Offset: 1}}))
			dir = copyDir(t, dir)
		}
		for _, p := range l.all() {
			ends[p.key] = p.End()
		}
		must.Do(t, l.stop())
		for _, entry := range must.Get(os.ReadDir(dir))(t) {
			whole := must.Get(os.ReadFile(filepath.Join(dir, entry.Name())))(t)
			if len(whole) == 0 {
				continue // the lock
			}
			last := 0
			for at := 0; at < len(whole); at += last {
				last = frameSize(whole[at:])
			}
			for what, damage := range damages {
				copied := copyDir(t, dir)
				must.Do(t, os.WriteFile(filepath.Join(copied, entry.Name()), damage(append([]byte(nil), whole...), last), 0o600))
				each(fmt.Sprintf("stopped %v, %s %s", stopped, entry.Name(), what), copied, ends)
				must.Do(t, os.RemoveAll(copied))
			}
		}
	}
}

// Whatever happens to the end of a file, the log is refused, or it has all records, and no offset is used again.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	tried, refused := 0, 0
	damagedLogs(t, func(name, dir string, ends map[Key]int64) {
		tried++
		_, checked := Check(Config{Dir: dir, Fsync: true})
		before := must.Get(os.ReadDir(dir))(t)
		l, err := Open(Config{Dir: dir, Fsync: true, Durable: isDurable})
		if (err == nil) != (checked == nil) {
			t.Errorf("%s: opened with %v, checked with %v", name, err, checked)
		}
		if err != nil {
			refused++
			is.ErrorIs(t, err, ErrDamaged, "%s", name)
			is.Equal(t, len(must.Get(os.ReadDir(dir))(t)), len(before), "%s: files", name)
			return
		}
		defer l.Close()
		if !strings.Contains(name, StateFile) {
			t.Errorf("%s: the log is opened", name)
		}
		for key, end := range ends {
			if got := l.Partition(key.Topic, key.Index).End(); got != end {
				t.Errorf("%s: %v ends at %d instead of %d", name, key, got, end)
			}
		}
	})
	if tried < 150 || refused < tried*3/4 {
		t.Errorf("%d of %d logs were refused", refused, tried)
	}
}

// A log that skips what is missing goes on behind it, and keeps what is left: readers step over the gap, now and after
// further restarts.
func TestSkipMissing(t *testing.T) {
	t.Parallel()
	skipped := 0
	damagedLogs(t, func(name, dir string, ends map[Key]int64) {
		cfg := Config{Dir: dir, Fsync: true, Durable: isDurable, SegmentBytes: 3000}
		if _, err := Check(cfg); !errors.Is(err, ErrMissing) {
			return
		}
		skipped++
		cfg.SkipMissing = true
		l := start(t, cfg, osFiles())
		is.Equal(t, len(l.Missing()), 1, "%s: ranges that are missing", name)
		missing := l.Missing()[0]
		if p := l.Partition(missing.Topic, missing.Index); p.End() > p.Start() { // readers wait for the last record
			is.Equal(t, len(must.Get(p.Read(p.End()-1, Most{1000, 1, true}, nil))(t)), 1, "%s: records before the end", name)
		}
		at := must.Get(l.append(missing.Topic, missing.Index, "next"))(t)
		if at < ends[missing.Key] {
			t.Errorf("%s: offset %d is used again", name, at)
		}
		if strings.Contains(name, "with a flip") && missing.To > missing.From+1 {
			t.Errorf("%s: %v", name, missing)
		}
		must.Do(t, l.stop())
		cfg.SkipMissing = false
		l = start(t, cfg, osFiles())
		is.List(t, l.Missing(), []Missing{missing}, "%s", name)
		must.Do(t, l.stop())
		is.List(t, must.Get(Check(cfg))(t), []Missing{missing}, "%s: checked", name)
		l = start(t, cfg, osFiles())
		p := l.Partition(missing.Topic, missing.Index)
		var offsets []int64
		for from := p.Start(); from < p.End(); {
			frames := must.Get(p.Read(from, Most{1000, 3, true}, nil))(t)
			for _, f := range frames {
				offsets = append(offsets, f.Offset)
			}
			from = offsets[len(offsets)-1] + 1
		}
		var want []int64
		for offset := p.Start(); offset <= at; offset++ {
			if offset < missing.From || offset >= missing.To {
				want = append(want, offset)
			}
		}
		is.List(t, offsets, want, "%s: without %v", name, missing)
		if found := must.Get(p.OffsetForTime(1 << 60))(t); found != p.End() {
			t.Errorf("%s: the first record of the future is %d", name, found)
		}
		must.Do(t, l.Trim(map[Key]int64{missing.Key: p.End()}))
		is.Equal(t, len(l.Missing()), 0, "%s: ranges that are missing after a trim", name)
		must.Do(t, l.stop())
	})
	if skipped < 20 {
		t.Errorf("%d logs", skipped)
	}
}

// What an older version committed proves ends too, with the completed records above the offset.
func TestCommitsOfOlderVersionsProveEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := start(t, Config{Dir: dir}, osFiles())
	for range 5 {
		must.Get(l.append("events", 0, "record"))(t)
	}
	key := Key{"events", 0}
	must.Do(t, l.Commit(t.Context(), "g", map[Key]Commit{key: {Offset: 2, Metadata: "up to 4"}}))
	copied := copyDir(t, dir)
	must.Do(t, l.stop())
	file := newest(t, copied, "events-0")
	b := must.Get(os.ReadFile(file))(t)
	must.Do(t, os.Truncate(file, int64(len(b)/5*3)))
	// An older version writes the state log without ends.
	e := stateEntry{Topics: []Topic{l.Topics()["events"], l.Topics()["other"]},
		Commits: []groupCommit{{"g", key, 2, 0, []byte("up to 4")}}}
	s := state{log: l.Log}
	must.Do(t, os.WriteFile(filepath.Join(copied, StateFile), must.Get(s.frame(e))(t), 0o600))
	cfg := Config{Dir: copied, Fsync: true, CommitEnd: func(c Commit) int64 { return c.Offset + 2 }}
	_, err := Open(cfg)
	is.ErrorIs(t, err, ErrMissing)
	cfg.Fsync = false // it may have been a power cut
	again := must.Get(Open(cfg))(t)
	is.Equal(t, again.Partition("events", 0).Next(), 4, "the log goes on at offset")
	must.Do(t, again.Close())
}

// A power cut without fsync loses the newest records only: the log opens, has the first records of each partition, and
// goes on behind what groups have committed.
func TestPowerCutWithoutFsync(t *testing.T) {
	t.Parallel()
	d := new(disk)
	cfg := Config{Dir: t.TempDir(), SegmentBytes: 500, Durable: isDurable}
	l := run(t, cfg, d.files())
	random := rand.New(rand.NewPCG(3, 4))
	appended := make(map[Key][]string)
	for step := range 60 {
		switch step {
		case 15: // killed
			l.unlock()
			l = run(t, cfg, d.files())
		case 30:
			must.Do(t, l.stop())
			l = run(t, cfg, d.files())
		}
		key := Key{[]string{"events", "other"}[random.IntN(2)], int32(random.IntN(2))}
		payload := fmt.Sprint(step, strings.Repeat("x", random.IntN(200)))
		appended[key] = append(appended[key], payload)
		must.Get(l.append(key.Topic, key.Index, payload))(t)
		if step%3 == 2 {
			must.Do(t, l.Commit(t.Context(), "g", map[Key]Commit{key: {Offset: l.Partition(key.Topic, key.Index).End()}}))
		}
		if step%10 == 9 {
			must.Do(t, l.Trim(map[Key]int64{key: l.Partition(key.Topic, key.Index).End() - 1}))
		}
	}
	must.Do(t, l.stop())
	for n := 12; n <= len(d.ops); n += 3 {
		for what, dir := range d.leavings(n) {
			name := fmt.Sprintf("after %d of %d operations, with %s", n, len(d.ops), what)
			path := t.TempDir()
			must.Do(t, os.Chmod(path, 0o700))
			for name, b := range dir {
				must.Do(t, os.WriteFile(filepath.Join(path, name), b, 0o600))
			}
			for _, fsync := range []bool{false, true} { // the next start may have another setting
				l, err := Open(Config{Dir: path, Fsync: fsync, SegmentBytes: 500})
				must.Do(t, err, name)
				for key, all := range appended {
					p := l.Partition(key.Topic, key.Index)
					if c := l.Commits("g")[key]; c.Offset > p.Next() {
						t.Errorf("%s: %v goes on at %d, committed %d", name, key, p.Next(), c.Offset)
					}
					var frames []Frame
					for from := p.Start(); from < p.End(); from = frames[len(frames)-1].Offset + 1 {
						if frames = must.Get(p.Read(from, Most{1000, 10, true}, nil))(t); len(frames) == 0 {
							break // the rest is missing
						}
						for _, f := range frames {
							if f.Offset >= int64(len(all)) || string(f.Payload) != all[f.Offset] {
								t.Fatalf("%s: %v has another record at %d", name, key, f.Offset)
							}
						}
					}
				}
				must.Do(t, l.Close())
			}
			must.Do(t, os.RemoveAll(path))
		}
	}
}

// A new directory survives a power cut: its name is on disk before anything is acknowledged.
func TestDirectoryIsSynced(t *testing.T) {
	t.Parallel()
	f := osFiles()
	var mu sync.Mutex
	synced, real := make(map[string]bool), f.syncDir
	f.syncDir = func(path string) error {
		mu.Lock()
		defer mu.Unlock()
		synced[path] = true
		return real(path)
	}
	parent := filepath.Join(t.TempDir(), "data")
	start(t, Config{Dir: filepath.Join(parent, "log")}, f)
	mu.Lock()
	defer mu.Unlock()
	for _, dir := range []string{filepath.Dir(parent), parent, filepath.Join(parent, "log")} {
		if !synced[dir] {
			t.Errorf("%s is not synced, only %v", dir, maps.Clone(synced))
		}
	}
}

// gapLog returns a log of nine records, of which the fifth is damaged.
func gapLog(t *testing.T, sizes func(i int) int) (string, Config) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Fsync: true, Durable: isDurable}
	l := start(t, cfg, osFiles())
	for i := range 9 {
		must.Get(l.append("events", 0, fmt.Sprint(i, strings.Repeat("x", sizes(i)))))(t)
	}
	must.Do(t, l.stop())
	file := newest(t, dir, "events-0")
	b := must.Get(os.ReadFile(file))(t)
	at := 0
	for range 4 {
		at += frameSize(b[at:])
	}
	b[at+40] ^= 1
	must.Do(t, os.WriteFile(file, b, 0o600))
	return dir, cfg
}

// What was skipped stays known while its file is there, also if it was trimmed.
func TestMissingRangesSurviveARewrite(t *testing.T) {
	_, cfg := gapLog(t, func(int) int { return 100 })
	key := Key{"events", 0}
	cfg.SkipMissing = true
	l := start(t, cfg, osFiles())
	must.Do(t, l.Trim(map[Key]int64{key: 7}))
	l.cfg.StateBytes = 0 // as after 8 MiB of commits
	must.Do(t, l.Commit(t.Context(), "g", map[Key]Commit{key: {Offset: 8}}))
	must.Do(t, l.stop())
	cfg.SkipMissing = false
	if _, err := Open(cfg); err != nil {
		t.Errorf("refused after a rewrite: %v", err)
	}
}

func TestMissingRangesAreInABackup(t *testing.T) {
	_, cfg := gapLog(t, func(int) int { return 100 })
	key := Key{"events", 0}
	cfg.SkipMissing = true
	l := start(t, cfg, osFiles())
	must.Do(t, l.Trim(map[Key]int64{key: 7}))
	to := t.TempDir()
	must.Do(t, os.Chmod(to, 0o700))
	s := l.Snapshot()
	must.Do(t, s.Copy(func(name string, write func(w io.Writer) error) error {
		f := must.Get(os.Create(filepath.Join(to, name)))(t)
		defer f.Close()
		return write(f)
	}))
	s.Close()
	must.Do(t, l.stop())
	if _, err := Open(Config{Dir: to, Fsync: true, Durable: isDurable}); err != nil {
		t.Errorf("backup refused: %v", err)
	}
}

// A record larger than a read is not taken for a damaged one.
func TestLargeRecordBeforeMissingOnes(t *testing.T) {
	_, cfg := gapLog(t, func(i int) int {
		if i == 3 {
			return 500 << 10
		}
		return 100
	})
	cfg.SkipMissing = true
	l := start(t, cfg, osFiles())
	p := l.Partition("events", 0)
	var got []int64
	for from := p.Start(); from < p.End(); {
		frames := must.Get(p.Read(from, Most{256 << 10, 100, true}, nil))(t)
		for _, f := range frames {
			got = append(got, f.Offset)
		}
		from = got[len(got)-1] + 1
	}
	if fmt.Sprint(got) != "[0 1 2 3 5 6 7 8]" {
		t.Errorf("read %v, missing %v", got, l.Missing())
	}
}

// The next file proves that all of a full one was on disk.
func TestWholeRecordsOfAFullFileAreKept(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Fsync: true, Durable: isDurable, SegmentBytes: 1500}
	l := start(t, cfg, osFiles())
	for i := range 30 { // not durable: no sync but at rolls
		must.Get(l.append("other", 0, fmt.Sprint(i, strings.Repeat("x", 100))))(t)
	}
	dir2 := copyDir(t, dir) // killed, no group has committed
	must.Do(t, l.stop())
	files := must.Get(filepath.Glob(filepath.Join(dir2, "other-0-*")))(t)
	b := must.Get(os.ReadFile(files[0]))(t)
	b[frameSize(b)+40] ^= 1 // record 1
	must.Do(t, os.WriteFile(files[0], b, 0o600))
	cfg.Dir, cfg.SkipMissing = dir2, true
	l = start(t, cfg, osFiles())
	for _, m := range l.Missing() {
		if m.To-m.From != 1 {
			t.Errorf("one record is damaged, and %v", m)
		}
	}
}

// A start that skips cuts off what follows the records of a full file, so that the next one need not skip.
func TestBytesBehindAFullFileAreCutOff(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: dir, Fsync: true, Durable: isDurable, SegmentBytes: 1500}
	l := start(t, cfg, osFiles())
	for i := range 30 {
		must.Get(l.append("events", 0, fmt.Sprint(i, strings.Repeat("x", 100))))(t)
	}
	must.Do(t, l.stop())
	files := must.Get(filepath.Glob(filepath.Join(dir, "events-0-*")))(t)
	b := must.Get(os.ReadFile(files[0]))(t)
	must.Do(t, os.WriteFile(files[0], append(b, make([]byte, 64)...), 0o600))
	cfg.SkipMissing = true
	l2 := must.Get(Open(cfg))(t)
	must.Do(t, l2.Close())
	cfg.SkipMissing = false
	if _, err := Open(cfg); err != nil {
		t.Errorf("second start: %v", err)
	}
}

// The configuration is never skipped: its records depend on those before them.
func TestSomeTopicsMustBeWhole(t *testing.T) {
	t.Parallel()
	_, cfg := gapLog(t, func(int) int { return 100 })
	cfg.SkipMissing, cfg.MustBeWhole = true, func(topic string) bool { return topic == "events" }
	_, err := Open(cfg)
	is.ErrorIs(t, err, ErrDamaged)
	if errors.Is(err, ErrMissing) {
		t.Errorf("%v says that it can be skipped", err)
	}
}
