package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// entry is a record of the tests.
type entry struct {
	payload []byte
	done    func(int64, error)
}

func (e entry) Size() int                  { return len(e.payload) }
func (e entry) AppendTo(dst []byte) []byte { return append(dst, e.payload...) }
func (e entry) Done(offset int64, err error) {
	if e.done != nil {
		e.done(offset, err)
	}
}

// fixture is a log that runs.
type fixture struct {
	*Log
	t    *testing.T
	stop func() error
}

func isDurable(topic string) bool { return topic != "other" }

func start(t *testing.T, cfg Config, f files) *fixture {
	t.Helper()
	cfg.Fsync, cfg.Durable = true, isDurable
	return run(t, cfg, f)
}

func run(t *testing.T, cfg Config, f files) *fixture {
	t.Helper()
	cfg.Disk = f
	l := must.Get(Open(cfg))(t)
	for _, topic := range []string{"events", "other"} {
		must.Get(l.CreateTopic(Topic{Name: topic, Partitions: 2}, false))(t)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { ended <- l.Run(ctx) })
	stop := sync.OnceValue(func() error {
		cancel()
		running.Wait()
		return errors.Join(<-ended, l.Close())
	})
	t.Cleanup(func() { _ = stop() })
	return &fixture{l, t, stop}
}

// append appends a record and waits for its acknowledgement.
func (l *fixture) append(topic string, index int32, payload string) (int64, error) {
	l.t.Helper()
	type result struct {
		offset int64
		err    error
	}
	done := make(chan result, 1)
	l.Partition(topic, index).Append(1000, entry{[]byte(payload), func(o int64, err error) { done <- result{o, err} }}, 0)
	select {
	case r := <-done:
		return r.offset, r.err
	case <-time.After(time.Minute):
		l.t.Fatal("no acknowledgement")
		return 0, nil
	}
}

// read returns all payloads of a partition, and fails if an offset is missing.
func read(t *testing.T, p *Partition, most int) (payloads []string) {
	t.Helper()
	for from := p.Start(); from < p.End(); {
		frames := must.Get(p.Read(from, Most{most, 100, true}, nil))(t)
		if len(frames) == 0 {
			t.Fatalf("nothing at %d of %d", from, p.End())
		}
		for _, f := range frames {
			must.Equal(t, f.Offset, from, "offset")
			payloads = append(payloads, string(f.Payload))
			from++
		}
	}
	return payloads
}

// files are the operations that change a disk: tests let them fail, and see what a power cut leaves of them.
type files struct {
	osDisk
	create   func(path string) (File, error)
	write    func(f *openFile, b []byte, at int64) error
	truncate func(f *openFile, size int64) error
	sync     func(f *openFile) error
	syncDir  func(path string) error
	rename   func(from, to string) error
	remove   func(path string) error
}

func osFiles() files {
	create := func(path string) (File, error) { return osDisk{}.Open(path, createFlag) }
	write := func(f *openFile, b []byte, at int64) error {
		_, err := f.File.WriteAt(b, at)
		return err
	}
	truncate := func(f *openFile, size int64) error { return f.File.Truncate(size) }
	sync := func(f *openFile) error { return f.File.Sync() }
	return files{osDisk{}, create, write, truncate, sync, osDisk{}.SyncDir, osDisk{}.Rename, osDisk{}.Remove}
}

func (f files) SyncDir(dir string) error     { return f.syncDir(dir) }
func (f files) Rename(from, to string) error { return f.rename(from, to) }
func (f files) Remove(path string) error     { return f.remove(path) }

func (f files) Open(path string, flag int) (File, error) {
	open := f.osDisk.Open
	if flag&os.O_CREATE != 0 {
		open = func(path string, _ int) (File, error) { return f.create(path) }
	}
	file, err := open(path, flag)
	if err != nil {
		return nil, err
	}
	return &openFile{file, path, f}, nil
}

// openFile calls the operations of files.
type openFile struct {
	File
	path string
	of   files
}

