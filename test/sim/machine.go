package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/embedded/claims"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read/fence"
)

// machine is a node that has all engines with it, as `relay dev` does: its log is the real one, on a disk of the
// simulation. The claims of events are in a real file. Redis ends with the process. The store is the model.
type machine struct {
	w    *World
	disk *disk

	mu     sync.Mutex // guards the fields below
	log    stream.Config
	claims string // path of the newest file of claims
	rows   map[stream.Partition][]*stream.Record
}

func newMachine(w *World) *machine {
	return &machine{w: w, disk: newDisk(w), rows: make(map[stream.Partition][]*stream.Record)}
}

// config is the log of the newest process.
func (m *machine) config(*link, string, func() time.Time) stream.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log
}

func (m *machine) end(p stream.Partition) int64 {
	reader, err := stream.NewReader(m.config(nil, "", nil), "end")
	if err != nil {
		panic(err)
	}
	defer reader.Close()
	ends, err := reader.Ends(context.Background(), p.Topic)
	if err != nil {
		panic(err)
	}
	return ends[p]
}

func (m *machine) close() {}

// Faults of brokers do not happen here.
func (m *machine) refuse(*kerr.Error) func() { return nil }
func (m *machine) dropCoordinators() func()  { return nil }
func (m *machine) move(int32) func()         { return nil }
func (m *machine) forgetMember()             {}

// Small files are complete, and trimmed, within the time of a world.
const (
	machineSegmentBytes = 64 << 10
	machineTailBytes    = 256 << 10
	machineStateBytes   = 128 << 10
)

// open opens the log of a process, which it closes last. A sync that fails ends the process at once.
func (m *machine) open(l *life) error {
	log, err := stream.OpenLog(stream.LogConfig{Dir: "/data/log", Fsync: true, Log: m.w.log, Now: l.node.now,
		Disk: mount{m.disk, l}, SegmentBytes: machineSegmentBytes, TailBytes: machineTailBytes,
		StateBytes: machineStateBytes})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := log.Run(ctx); errors.Is(err, stream.ErrLogFailed) {
			l.kill(err)
		}
	})
	l.last = append(l.last, func() {
		cancel()
		running.Wait()
	})
	l.stream = stream.Config{Embedded: log, Prefix: "relay.", Log: m.w.log}
	if _, err := stream.Migrate(l.ctx, l.stream, m.w.partitions, 1); err != nil {
		return err
	}
	m.mu.Lock()
	m.log = l.stream
	m.mu.Unlock()
	m.w.redis.FlushAll()
	return nil
}

// start starts what copies the log into the store, what trims it, and the claims.
func (m *machine) start(l *life) error {
	m.mu.Lock()
	from, to := m.claims, fmt.Sprintf("claims-%03d.db", l.number)
	m.claims = to
	m.mu.Unlock()
	if err := copyFile(from, to); err != nil {
		return err
	}
	store, err := claims.Open(claims.Config{Path: to}, // its syncs need no time, and never fail
		claims.Deps{Log: m.w.log, Now: l.node.now, SyncDir: func(string) error { return nil }})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })
	l.last = append(l.last, func() {
		cancel()
		running.Wait()
		_ = store.Close()
	})
	l.claims = fileClaims{store, l}
	trimming := stream.TrimConfig{Every: time.Minute, KeepAge: 2 * time.Minute}
	trimmer, err := stream.NewTrimmer(trimming,
		stream.TrimDeps{Log: m.w.log, Stream: l.stream, Metrics: l.metrics, Now: l.control.Now})
	if err != nil {
		return err
	}
	trimmer.SetOwner(true)
	l.start("trimmer", trimmer.Run)
	resumed := make(chan struct{})
	l.start("store", func(ctx context.Context) error {
		return m.follow(ctx, l, stream.StoreGroup, func(from map[stream.Partition]stream.Commit) {
			m.resume(from)
			close(resumed)
		})
	})
	l.start("alerts", func(ctx context.Context) error { return m.follow(ctx, l, stream.AlertGroup, nil) })
	if !l.await(resumed) {
		return nil
	}
	return store.Recover(l.ctx, func(ctx context.Context, e id.ID) (bool, error) { return m.has(l)(ctx, "", e) })
}

// enterDir makes a directory for the claims the current one. Nothing of it depends on chance: t.TempDir would draw
// another number if a directory is there already.
func enterDir(t *testing.T) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("relay-sim-%08d", os.Getpid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
}

