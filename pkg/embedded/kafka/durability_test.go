package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// An acknowledgement of a durable topic waits for the sync of its own partition's file. Meanwhile the record can be
// read, other topics are acknowledged, and fetches continue.
func TestAckWaitsForSync(t *testing.T) {
	hold := newHeldSync("relay.events-0")
	s := serve(t, testConfig(t), hold.install)
	createTopics(t, s.Addr(), 2, nil, "relay.events", "relay.retry.1s")
	cl := client(t, s.Addr(), kgo.ConsumeTopics("relay.events", "relay.retry.1s"))

	hold.close()
	defer hold.open()
	acked := make(chan error, 1)
	cl.Produce(t.Context(), &kgo.Record{Topic: "relay.events", Value: []byte("held")}, func(_ *kgo.Record, err error) {
		acked <- err
	})
	if got := consume(t, cl, 1); string(got[0].Value) != "held" {
		t.Fatalf("consumed %q", got[0].Value)
	}
	<-hold.entered
	// A connection answers in order, so this request needs another one.
	produce(t, client(t, s.Addr()), "relay.retry.1s", 0, []byte("lazy"))
	consume(t, cl, 1)
	select {
	case err := <-acked:
		t.Fatalf("acknowledged (%v) before the sync returned", err)
	default:
	}
	hold.open()
	must.Do(t, <-acked)
}

// Records that arrive while a barrier runs share the next one.
func TestGroupCommit(t *testing.T) {
	var syncs atomic.Int64
	hold := newHeldSync("relay.events-0")
	s := serve(t, testConfig(t), hold.install, func(s *Server) {
		next := s.disk.syncFile
		s.disk.syncFile = func(path string) error { syncs.Add(1); return next(path) }
	})
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	first := client(t, s.Addr())
	hold.close()
	defer hold.open()
	syncs.Store(0)

	const producers = 50
	var wg sync.WaitGroup
	wg.Go(func() { produce(t, first, "relay.events", 0, []byte("first")) })
	<-hold.entered
	// Each has a connection of its own, so the broker reads all requests although none is answered.
	for i := range producers {
		cl := client(t, s.Addr())
		wg.Go(func() { produce(t, cl, "relay.events", 0, fmt.Appendf(nil, "%d", i)) })
	}
	kit.WaitFor(t, "all records written", func() bool { return endOf(t, first, "relay.events", 0) == producers+1 })
	hold.open()
	wg.Wait()
	// One round for the first record and one for the others, or two if some answers were already
	// written when it began.
	if n := syncs.Load(); n > 3 {
		t.Errorf("%d syncs for %d records", n, producers+1)
	}
}

// The first sync error ends the broker; neither the record that waited nor a later one is acknowledged.
func TestSyncErrorIsFinal(t *testing.T) {
	broken := errors.New("input/output error")
	var fail atomic.Bool
	s := serve(t, testConfig(t), func(s *Server) {
		s.disk.syncFile = func(path string) error {
			if fail.Load() {
				return broken
			}
			return fdatasync(path)
		}
	})
	createTopics(t, s.Addr(), 1, nil, "relay.events", "relay.outcomes")
	cl := client(t, s.Addr())
	produce(t, cl, "relay.events", 0, []byte("good"))
	fail.Store(true)
	results := make(chan error, 2)
	send := func(value string) {
		r := &kgo.Record{Topic: "relay.events", Value: []byte(value)}
		cl.Produce(context.Background(), r, func(_ *kgo.Record, err error) { results <- err })
	}
	send("waits when the sync fails")
	err := s.wait()
	fail.Store(false)
	send("late")
	if !errors.Is(err, broken) {
		t.Errorf("Run returned %v", err)
	}
	cl.Close() // kgo would wait for ever for the answer
	for range 2 {
		if err := <-results; err == nil {
			t.Error("acknowledged after a sync error")
		}
	}
}

// An offset commit reaches the broker only after the records before it are synced: acknowledged ones of other topics,
// and unacknowledged ones of durable topics that a consumer could read.
func TestCommitWaitsForRecords(t *testing.T) {
	for _, topic := range []string{"relay.outcomes", "relay.events"} {
		t.Run(topic, func(t *testing.T) {
			hold := newHeldSync(topic + "-0")
			s := serve(t, testConfig(t), hold.install)
			createTopics(t, s.Addr(), 1, nil, topic)
			cl := client(t, s.Addr(), kgo.ConsumeTopics(topic))
			hold.close()
			defer hold.open()
			acked := make(chan error, 1)
			cl.Produce(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}, func(_ *kgo.Record, err error) {
				acked <- err
			})
			consume(t, cl, 1)
			if !stream.DurableTopic(topic) { // a commit need not wait for it before it is acknowledged
				must.Do(t, <-acked)
			}
			var wg sync.WaitGroup
			wg.Go(func() { commit(t, client(t, s.Addr()), "dispatch", topic, 0, 1, "") })
			<-hold.entered
			for range 100 { // time for a commit that wrongly does not wait
				offsets, err := kadm.NewClient(cl).FetchOffsets(t.Context(), "dispatch")
				if _, committed := offsets.Lookup(topic, 0); err == nil && committed {
					t.Fatal("the offset is committed before the record is synced")
				}
			}
			hold.open()
			wg.Wait()
			checkCommitted(t, cl, "dispatch", topic, 0, 1, "")
		})
	}
}