func (f *openFile) WriteAt(b []byte, at int64) (int, error) { return 0, f.of.write(f, b, at) }
func (f *openFile) Truncate(size int64) error               { return f.of.truncate(f, size) }
func (f *openFile) Sync() error                             { return f.of.sync(f) }

// disk records the operations that change a directory, so that a test can make what a power cut after any of them may
// leave.
type disk struct {
	mu  sync.Mutex
	ops []op
}

type op struct {
	kind, name, to string
	data           []byte
	at             int64
}

func (d *disk) files() files {
	real := osFiles()
	add := func(o op) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ops = append(d.ops, o)
	}
	base := filepath.Base
	return files{
		create: func(path string) (File, error) {
			f, err := real.create(path)
			add(op{kind: "create", name: base(path)})
			return f, err
		},
		write: func(f *openFile, b []byte, at int64) error {
			err := real.write(f, b, at)
			add(op{kind: "write", name: base(f.path), data: bytes.Clone(b), at: at})
			return err
		},
		truncate: func(f *openFile, size int64) error {
			add(op{kind: "truncate", name: base(f.path), at: size})
			return real.truncate(f, size)
		},
		sync: func(f *openFile) error {
			add(op{kind: "sync", name: base(f.path)})
			return real.sync(f)
		},
		syncDir: func(path string) error {
			add(op{kind: "syncDir"})
			return real.syncDir(path)
		},
		rename: func(from, to string) error {
			add(op{kind: "rename", name: base(from), to: base(to)})
			return real.rename(from, to)
		},
		remove: func(path string) error {
			add(op{kind: "remove", name: base(path)})
			return real.remove(path)
		},
	}
}

func (d *disk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ops)
}

// image is a file: what the kernel has of it, and what the disk has at least.
type image struct{ cached, synced []byte }

// after returns the files by name, as the kernel sees them and as the disk has them at least, after n operations.
func (d *disk) after(n int) (seen, onDisk map[string]*image) {
	seen, onDisk = make(map[string]*image), make(map[string]*image)
	opened := make(map[string]*image) // a file keeps the name under which it was opened
	for _, o := range d.ops[:n] {
		f := opened[o.name]
		switch o.kind {
		case "create":
			f = &image{}
			seen[o.name], opened[o.name] = f, f
		case "write":
			if grow := int(o.at) + len(o.data) - len(f.cached); grow > 0 {
				f.cached = append(f.cached, make([]byte, grow)...)
			}
			f.cached = bytes.Clone(f.cached)
			copy(f.cached[o.at:], o.data)
		case "truncate":
			f.cached = bytes.Clone(f.cached[:o.at])
		case "sync":
			f.synced = bytes.Clone(f.cached)
		case "rename":
			seen[o.to], opened[o.to] = seen[o.name], seen[o.name]
			delete(seen, o.name)
		case "remove":
			delete(seen, o.name)
		case "syncDir":
			onDisk = maps.Clone(seen)
		}
	}
	return seen, onDisk
}

// leavings returns directories that a power cut after n operations may leave.
func (d *disk) leavings(n int) map[string]map[string][]byte {
	seen, onDisk := d.after(n)
	contents := func(files map[string]*image, of func(name string, f *image) []byte) map[string][]byte {
		out := make(map[string][]byte)
		for name, f := range files {
			out[name] = of(name, f)
		}
		return out
	}
	cached := func(_ string, f *image) []byte { return f.cached }
	synced := func(_ string, f *image) []byte { return f.synced }
	all := map[string]map[string][]byte{
		"nothing that was not synced": contents(onDisk, synced),
		"everything":                  contents(seen, cached),
		"names without contents":      contents(seen, synced),
		"later pages without earlier ones": contents(seen, func(_ string, f *image) []byte {
			b := bytes.Clone(f.cached)
			if from := len(f.synced); from < len(b) {
				clear(b[from : from+(len(b)-from+1)/2])
			}
			return b
		}),
	}
	if n == 0 || d.ops[n-1].kind != "write" {
		return all
	}
	last := d.ops[n-1]
	for _, cut := range []int{1, 7, 31, len(last.data) / 2, len(last.data) - 1} {
		all[fmt.Sprintf("%d bytes of the last write", cut)] = contents(seen, func(name string, f *image) []byte {
			if keep := int(last.at) + cut; name == last.name && keep < len(f.cached) {
				return f.cached[:keep]
			}
			return f.cached
		})
	}
	return all
}

