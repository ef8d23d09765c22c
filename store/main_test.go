package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/eventrelay/relay/pkg/embedded/kafka"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/test/kit"
)

const (
	account    = "acc_1"
	partitions = 4
)

// engines are the addresses of the two engines of the test binary; set once by TestMain.
var engines struct{ clickhouse, kafka string }

func TestMain(m *testing.M) {
	os.Exit(kit.ClickHouse(func(address string) int {
		engines.clickhouse = address
		return withKafka(func() int {
			engines := goleak.IgnoreCurrent()
			code := m.Run()
			if err := goleak.Find(engines); err != nil && code == 0 {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return code
		})
	}))
}

func withKafka(run func() int) int {
	dir, err := os.MkdirTemp("", "relay-store-kafka")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	cfg := kafka.DefaultConfig()
	cfg.DataDir, cfg.Fsync = dir, false
	server, err := kafka.New(cfg, kafka.Deps{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Run(ctx); err != nil {
			panic(err)
		}
	})
	defer wg.Wait()
	defer stop()
	<-server.Ready()
	engines.kafka = server.Addr()
	return run()
}

// rounds is how often a test does something, by how thorough it is meant to be.
func rounds(short, normal, torture int) int {
	switch {
	case os.Getenv("RELAY_TORTURE") != "":
		return torture
	case testing.Short():
		return short
	}
	return normal
}

// testSeed is that of a test of chance: RELAY_SEED, or a new one, which is printed.
func testSeed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RELAY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("RELAY_SEED: %v", err)
		}
	}
	t.Logf("RELAY_SEED=%d", seed)
	return seed
}

// ipComparer lets cmp compare addresses.
var ipComparer = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// bench is a log and a database of a test's own.
type bench struct {
	testing.TB
	url      string
	stream   stream.Config
	producer *stream.Producer
	ids      *id.Generator
	log      *slog.Logger // of writers and readers
	erased   func(id.ID) bool
	indexed  bool // its readers use the text index
	before   bool // its writers are of a version that left nominees to views
}

func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchOf(t, partitions)
}