// A stop sends the answers that wait for a sync before it ends.
func TestStopFinishesHeldAnswers(t *testing.T) {
	hold := newHeldSync("relay.events-0")
	s := serve(t, testConfig(t), hold.install)
	createTopics(t, s.Addr(), 1, nil, "relay.events")
	cl := client(t, s.Addr(), kgo.RecordRetries(0))
	hold.close()
	defer hold.open()
	acked := make(chan error, 1)
	cl.Produce(t.Context(), &kgo.Record{Topic: "relay.events", Value: []byte("x")}, func(_ *kgo.Record, err error) {
		acked <- err
	})
	<-hold.entered
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.stop(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	kit.WaitFor(t, "listener closed", func() bool { return !dials(s.Addr()) })
	hold.open()
	if err := <-acked; err != nil {
		t.Errorf("the held record was not acknowledged: %v", err)
	}
	wg.Wait()
}

// Power fails at a random moment: of every file only what it held when its last sync began remains, of every directory
// only the names that it had then. Every acknowledged record is still there, also across segments, and no committed
// offset is beyond the end of a log.
func TestPowerLoss(t *testing.T) {
	cfg := testConfig(t)
	power := &powerLog{root: cfg.DataDir, sizes: map[string]int64{}, names: map[string][]string{}}
	s := serve(t, cfg, power.install)
	roll := "20000" // bytes: a new segment every few batches
	createTopics(t, s.Addr(), 2, map[string]*string{"segment.bytes": &roll}, "relay.events", "relay.outcomes")

	ctx, cancel := context.WithCancel(t.Context())
	var acked, committed sync.Map // record → value, group and partition → offset
	var n atomic.Int64
	var wg sync.WaitGroup
	for producer := range 8 {
		cl := client(t, s.Addr())
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				p, value := int32(i%2), fmt.Sprintf("%d-%d-%s", producer, i, strings.Repeat("x", 500))
				r := produce(t, cl, "relay.events", p, []byte(value))
				acked.Store(record{r.Topic, p, r.Offset}, value)
				n.Add(1)
				o := produce(t, cl, "relay.outcomes", p, []byte(value))
				if i%5 > 1 {
					continue
				}
				// The end includes records of other producers that were not acknowledged yet.
				end := endOf(t, cl, "relay.events", p)
				commit(t, cl, "dispatch", "relay.events", p, end, "")
				group := fmt.Sprint("store-", producer)
				commit(t, cl, group, "relay.outcomes", p, o.Offset+1, "")
				committed.Store(record{group, p, 0}, o.Offset+1)
			}
		})
	}
	for _, stage := range []int64{200, 700, 1500} {
		kit.WaitFor(t, "enough records", func() bool { return n.Load() >= stage })
		records, commits := copyOf[string](&acked), copyOf[int64](&committed)
		checkImage(t, power.image(t), records, commits)
	}
	cancel()
	wg.Wait()
}

// Power fails right after a record of each topic was acknowledged. Records of durable topics are there; others need not
// be.
func TestPowerLossByTopic(t *testing.T) {
	cfg := testConfig(t)
	power := &powerLog{root: cfg.DataDir, sizes: map[string]int64{}, names: map[string][]string{}}
	s := serve(t, cfg, power.install)
	var names []string
	for _, topic := range stream.Topics() {
		names = append(names, "relay."+topic.Name)
	}
	createTopics(t, s.Addr(), 1, nil, names...)
	cl := client(t, s.Addr())
	for _, name := range names {
		produce(t, cl, name, 0, []byte("x"))
	}
	after := serve(t, Config{Listen: "127.0.0.1:0", DataDir: power.image(t), MaxMessageBytes: 1 << 20})
	reader := client(t, after.Addr())
	for _, topic := range stream.Topics() {
		if found := endOf(t, reader, "relay."+topic.Name, 0) == 1; found != topic.Durable {
			t.Errorf("%s, durable %v: the acknowledged record is there after the power cut: %v", topic.Name,
				topic.Durable, found)
		}
	}
}

// The outbox of the configuration log deletes an entry, by a record of the topic control, when the topic audit has
// acknowledged it. Whenever the power fails after that, the entry is in one of the two.
func TestAuditEntrySurvivesPowerLoss(t *testing.T) {
	cfg := testConfig(t)
	power := &powerLog{root: cfg.DataDir, sizes: map[string]int64{}, names: map[string][]string{}}
	s := serve(t, cfg, power.install)
	audit, control := "relay."+stream.AuditLog, "relay."+stream.Control
	createTopics(t, s.Addr(), 1, nil, audit, control)
	cl := client(t, s.Addr())
	produce(t, cl, control, 0, []byte("a change and its entry"))
	produce(t, cl, audit, 0, []byte("the entry"))
	produce(t, cl, control, 0, []byte("the entry is deleted"))
	after := serve(t, Config{Listen: "127.0.0.1:0", DataDir: power.image(t), MaxMessageBytes: 1 << 20})
	reader := client(t, after.Addr())
	if deleted := endOf(t, reader, control, 0) == 2; !deleted || endOf(t, reader, audit, 0) != 1 {
		t.Errorf("deleted from the outbox: %v; audit has %d entries, want 1", deleted, endOf(t, reader, audit, 0))
	}
}