// ledger is what a test knows: what it appended, and from which operation on what must be there.
type ledger struct {
	mu       sync.Mutex
	appended map[Key][]string
	kept     []promise
}

// promise is that a partition ends at an offset at least, or that a group has committed it at least.
type promise struct {
	from   int // number of operations
	key    Key
	offset int64
	commit bool
}

// After a power cut at any operation every acknowledged record and commit is there, and the log goes on.
func TestPowerCutAtEveryOperation(t *testing.T) {
	t.Parallel()
	d, know := new(disk), ledger{appended: make(map[Key][]string)}
	cfg := Config{Dir: t.TempDir(), SegmentBytes: 500}
	l := start(t, cfg, d.files())
	promised := func(p promise) {
		p.from = d.count()
		know.mu.Lock()
		defer know.mu.Unlock()
		know.kept = append(know.kept, p)
	}
	topics := []string{"events", "other"}
	random := rand.New(rand.NewPCG(1, 2))
	trimmed := make(map[Key]int64)
	for step := range 60 {
		if step == 30 { // from now on the state log is written anew, too
			must.Do(t, l.stop())
			l = start(t, cfg, d.files())
			l.cfg.StateBytes = 1000
		}
		key := Key{topics[random.IntN(2)], int32(random.IntN(2))}
		var wait sync.WaitGroup
		for range 1 + random.IntN(3) {
			payload := fmt.Sprint(step, strings.Repeat("x", random.IntN(200)))
			know.appended[key] = append(know.appended[key], payload)
			wait.Add(1)
			l.Partition(key.Topic, key.Index).Append(int64(step), entry{[]byte(payload), func(o int64, err error) {
				is.OK(t, err)
				if isDurable(key.Topic) {
					promised(promise{key: key, offset: o + 1})
				}
				wait.Done()
			}}, 0)
		}
		wait.Wait()
		if step%5 != 4 {
			continue
		}
		at := l.Partition(key.Topic, key.Index).End()
		must.Do(t, l.Commit(t.Context(), "g", map[Key]Commit{key: {Offset: at, Metadata: "\xff"}}))
		promised(promise{key: key, offset: at, commit: true})
		for key, all := range know.appended { // a commit syncs all that was written
			promised(promise{key: key, offset: int64(len(all))})
		}
		if step%10 == 9 {
			must.Do(t, l.Trim(map[Key]int64{key: at - int64(random.IntN(2))}))
			trimmed[key] = at
		}
	}
	must.Do(t, l.stop())
	every := 1
	if testing.Short() {
		every = 5
	}
	for n := 12; n <= len(d.ops); n += every { // from when the topics exist
		var checked []map[string][]byte
		for what, dir := range d.leavings(n) {
			if slices.ContainsFunc(checked, func(o map[string][]byte) bool { return maps.EqualFunc(dir, o, bytes.Equal) }) {
				continue
			}
			checked = append(checked, dir)
			name := fmt.Sprintf("after %d of %d operations, with %s", n, len(d.ops), what)
			know.check(t, name, dir, n, trimmed)
		}
	}
}