func newBenchOf(t testing.TB, partitions int32) *bench {
	t.Helper()
	name := "t" + strings.ToLower(id.Random("")[:16])
	b := &bench{
		TB: t, url: urlOf(t, name),
		stream: stream.Config{Brokers: []string{engines.kafka}, Prefix: name + ".", Log: testLog(t)},
		ids:    id.NewGenerator(nil), log: testLog(t),
	}
	if _, err := stream.Migrate(t.Context(), b.stream, partitions, 1); err != nil {
		t.Fatal(err)
	}
	if err := store.Migrate(t.Context(), b.url, 30); err != nil {
		t.Fatal(err)
	}
	url := b.url // a test may change it
	t.Cleanup(func() { b.drop(url) })
	var err error
	if b.producer, err = stream.NewProducer(b.stream, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.producer.Close)
	return b
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// writer runs a writer until the returned function is called or the test ends.
func (b *bench) writer(cfg store.WriterConfig) (*store.Writer, func()) {
	b.Helper()
	return b.writerOf(cfg, nil)
}

func (b *bench) writerOf(cfg store.WriterConfig, reg prometheus.Registerer) (*store.Writer, func()) {
	b.Helper()
	return b.writerWith(cfg, store.WriterDeps{Metrics: reg})
}

// writerWith runs a writer with the surroundings that a test cares about, the rest being the bench's.
func (b *bench) writerWith(cfg store.WriterConfig, deps store.WriterDeps) (*store.Writer, func()) {
	b.Helper()
	if cfg.URL == "" {
		cfg.URL = b.url
	}
	deps.Log, deps.Stream, deps.Producer, deps.Erased = b.log, b.stream, b.producer, b.erased
	w, err := store.NewWriter(cfg, deps)
	if err != nil {
		b.Fatal(err)
	}
	if b.before {
		w.LeaveToViews()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	stop := func() { cancel(); wg.Wait() }
	b.Cleanup(stop)
	return w, stop
}

func (b *bench) reader(w store.Kicker) *store.Reader {
	b.Helper()
	// The wait is long because the machine may be busy; what a short one does is tested by itself.
	return b.readerOf(store.ReaderConfig{URL: b.url, RetentionDays: 30, FenceWait: 20 * time.Second, Timeout: time.Minute}, w)
}

func (b *bench) readerOf(cfg store.ReaderConfig, w store.Kicker) *store.Reader {
	b.Helper()
	cfg.SearchIndex = cfg.SearchIndex || b.indexed
	r, err := store.NewReader(cfg, store.ReaderDeps{Log: b.log, Stream: b.stream, Writer: w, Erased: b.erased})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	return r
}

// event makes an event of an endpoint; change may adjust it.
func (b *bench) event(endpoint int, change ...func(*event.Event)) *event.Event {
	b.Helper()
	d, err := b.ids.New(partitionOf(endpoint))
	if err != nil {
		b.Fatal(err)
	}
	e := &event.Event{
		ID: d, Account: account, Endpoint: fmt.Sprintf("ep_%d", endpoint), Source: event.SourceProvider, Verdict: event.VerdictVerified,
		Type: "order.created", Method: "POST", Dests: []string{"dst_a"},
		Header: []event.Field{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(`{"n":1}`),
	}
	for _, f := range change {
		f(e)
	}
	return e
}

func partitionOf(endpoint int) int32 { return int32(endpoint % partitions) }

// outcome is the end of an attempt at an event.
func (b *bench) outcome(e *event.Event, dest string, status event.Status, change ...func(*event.Outcome)) *event.Outcome {
	b.Helper()
	att, err := b.ids.New(e.ID.Partition())
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	ok := status == event.Delivered
	o := &event.Outcome{
		Event: e.ID, Account: e.Account, Endpoint: e.Endpoint, Dest: dest, Type: e.Type, Status: status, Code: 500, At: now,
		Attempt: &event.Attempt{ID: att, StartedAt: now, Trigger: event.TriggerInitial, OK: ok, Code: 500, URL: "https://example.com/h", Method: "POST"},
	}
	if ok {
		o.Code, o.Attempt.Code = 200, 200
	}
	for _, f := range change {
		f(o)
	}
	return o
}

// query asks ClickHouse for one number, the sum of those of all shards.
func (b *bench) query(statement string) (sum uint64) {
	b.Helper()
	b.sql(func(conn driver.Conn) error {
		var n uint64
		err := conn.QueryRow(b.Context(), statement).Scan(&n)
		sum += n
		return err
	})
	return sum
}

func (b *bench) exec(statement string) {
	b.Helper()
	b.sql(func(conn driver.Conn) error { return conn.Exec(b.Context(), statement) })
}

func (b *bench) sql(f func(driver.Conn) error) {
	b.Helper()
	for url := range strings.SplitSeq(b.url, ",") {
		opts, err := clickhouse.ParseDSN(url)
		if err != nil {
			b.Fatal(err)
		}
		conn, err := clickhouse.Open(opts)
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(f(conn), conn.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// drop takes databases away when their test ends: a hundred that wait beside each other cost a fifth of a core, and make
// each new one dearer.
func (b *bench) drop(urls string) {
	for url := range strings.SplitSeq(urls, ",") {
		on := *b
		on.url = url
		on.sql(func(conn driver.Conn) error {
			return conn.Exec(context.Background(), "DROP DATABASE IF EXISTS "+on.database())
		})
	}
}

// rewind sets the committed offsets of the writer's group back, as a crash between insert and commit
// leaves them. No writer may run.
func (b *bench) rewind(to func(p stream.Partition, committed int64) int64) {
	b.Helper()
	assigned := make(chan map[stream.Partition]stream.Mark, 1)
	g, err := stream.NewGroup(b.stream, stream.GroupConfig{
		Name: store.Group, Topics: store.Topics(), MaxPoll: 1,
		Assigned: func(marks map[stream.Partition]stream.Mark) { assigned <- marks },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = g.Poll(ctx, func(stream.Partition, []*stream.Record) {})
		}
	})
	marks := <-assigned
	for p, m := range marks {
		m.Offset = to(p, m.Offset)
		marks[p] = m
	}
	if err := g.Commit(b.Context(), marks); err != nil {
		b.Error(err)
	}
	cancel()
}

// proxy stands between the store and ClickHouse, so that a test can take ClickHouse away.
type proxy struct {
	testing.TB
	address string

	mu       sync.Mutex // guards listener and open
	listener net.Listener
	open     map[net.Conn]bool
	wg       sync.WaitGroup
}

func newProxy(t testing.TB) *proxy {
	p := &proxy{TB: t, address: "127.0.0.1:0", open: map[net.Conn]bool{}}
	p.up()
	t.Cleanup(p.wg.Wait)
	t.Cleanup(p.down)
	return p
}

// url is that of the bench's database behind the proxy.
func (p *proxy) url(b *bench) string { return strings.ReplaceAll(b.url, engines.clickhouse, p.address) }

func (p *proxy) up() {
	p.Helper()
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		p.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.address = l, l.Addr().String()
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", engines.clickhouse)
			if err != nil {
				p.Error(err)
				return
			}
			p.mu.Lock()
			p.open[from], p.open[to] = true, true
			p.mu.Unlock()
			p.wg.Go(func() { p.copy(to, from) })
			p.wg.Go(func() { p.copy(from, to) })
		}
	})
}

func (p *proxy) copy(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}

// down closes the port and every connection.
func (p *proxy) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener.Close()
	for c := range p.open {
		c.Close()
	}
	clear(p.open)
}

// put produces records to a topic, each into the partition of its event, and waits for them.
func (b *bench) put(topic string, partition int32, records ...*stream.Record) {
	b.Helper()
	for _, r := range records {
		b.producer.Produce(topic, partition, r, func(_ *stream.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := b.producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) accept(es ...*event.Event) {
	b.Helper()
	for _, e := range es {
		b.put(stream.Events, e.ID.Partition(), e.Record())
	}
}

func (b *bench) record(os ...*event.Outcome) {
	b.Helper()
	for _, o := range os {
		b.put(stream.Outcomes, o.Event.Partition(), o.Record())
	}
}