type record struct {
	topic     string
	partition int32
	offset    int64
}

func copyOf[V any](m *sync.Map) map[record]V {
	c := map[record]V{}
	m.Range(func(k, v any) bool { c[k.(record)] = v.(V); return true })
	return c
}

// checkImage starts a broker on dir and checks the records and the committed offsets.
func checkImage(t *testing.T, dir string, want map[record]string, commits map[record]int64) {
	t.Helper()
	s := serve(t, Config{Listen: "127.0.0.1:0", DataDir: dir, MaxMessageBytes: 1 << 20})
	cl := client(t, s.Addr(), kgo.ConsumeTopics("relay.events"))
	total := endOf(t, cl, "relay.events", 0) + endOf(t, cl, "relay.events", 1)
	got := map[record]string{}
	for _, r := range consume(t, cl, int(total)) {
		got[record{r.Topic, r.Partition, r.Offset}] = string(r.Value)
	}
	lost := 0
	for at, value := range want {
		if got[at] != value {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged records are lost", lost, len(want))
	}
	adm := kadm.NewClient(cl)
	for _, offsets := range adm.FetchManyOffsets(t.Context(), groupsOf(commits)...) {
		offsets.Fetched.Each(func(o kadm.OffsetResponse) {
			if end := endOf(t, cl, o.Topic, o.Partition); o.At > end {
				t.Errorf("group %s committed %d of %s-%d, which ends at %d", offsets.Group, o.At, o.Topic, o.Partition, end)
			}
			if least := commits[record{offsets.Group, o.Partition, 0}]; o.At < least {
				t.Errorf("group %s has %d of %s-%d, after %d was acknowledged", offsets.Group, o.At, o.Topic, o.Partition, least)
			}
			delete(commits, record{offsets.Group, o.Partition, 0})
		})
	}
	if len(commits) > 0 {
		t.Errorf("commits are lost: %v", commits)
	}
	must.Do(t, s.stop())
}

func groupsOf(commits map[record]int64) []string {
	groups := []string{"dispatch"}
	for k := range commits {
		groups = append(groups, k.topic)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// powerLog records what the syncs of a broker made durable.
type powerLog struct {
	root  string
	mu    sync.Mutex // guards the maps, keyed by path
	sizes map[string]int64
	names map[string][]string
}

func (l *powerLog) install(s *Server) {
	s.disk.syncFile = func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sizes[path] = max(l.sizes[path], info.Size())
		return nil
	}
	s.disk.syncDir = func(path string) error {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.names[path] = names
		return nil
	}
}

// image creates the data directory that the disk would contain now. JSON files are whole: kfake syncs them before it
// renames them.
func (l *powerLog) image(t *testing.T) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	to := t.TempDir()
	var copyDir func(from, to string)
	copyDir = func(from, to string) {
		for _, name := range l.names[from] {
			src, dst := filepath.Join(from, name), filepath.Join(to, name)
			info, err := os.Stat(src)
			switch {
			case err != nil: // a temporary file that is gone
			case info.IsDir():
				must.Do(t, os.Mkdir(dst, 0o755))
				copyDir(src, dst)
			case strings.HasSuffix(name, ".json"):
				copyFile(t, src, dst, info.Size())
			default:
				copyFile(t, src, dst, l.sizes[src])
			}
		}
	}
	copyDir(l.root, to)
	return to
}

func copyFile(t *testing.T, from, to string, size int64) {
	t.Helper()
	src := must.Get(os.Open(from))(t)
	defer src.Close()
	dst := must.Get(os.Create(to))(t)
	must.Get(io.CopyN(dst, src, size))(t)
	must.Do(t, dst.Close())
}

// heldSync blocks the syncs of one partition's files.
type heldSync struct {
	partition string
	entered   chan struct{} // receives a value when a sync waits
	mu        sync.Mutex    // guards gate
	gate      chan struct{} // closed: syncs pass
}

func newHeldSync(partition string) *heldSync {
	h := &heldSync{partition: partition, entered: make(chan struct{}, 1), gate: make(chan struct{})}
	close(h.gate)
	return h
}

func (h *heldSync) install(s *Server) {
	next := s.disk.syncFile
	s.disk.syncFile = func(path string) error {
		if filepath.Base(filepath.Dir(path)) == h.partition {
			h.mu.Lock()
			gate := h.gate
			h.mu.Unlock()
			select {
			case <-gate:
			default:
				select {
				case h.entered <- struct{}{}:
				default:
				}
				<-gate
			}
		}
		return next(path)
	}
}

func (h *heldSync) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate = make(chan struct{})
}

func (h *heldSync) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.gate:
	default:
		close(h.gate)
	}
}