// check opens what a power cut left.
func (know *ledger) check(t *testing.T, name string, dir map[string][]byte, n int, trimmed map[Key]int64) {
	t.Helper()
	path := t.TempDir()
	must.Do(t, os.Chmod(path, 0o700))
	for name, b := range dir {
		must.Do(t, os.WriteFile(filepath.Join(path, name), b, 0o600))
	}
	defer os.RemoveAll(path)
	for range 2 { // what the first start has repaired is right for the next one
		l, err := Open(Config{Dir: path, Fsync: true, Durable: isDurable, SegmentBytes: 500})
		must.Do(t, err, name)
		for key, all := range know.appended {
			p := l.Partition(key.Topic, key.Index)
			if p == nil {
				t.Fatalf("%s: %v is missing", name, key)
			}
			if p.Start() > trimmed[key] {
				t.Errorf("%s: %v begins at %d, trimmed below %d", name, key, p.Start(), trimmed[key])
			}
			for i, payload := range read(t, p, 1<<20) {
				if at := int(p.Start()) + i; at >= len(all) || payload != all[at] {
					t.Fatalf("%s: %v has another record at %d", name, key, at)
				}
			}
			if c := l.Commits("g")[key]; c.Offset > p.End() {
				t.Errorf("%s: %v ends at %d, committed %d", name, key, p.End(), c.Offset)
			}
		}
		for _, p := range know.kept {
			if p.from > n {
				continue
			}
			if end := l.Partition(p.key.Topic, p.key.Index).End(); end < p.offset {
				t.Errorf("%s: %v ends at %d, acknowledged up to %d", name, p.key, end, p.offset)
			}
			if c := l.Commits("g")[p.key]; p.commit && (c.Offset < p.offset || c.Metadata != "\xff") {
				t.Errorf("%s: %v has commit %v, want %d", name, p.key, c, p.offset)
			}
		}
		must.Do(t, l.Close())
	}
}

// copyDir copies a log that is not written to.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	must.Do(t, os.CopyFS(to, os.DirFS(from)))
	must.Do(t, os.Chmod(to, 0o700))
	return to
}

// newest returns the newest segment of a partition.
func newest(t testing.TB, dir, prefix string) string {
	t.Helper()
	all := must.Get(filepath.Glob(filepath.Join(dir, prefix+"-*"+extension)))(t)
	return all[len(all)-1]
}

// Whatever byte a file ends at, the log has all records before it, and takes new ones.
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := start(t, Config{Dir: dir}, osFiles())
	for i := range 5 {
		must.Get(l.append("events", 0, fmt.Sprint("record ", i)))(t)
	}
	dir = copyDir(t, dir) // as a crash leaves it: a stop records where the log ends
	must.Do(t, l.stop())
	file := newest(t, dir, "events-0")
	b := must.Get(os.ReadFile(file))(t)
	size := len(b) / 5
	for cut := range len(b) {
		if cut%size > 40 && cut%3 > 0 { // the payload: not each byte
			continue
		}
		copied := copyDir(t, dir)
		must.Do(t, os.Truncate(filepath.Join(copied, filepath.Base(file)), int64(cut)))
		l := start(t, Config{Dir: copied}, osFiles())
		if info := must.Get(os.Stat(newest(t, copied, "events-0")))(t); info.Size() != int64(cut/size*size) {
			t.Fatalf("cut at %d: the file has %d bytes", cut, info.Size())
		}
		if at, err := l.append("events", 0, "next"); at != int64(cut/size) || err != nil {
			t.Fatalf("cut at %d: the next record is at %d, %v", cut, at, err)
		}
		if got := read(t, l.Partition("events", 0), 1<<20); len(got) != cut/size+1 || got[len(got)-1] != "next" {
			t.Fatalf("cut at %d: %q", cut, got)
		}
		must.Do(t, l.stop())
	}
}

// A record that is damaged before one that was synced later is an error. The last write may be torn.
func TestHoleIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := start(t, Config{Dir: dir, SegmentBytes: 300}, osFiles())
	for i := range 12 {
		must.Get(l.append("events", 0, fmt.Sprint("record ", i, strings.Repeat(".", 30))))(t)
	}
	dir = copyDir(t, dir) // as a crash leaves it
	must.Do(t, l.stop())
	all := must.Get(filepath.Glob(filepath.Join(dir, "events-0-*")))(t)
	try := func(name string, change func(path string)) error {
		copied := copyDir(t, dir)
		change(filepath.Join(copied, filepath.Base(name)))
		l, err := Open(Config{Dir: copied, Fsync: true})
		if err == nil {
			must.Do(t, l.Close())
		}
		return err
	}
	flip := func(at int) func(string) {
		return func(path string) {
			b := must.Get(os.ReadFile(path))(t)
			b[(at+len(b))%len(b)] ^= 1
			must.Do(t, os.WriteFile(path, b, 0o600))
		}
	}
	if len(all) < 3 {
		t.Fatalf("%d segments", len(all))
	}
	for i, name := range all {
		last := i == len(all)-1
		is.ErrorIs(t, try(name, flip(20)), ErrDamaged, "first record of %s", name)
		if err := try(name, flip(-1)); errors.Is(err, ErrDamaged) == last {
			t.Errorf("last record of %s: %v", name, err)
		}
		err := try(name, func(path string) { must.Do(t, os.Remove(path)) })
		if i > 0 && !last && !errors.Is(err, ErrDamaged) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if err := try(StateFile, flip(50)); err == nil {
		t.Error("a damaged state log is read")
	}
}