func copyFile(from, to string) error {
	if from == "" {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// died keeps the claims of a process that has just been killed, which may run on for a while.
func (m *machine) died(l *life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.claims != fmt.Sprintf("claims-%03d.db", l.number) {
		return
	}
	kept := fmt.Sprintf("claims-%03d.of", l.number)
	if err := copyFile(m.claims, kept); err != nil {
		panic(err)
	}
	m.claims = kept
}

// follow reads the log as a group. The store has the rows of what it reads at once, and commits them later. Rows that
// were not committed may be gone after a power cut.
func (m *machine) follow(ctx context.Context, l *life, name string,
	assigned func(map[stream.Partition]stream.Commit)) error {
	commits := make(map[stream.Partition]stream.Commit)
	group, err := stream.NewGroup(l.stream,
		stream.GroupConfig{Name: name, Topics: stream.ReadBy(name), Assigned: assigned})
	if err != nil {
		return err
	}
	defer group.Close()
	for ctx.Err() == nil {
		until, cancel := context.WithTimeout(ctx, time.Second)
		for until.Err() == nil {
			err = group.Poll(until, func(p stream.Partition, records []*stream.Record) {
				if name == stream.StoreGroup {
					m.add(p, records)
				}
				last := records[len(records)-1]
				commits[p] = stream.Commit{Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}
			})
			if err != nil && until.Err() == nil {
				cancel()
				return err
			}
		}
		cancel()
		if len(commits) == 0 {
			continue
		}
		if err := group.Commit(ctx, commits); err == nil { // else the next one has them, too
			clear(commits)
		}
	}
	return nil
}

// resume forgets the rows that a power cut may have taken, because the group reads their records again.
func (m *machine) resume(from map[stream.Partition]stream.Commit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.w.store.clear()
	for p, commit := range from {
		kept := m.rows[p]
		for len(kept) > 0 && kept[len(kept)-1].Offset >= commit.Offset {
			kept = kept[:len(kept)-1]
		}
		m.rows[p] = kept
		for _, r := range kept {
			if err := m.w.store.add(p, r); err != nil {
				panic(err)
			}
		}
		m.w.store.readTo(p, commit.Offset)
	}
}

func (m *machine) add(p stream.Partition, records []*stream.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range records {
		m.rows[p] = append(m.rows[p], r)
		if err := m.w.store.add(p, r); err != nil {
			panic(err)
		}
	}
}

// has looks for an event in the log, and then in the store, as the reader of the real one does.
func (m *machine) has(l *life) func(context.Context, string, id.ID) (bool, error) {
	return func(ctx context.Context, _ string, e id.ID) (found bool, err error) {
		reader, err := stream.NewReader(l.stream, "has")
		if err != nil {
			return false, err
		}
		defer reader.Close()
		p := stream.Partition{Topic: stream.Events, Index: e.Partition()}
		starts, err := reader.OffsetsForTime(ctx, stream.Events, e.Time())
		if err != nil {
			return false, err
		}
		ends, err := reader.AcknowledgedEnds(ctx, stream.Events)
		if err != nil {
			return false, err
		}
		if starts[p] < ends[p] {
			last := e.Time().Add(fence.LateAppend)
			err = reader.Read(ctx, p, starts[p], func(r *stream.Record) error {
				found = event.RecordID(r) == e.Text(id.Event) && r.Offset < ends[p]
				if found || r.Offset >= ends[p]-1 || r.Timestamp.After(last) {
					return stream.ErrStop
				}
				return nil
			})
		}
		if err != nil || found {
			return found, err
		}
		m.w.store.mu.Lock()
		defer m.w.store.mu.Unlock()
		return m.w.store.events[e] != nil, nil
	}
}

// fileClaims are the claims of a process.
type fileClaims struct {
	*claims.Store
	l *life
}

// enter lets the disk take its time, and reports whether the process lives.
func (c fileClaims) enter() bool {
	c.l.node.gate()
	mount{}.takes(c.l.node.w.latency())
	return !c.l.dead.Load()
}

// Claim implements claim.Store.
func (c fileClaims) Claim(ctx context.Context, key string, e id.ID, note string, lasts time.Duration) claim.Claim {
	if !c.enter() {
		return claim.Claim{}
	}
	held := c.Store.Claim(ctx, key, e, note, lasts)
	if !c.enter() {
		return claim.Claim{}
	}
	return held
}

// MarkStored implements claim.Store.
func (c fileClaims) MarkStored(ctx context.Context, key string, e id.ID, note string, window time.Duration) error {
	if !c.enter() {
		return errCut
	}
	err := c.Store.MarkStored(ctx, key, e, note, window)
	if !c.enter() {
		return errCut
	}
	return err
}

// Release implements claim.Store.
func (c fileClaims) Release(ctx context.Context, key string, e id.ID) {
	if c.enter() {
		c.Store.Release(ctx, key, e)
		c.enter()
	}
}

// limiterStore is what the API reads and writes in Redis, with the claims where they are.
type limiterStore struct {
	claim.Store
	held *limit.Limiter
}

func (s limiterStore) HeldUntil(ctx context.Context, dests []string) map[string]time.Time {
	return s.held.HeldUntil(ctx, dests)
}

func (s limiterStore) SourceStatus(ctx context.Context, endpoint string) string {
	return s.held.SourceStatus(ctx, endpoint)
}

// machineFaults are those of a machine, beside those of faults that need no other node or engine. A process that ends
// is soon started again.
var machineFaults = append([]fault{
	{"kill", true, func(w *World) func() { return w.endAtOperation("the process", w.machine.disk.keepCache) }},
	{"power cut", true, func(w *World) func() { return w.endAtOperation("the power", w.machine.disk.forget) }},
	{"power cut", true, func(w *World) func() { return w.endAtOperation("the power", w.machine.disk.forget) }},
	{"stop", true, func(w *World) func() {
		w.nodes[0].Stop()
		return w.startSoon()
	}},
	{"pause", true, func(w *World) func() {
		w.nodes[0].Pause()
		time.Sleep(w.between(time.Millisecond, time.Minute))
		w.nodes[0].resume()
		return nil
	}},
	{"failed sync", true, func(w *World) func() {
		return w.onDisk("a sync will fail", func(d *disk) { d.failSync = true }, func(d *disk) { d.failSync = false })
	}},
	{"full disk", false, func(w *World) func() {
		room := w.intn(32 << 10)
		return w.onDisk(fmt.Sprint("the disk has room for ", room, " bytes"),
			func(d *disk) { d.full, d.room = true, room }, func(d *disk) { d.full = false })
	}},
	{"slow disk", false, func(w *World) func() {
		by := w.between(10*time.Millisecond, 8*time.Second)
		return w.onDisk(fmt.Sprint("a sync takes up to ", by),
			func(d *disk) { d.slow = by }, func(d *disk) { d.slow = 0 })
	}},
}, faultsOf("clock", "destination down")...)

func faultsOf(names ...string) (all []fault) {
	for _, f := range faults {
		if slices.Contains(names, f.name) {
			all = append(all, f)
		}
	}
	return all
}

// endAtOperation ends the process at one of its next operations of the disk, and once more while it starts, sometimes.
func (w *World) endAtOperation(what string, after func()) func() {
	for again := true; again; again = w.intn(4) == 0 {
		n, operations := w.nodes[0], 1+w.intn(40)
		ended := make(chan struct{})
		kill := func(d *disk, l *life) {
			for _, l := range []*life{l, d.holder} { // one may still stop
				if l != nil && !l.dead.Load() {
					l.kill(errKilled)
				}
			}
			after()
		}
		w.onDisk(fmt.Sprintf("%s ends in %d operations of the disk", what, operations), func(d *disk) {
			d.countdown = operations
			d.end = func(l *life) {
				kill(d, l)
				close(ended)
			}
		}, nil)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			w.onDisk(what+" ends now", func(d *disk) {
				if d.countdown > 0 {
					d.countdown = 0
					kill(d, n.current())
				}
			}, nil)
		}
		n.Kill()
		w.startSoon()
	}
	return nil
}

func (w *World) startSoon() func() {
	time.Sleep(w.between(100*time.Millisecond, 5*time.Second))
	w.nodes[0].Start()
	return nil
}

// onDisk changes how the disk works, until the function is called that it returns.
func (w *World) onDisk(what string, begin, end func(*disk)) func() {
	w.trace("%s", what)
	change := func(f func(*disk)) {
		w.machine.disk.mu.Lock()
		defer w.machine.disk.mu.Unlock()
		f(w.machine.disk)
	}
	change(begin)
	return func() { change(end) }
}