// A full disk is an error for the records of the write, whatever part of it was written. The log goes on when there is
// room, and after a restart it has what was acknowledged and nothing else.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, part := range []int{0, 1, 40, 60, 1000} {
		dir, real := t.TempDir(), osFiles()
		full, stuck, random := false, false, rand.New(rand.NewPCG(7, uint64(part)))
		f := real
		f.write = func(f *openFile, b []byte, at int64) error {
			if !full {
				return real.write(f, b, at)
			}
			return errors.Join(real.write(f, b[:min(part, len(b))], at), syscall.ENOSPC)
		}
		f.create = func(path string) (File, error) {
			if full {
				return nil, syscall.ENOSPC
			}
			return real.create(path)
		}
		f.truncate = func(f *openFile, size int64) error {
			if stuck {
				return fs.ErrPermission
			}
			return real.truncate(f, size)
		}
		l := start(t, Config{Dir: dir, SegmentBytes: 1000}, f)
		var want []string
		for i := range 300 {
			full, stuck = i%5 >= 3, i%5 == 4
			payload := fmt.Sprint("record ", i, strings.Repeat(".", random.IntN(300)))
			before := l.Partition("events", 0).torn
			at, err := l.append("events", 0, payload)
			if torn := l.Partition("events", 0).torn; (torn && !before) != errors.Is(err, ErrTorn) {
				t.Fatalf("record %d: %v, torn %v", i, err, torn)
			}
			if full != errors.Is(err, syscall.ENOSPC) && !(full && errors.Is(err, fs.ErrPermission)) {
				t.Fatalf("record %d: %v, full %v", i, err, full)
			}
			if commitErr := l.Commit(t.Context(), "g", map[Key]Commit{{"events", 0}: {Offset: int64(len(want))}}); full !=
				(commitErr != nil) {
				t.Fatalf("commit %d: %v, full %v", i, commitErr, full)
			}
			if err == nil {
				if want = append(want, payload); at != int64(len(want)-1) {
					t.Fatalf("offset %d, want %d", at, len(want)-1)
				}
			}
		}
		full, stuck = false, false
		must.Do(t, l.stop())
		full = true // a start needs no room
		again := start(t, Config{Dir: dir, SegmentBytes: 1000}, f)
		if got := read(t, again.Partition("events", 0), 1<<20); strings.Join(got, ",") != strings.Join(want, ",") {
			t.Errorf("part %d: %q, want %q", part, got, want)
		}
		// Trimming makes some, though it cannot write down where the partition starts.
		before := again.Partition("events", 0).Bytes()
		is.ErrorIs(t, again.Trim(map[Key]int64{{"events", 0}: int64(len(want))}), syscall.ENOSPC, "trimming")
		if after := again.Partition("events", 0).Bytes(); after >= before {
			t.Errorf("%d bytes before trimming, %d after it", before, after)
		}
		must.Do(t, again.stop())
	}
}

// A failed write is cut off on disk before its records are refused.
func TestFailedWriteIsCutOffOnDisk(t *testing.T) {
	t.Parallel()
	f, full := osFiles(), false
	var steps []string
	f.write = func(f *openFile, b []byte, at int64) error {
		if !full {
			return osFiles().write(f, b, at)
		}
		return errors.Join(osFiles().write(f, b[:len(b)/2], at), syscall.ENOSPC)
	}
	f.truncate = func(f *openFile, size int64) error {
		steps = append(steps, "truncate")
		return f.File.Truncate(size)
	}
	f.sync = func(f *openFile) error {
		steps = append(steps, "sync")
		return f.File.Sync()
	}
	l := start(t, Config{Dir: t.TempDir()}, f)
	must.Get(l.append("events", 0, "before"))(t)
	steps, full = nil, true
	_, err := l.append("events", 0, "refused")
	is.ErrorIs(t, err, syscall.ENOSPC)
	is.List(t, steps, []string{"truncate", "sync"}, "steps before the refusal")
	full = false
}

// After an error of a sync nothing is acknowledged, and Run returns it.
func TestSyncErrorIsFinal(t *testing.T) {
	t.Parallel()
	f, broken := osFiles(), false
	f.sync = func(f *openFile) error {
		if broken {
			return syscall.EIO
		}
		return f.File.Sync()
	}
	l := start(t, Config{Dir: t.TempDir()}, f)
	must.Get(l.append("events", 0, "before"))(t)
	broken = true
	if _, err := l.append("events", 0, "lost"); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	<-l.Failed()
	for _, p := range l.all() {
		p.Append(0, entry{[]byte("after"), func(_ int64, err error) {
			if err == nil {
				t.Error("acknowledged after a failed sync")
			}
		}}, 0)
	}
	is.ErrorIs(t, l.Commit(t.Context(), "g", nil), ErrFailed, "commit")
	is.ErrorIs(t, l.stop(), ErrFailed, "Run")
}

// A sync that fails is final while others of its round still run: the next sync of its file would succeed.
func TestSyncErrorIsFinalAtOnce(t *testing.T) {
	t.Parallel()
	f := osFiles()
	var breaks atomic.Bool
	failed, hangs := make(chan struct{}), make(chan struct{})
	f.sync = func(f *openFile) error {
		switch {
		case strings.Contains(f.path, "other-0") && breaks.Load():
			<-hangs
		case strings.Contains(f.path, "other-1") && breaks.CompareAndSwap(true, false):
			close(failed)
			return syscall.EIO
		}
		return f.File.Sync()
	}
	l := start(t, Config{Dir: t.TempDir()}, f)
	breaks.Store(true)
	for i := range int32(2) {
		must.Get(l.append("other", i, "not synced"))(t)
	}
	committed := make(chan error, 1)
	go func() { committed <- l.Commit(t.Context(), "g", nil) }()
	<-failed
	is.ErrorIs(t, l.Partition("other", 1).sync(), ErrFailed, "the next sync")
	close(hangs)
	is.ErrorIs(t, <-committed, ErrFailed, "commit")
}

// Memory is bounded over all partitions, and a reader that is behind gets the same from files, in any portions.
func TestTailIsBounded(t *testing.T) {
	t.Parallel()
	l := start(t, Config{Dir: t.TempDir(), SegmentBytes: 64 << 10, TailBytes: 16 << 10}, osFiles())
	var want []string
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 1000 {
		payload := fmt.Sprint(i, strings.Repeat("y", random.IntN(1000)))
		if i == 500 {
			payload += strings.Repeat("z", 200<<10) // larger than a segment, and than what a reader reads at once
		}
		want = append(want, payload)
		must.Get(l.append("events", 0, payload))(t)
		must.Get(l.append("other", 1, "short"))(t)
	}
	if l.tail.bytes > 16<<10 || len(l.tail.blocks) > 100 {
		t.Errorf("%d bytes in %d blocks", l.tail.bytes, len(l.tail.blocks))
	}
	p := l.Partition("events", 0)
	if len(p.tail) == 0 || p.tail[0].first < 900 {
		t.Errorf("%d blocks in memory", len(p.tail))
	}
	for _, most := range []int{1, 1000, 1 << 20} {
		if got := read(t, p, most); strings.Join(got, ",") != strings.Join(want, ",") {
			t.Fatalf("with %d bytes at once: %d records", most, len(got))
		}
	}
	for _, from := range []int64{0, 999} { // in the file and in memory
		if frames, err := p.Read(from, Most{Bytes: 1, Frames: 1}, nil); len(frames) > 0 || err != nil {
			t.Errorf("%d bytes of 1: %v", len(frames[0].Payload), err)
		}
	}
	for _, from := range []int64{-1, 1001} {
		if _, err := p.Read(from, Most{1, 1, true}, nil); !errors.Is(err, ErrOutOfRange) {
			t.Errorf("%d: %v", from, err)
		}
	}
}

// Records are found by time, though times may go back, and after trimming and a restart.
func TestOffsetForTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := start(t, Config{Dir: dir, SegmentBytes: 128 << 10}, osFiles())
	times := make([]int64, 600)
	random := rand.New(rand.NewPCG(5, 6))
	var wait sync.WaitGroup
	for i := range times {
		times[i] = int64(10*i - random.IntN(100))
		wait.Add(1)
		l.Partition("events", 0).Append(times[i], entry{make([]byte, 1000), func(int64, error) { wait.Done() }},
			time.Duration(i%2)*time.Millisecond)
		if i%20 == 0 {
			wait.Wait()
		}
	}
	wait.Wait()
	check := func(l *Log, start int64) {
		t.Helper()
		for at := int64(-200); at < 6100; at += 61 {
			want := start
			for want < int64(len(times)) && times[want] < at {
				want++
			}
			if got, err := l.Partition("events", 0).OffsetForTime(at); got != want || err != nil {
				t.Fatalf("time %d: offset %d, want %d: %v", at, got, want, err)
			}
		}
	}
	check(l.Log, 0)
	must.Do(t, l.Trim(map[Key]int64{{"events", 0}: 333}))
	check(l.Log, 333)
	must.Do(t, l.stop())
	again := start(t, Config{Dir: dir, SegmentBytes: 128 << 10}, osFiles())
	check(again.Log, 333)
	must.Do(t, again.Trim(map[Key]int64{{"events", 0}: 1000}))
	if n := again.Partition("events", 0).Bytes(); n != 0 || again.Partition("events", 0).End() != 600 {
		t.Errorf("%d bytes after all was trimmed, end %d", n, again.Partition("events", 0).End())
	}
	must.Do(t, again.stop())
	third := start(t, Config{Dir: dir}, osFiles())
	if at, err := third.append("events", 0, "next"); at != 600 || err != nil {
		t.Errorf("%d %v", at, err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil {
		t.Error("two open one directory")
	}
}

// Writers and readers of all kinds at once: each reader gets each record once, in order.
func TestReadersWhileWriting(t *testing.T) {
	t.Parallel()
	l := start(t, Config{Dir: t.TempDir(), SegmentBytes: 32 << 10, TailBytes: 8 << 10}, osFiles())
	const writers, each = 4, 500
	p := l.Partition("events", 0)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				p.Append(0, entry{payload: fmt.Appendf(nil, "%d %d", w, i)}, time.Duration(i%3)*time.Millisecond)
			}
		})
	}
	for range 3 {
		all.Go(func() {
			wake := make(chan struct{}, 1)
			p.Subscribe(wake)
			defer p.Unsubscribe(wake)
			var seen [writers]int
			for from := int64(0); from < writers*each; {
				frames, err := p.Read(from, Most{2000, 50, true}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for _, f := range frames {
					var w, i int
					if _, err := fmt.Sscan(string(f.Payload), &w, &i); err != nil || i != seen[w] || f.Offset != from {
						t.Errorf("%s at %d, want %d: %v", f.Payload, from, seen[w], err)
						return
					}
					seen[w]++
					from++
				}
				if len(frames) == 0 {
					<-wake
				}
			}
		})
	}
	all.Wait()
}

func TestStateLogIsWrittenAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := start(t, Config{Dir: dir}, osFiles())
	id := l.Topics()["events"].ID
	for i := range 3000 {
		l.state.mu.Lock()
		l.cfg.Fsync = i%100 == 0
		l.state.mu.Unlock()
		must.Do(t, l.Commit(t.Context(), "g", map[Key]Commit{{"events", 1}: {int64(i), 7, strings.Repeat("m", 4000)}}))
	}
	if l.state.size > maxStateBytes+10_000 {
		t.Errorf("%d bytes", l.state.size)
	}
	must.Get(l.CreateTopic(Topic{Name: "events", Partitions: 5}, true))(t)
	must.Do(t, l.stop())
	again := start(t, Config{Dir: dir}, osFiles())
	if c := again.Commits("g")[Key{"events", 1}]; c.Offset != 2999 || c.Epoch != 7 || len(c.Metadata) != 4000 {
		t.Errorf("%+v", c)
	}
	if topic := again.Topics()["events"]; topic.ID != id || topic.Partitions != 5 || again.Partition("events", 4) == nil {
		t.Errorf("%+v", topic)
	}
}

// Bytes in a record that look like a later record are none: whoever sends them does not know the topic's id. After a
// torn write they would stop the start.
func TestFrameInARecordIsNoRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := start(t, Config{Dir: dir}, osFiles())
	must.Get(l.append("events", 0, "first"))(t)
	var fakes []byte
	for _, seed := range []string{"", "events", "events-0"} {
		const far = 1 << 40
		fakes = appendFrame(fakes, seedOf(seed), far, far, 0, func(b []byte) []byte { return append(b, "fake"...) })
	}
	must.Get(l.append("events", 0, string(fakes)+strings.Repeat(".", 100)))(t)
	dir = copyDir(t, dir) // as a crash leaves it
	must.Do(t, l.stop())
	name := must.Get(filepath.Glob(filepath.Join(dir, "events-0-*")))(t)[0]
	info := must.Get(os.Stat(name))(t)
	must.Do(t, os.Truncate(name, info.Size()-50))
	again := must.Get(Open(Config{Dir: dir, Fsync: true}))(t)
	is.Equal(t, again.Partition("events", 0).End(), 1, "the log ends at offset")
	must.Do(t, again.Close())
}

// However a segment is damaged, the log has the first of its records, as they were, or says that it is damaged.
func FuzzDamagedSegment(f *testing.F) {
	dir := f.TempDir()
	cfg := Config{Dir: dir, Fsync: true, Durable: isDurable}
	l := must.Get(Open(cfg))(f)
	must.Get(l.CreateTopic(Topic{Name: "events", Partitions: 1}, false))(f)
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	written := []string{"", "a", "second record", strings.Repeat("long ", 100), "last"}
	for _, text := range written {
		done := make(chan error, 1)
		l.Partition("events", 0).Append(1000, entry{[]byte(text), func(_ int64, err error) { done <- err }}, 0)
		must.Do(f, <-done)
	}
	cancel()
	must.Do(f, <-ended) // and not closed, as a crash leaves it
	l.unlock()
	file := newest(f, dir, "events-0")
	whole := must.Get(os.ReadFile(file))(f)
	size := uint16(len(whole))
	f.Add(uint16(0), byte(0), size, []byte(nil))               // as it was
	f.Add(uint16(40), byte(1), size, []byte(nil))              // a bit of the second record
	f.Add(size-1, byte(0x80), size, []byte(nil))               // of the last one
	f.Add(uint16(0), byte(0), size-3, []byte(nil))             // cut off
	f.Add(uint16(0), byte(0), size, whole[:40])                // records that were before
	f.Add(uint16(0), byte(0), uint16(0), whole[len(whole)/2:]) // without the first ones
	f.Fuzz(func(t *testing.T, at uint16, flip byte, cut uint16, more []byte) {
		b := slices.Clone(whole)
		b[int(at)%len(b)] ^= flip
		b = append(b[:min(int(cut), len(b))], more...)
		must.Do(t, os.WriteFile(file, b, 0o600))
		l, err := Open(cfg)
		if err != nil {
			is.ErrorIs(t, err, ErrDamaged)
			return
		}
		defer l.Close()
		got := read(t, l.Partition("events", 0), 1<<20)
		if len(got) > len(written) || !slices.Equal(got, written[:len(got)]) {
			t.Errorf("read %q", got)
		}
	})
}
