// Package storetest has what the tests of the store's packages share: Bench is a log and a database of a test's own,
// NewProxy makes ClickHouse unreachable by closing its connections, and FaultProxy makes single statements fail. Main
// starts the engines.
package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/kafka"
	"github.com/eventrelay/relay/test/kit"
)

// Account is the account of all entities of a bench, Partitions the number of partitions of each topic.
const (
	Account    = "acc_1"
	Partitions = 4
)

// Engines are the addresses of ClickHouse and Kafka in the test binary; set once by Main.
var Engines struct{ ClickHouse, Kafka string }

// Main runs the tests of a package with an embedded ClickHouse and Kafka, and checks for leaked goroutines.
func Main(m *testing.M) {
	os.Exit(kit.ClickHouse(func(address string) int {
		Engines.ClickHouse = address
		return withKafka(func() int {
			engines := goleak.IgnoreCurrent()
			code := m.Run()
			if err := goleak.Find(engines, kit.FetchManager); err != nil && code == 0 {
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
	Engines.Kafka = server.Addr()
	return run()
}

// Rounds returns the number of repetitions of a test: with -short, normally, or with RELAY_TORTURE.
func Rounds(short, normal, torture int) int {
	switch {
	case os.Getenv("RELAY_TORTURE") != "":
		return torture
	case testing.Short():
		return short
	}
	return normal
}

// CompareIPs lets cmp compare IP addresses and networks.
var CompareIPs = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// CompareBytes makes cmp compare slices of bytes at once. Otherwise it makes a node of its report for each byte. It
// leaves empty ones to cmpopts.EquateEmpty.
var CompareBytes = gocmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, gocmp.Comparer(bytes.Equal))

// Bench is a test bench (not a benchmark): topics and a database of a test's own.
type Bench struct {
	testing.TB
	URL         string
	Stream      stream.Config
	Producer    *stream.Producer
	IDs         *id.Generator
	Logger      *slog.Logger // for writers and readers
	Erased      func(id.ID) bool
	SearchIndex bool // readers use the text index

	mu      sync.Mutex // guards the fields below
	conns   map[string]driver.Conn
	spoiled bool // no other test may use the database
}

// NewBench returns a bench with Partitions partitions per topic.
func NewBench(t testing.TB) *Bench {
	t.Helper()
	return newBench(t, Partitions, false)
}

// NewBenchWithPartitions returns a bench with the given number of partitions per topic.
func NewBenchWithPartitions(t testing.TB, partitions int32) *Bench {
	t.Helper()
	return newBench(t, partitions, false)
}

// NewBenchWithSearchIndex is a bench with the text index. Its granules have two events, so that a wrong answer of the
// index hides an event from a search.
func NewBenchWithSearchIndex(t testing.TB) *Bench {
	t.Helper()
	return newBench(t, Partitions, true)
}

func newBench(t testing.TB, partitions int32, searchIndex bool) *Bench {
	t.Helper()
	d := takeDatabase(t, databaseKind{twoShards: TwoShards(t), searchIndex: searchIndex})
	b := &Bench{
		TB: t, URL: d.url(),
		Stream: stream.Config{
			Brokers: []string{Engines.Kafka}, Prefix: "t" + strings.ToLower(id.Random("")[:16]) + ".", Log: testLog(t)},
		IDs: id.NewGenerator(nil), Logger: testLog(t), SearchIndex: searchIndex, conns: map[string]driver.Conn{},
	}
	t.Cleanup(func() {
		err := d.giveBack(!b.spoiled && !t.Failed())
		for _, conn := range b.conns {
			err = errors.Join(err, conn.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
	if _, err := stream.Migrate(t.Context(), b.Stream, partitions, 1); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.Producer, err = stream.NewProducer(b.Stream, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Producer.Close)
	return b
}

// spoil keeps the bench's database from other tests: it has settings that its definition does not show, or statements
// of this test may arrive after its end.
func (b *Bench) spoil() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spoiled = true
}

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Writer runs a writer until the returned function is called or the test ends.
func (b *Bench) Writer(cfg write.WriterConfig) (*write.Writer, func()) {
	b.Helper()
	return b.WriterWithMetrics(cfg, nil)
}

// WriterWithMetrics is Writer with a registry for metrics.
func (b *Bench) WriterWithMetrics(cfg write.WriterConfig, reg prometheus.Registerer) (*write.Writer, func()) {
	b.Helper()
	return b.WriterWithDeps(cfg, write.WriterDeps{Metrics: reg})
}

// WriterWithDeps is Writer with dependencies of the test; the bench sets Log, Stream, Producer and Erased.
func (b *Bench) WriterWithDeps(cfg write.WriterConfig, deps write.WriterDeps) (*write.Writer, func()) {
	b.Helper()
	if cfg.URL == "" {
		cfg.URL = b.URL
	}
	cfg.FlushEvery = cmp.Or(cfg.FlushEvery, time.Second) // tests that wait for rows without a reader are many
	deps.Log, deps.Stream, deps.Producer, deps.Erased = b.Logger, b.Stream, b.Producer, b.Erased
	w, err := write.NewWriter(cfg, deps)
	if err != nil {
		b.Fatal(err)
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

// Reader returns a reader in the process of a writer, which may be nil.
func (b *Bench) Reader(w store.FlushRequester) *read.Reader {
	b.Helper()
	return b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: retentionDays}, w)
}

// ReaderWith is Reader with a configuration. Waits that it does not set are long, because the machine may be busy.
func (b *Bench) ReaderWith(cfg cluster.Config, w store.FlushRequester) *read.Reader {
	b.Helper()
	cfg.SearchIndex = cfg.SearchIndex || b.SearchIndex
	cfg.FenceWait, cfg.Timeout = cmp.Or(cfg.FenceWait, hangs), cmp.Or(cfg.Timeout, 2*hangs)
	r, err := read.NewReader(cfg, cluster.Deps{Stream: b.Stream, Writer: w, Erased: b.Erased})
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

// Event returns a new event of an endpoint; each change adjusts it.
func (b *Bench) Event(endpoint int, change ...func(*event.Event)) *event.Event {
	b.Helper()
	d, err := b.IDs.New(PartitionOf(endpoint))
	if err != nil {
		b.Fatal(err)
	}
	e := &event.Event{
		ID: d, Account: Account, Endpoint: fmt.Sprintf("ep_%d", endpoint), Source: event.SourceProvider,
		Verdict: event.VerdictVerified,
		Type:    "order.created", Method: "POST", Dests: []string{"dst_a"},
		Header: []event.Field{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(`{"n":1}`),
	}
	for _, f := range change {
		f(e)
	}
	return e
}

// PartitionOf returns the partition of an endpoint.
func PartitionOf(endpoint int) int32 { return int32(endpoint % Partitions) }

// Outcome returns the outcome of a new attempt at an event; each change adjusts it.
func (b *Bench) Outcome(e *event.Event, dest string, status event.Status,
	change ...func(*event.Outcome)) *event.Outcome {
	b.Helper()
	att, err := b.IDs.New(e.ID.Partition())
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	ok := status == event.Delivered
	o := &event.Outcome{
		Event: e.ID, Account: e.Account, Endpoint: e.Endpoint, Dest: dest, Type: e.Type, Status: status, Code: 500, At: now,
		Attempt: &event.Attempt{ID: att, StartedAt: now, Trigger: event.TriggerInitial, OK: ok, Code: 500,
			URL: "https://example.com/h", Method: "POST"},
	}
	if ok {
		o.Code, o.Attempt.Code = 200, 200
	}
	for _, f := range change {
		f(o)
	}
	return o
}

// QuerySum returns the sum over all shards of a number that a statement selects.
func (b *Bench) QuerySum(statement string) (sum uint64) {
	b.Helper()
	b.ForEachShard(func(conn driver.Conn) error {
		var n uint64
		err := conn.QueryRow(b.Context(), statement).Scan(&n)
		sum += n
		return err
	})
	return sum
}

// Exec runs a statement on every shard.
func (b *Bench) Exec(statement string) {
	b.Helper()
	if strings.HasPrefix(statement, "SYSTEM ") {
		b.spoil()
	}
	b.ForEachShard(func(conn driver.Conn) error { return conn.Exec(b.Context(), statement) })
}

// ForEachShard calls f with a connection to every shard.
func (b *Bench) ForEachShard(f func(driver.Conn) error) {
	b.Helper()
	for url := range strings.SplitSeq(b.URL, ",") {
		conn, err := b.conn(url)
		if err == nil {
			err = f(conn)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// conn returns the bench's connection to a database. It is kept, because tests that wait for a condition use it often.
func (b *Bench) conn(url string) (driver.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if conn := b.conns[url]; conn != nil {
		return conn, nil
	}
	opts, err := clickhouse.ParseDSN(url)
	if err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(opts)
	if err == nil {
		b.conns[url] = conn
	}
	return conn, err
}

// RewindOffsets sets the committed offsets of the writer's groups back, as a crash between insert and commit leaves
// them. No writer may run.
func (b *Bench) RewindOffsets(to func(p stream.Partition, committed int64) int64) {
	b.Helper()
	for _, group := range store.Groups() {
		b.rewindGroup(group, to)
	}
}

func (b *Bench) rewindGroup(group string, to func(p stream.Partition, committed int64) int64) {
	b.Helper()
	assigned := make(chan map[stream.Partition]stream.Commit, 1)
	g, err := stream.NewGroup(b.Stream, stream.GroupConfig{
		Name: group, Topics: stream.ReadBy(group), MaxPoll: 1,
		Assigned: func(commits map[stream.Partition]stream.Commit) { assigned <- commits },
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
	commits := <-assigned
	for p, commit := range commits {
		commit.Offset = to(p, commit.Offset)
		commits[p] = commit
	}
	if err := g.Commit(b.Context(), commits); err != nil {
		b.Error(err)
	}
	cancel()
}

// proxy is a TCP proxy between the store and ClickHouse, with which a test makes ClickHouse unreachable.
type proxy struct {
	testing.TB
	Address string

	mu       sync.Mutex // guards listener and open
	listener net.Listener
	open     map[net.Conn]bool
	wg       sync.WaitGroup
}

// NewProxy starts a proxy before ClickHouse, with connections open.
func NewProxy(t testing.TB) *proxy {
	p := &proxy{TB: t, Address: "127.0.0.1:0", open: map[net.Conn]bool{}}
	p.Restore()
	t.Cleanup(p.wg.Wait)
	t.Cleanup(p.Cut)
	return p
}

// URL returns the bench's URL through the proxy.
func (p *proxy) URL(b *Bench) string {
	b.spoil()
	return strings.ReplaceAll(b.URL, Engines.ClickHouse, p.Address)
}

func (p *proxy) Restore() {
	p.Helper()
	l, err := net.Listen("tcp", p.Address)
	if err != nil {
		p.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.Address = l, l.Addr().String()
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := new(net.Dialer).DialContext(context.Background(), "tcp", Engines.ClickHouse)
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

// Cut closes the port and every connection.
func (p *proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener.Close()
	for c := range p.open {
		c.Close()
	}
	clear(p.open)
}

// Produce produces records to a partition of a topic and waits for them.
func (b *Bench) Produce(topic string, partition int32, records ...*stream.Record) {
	b.Helper()
	for _, r := range records {
		b.Producer.Produce(topic, partition, r, func(_ *stream.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := b.Producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// ProduceEvents produces events, each to the partition of its id.
func (b *Bench) ProduceEvents(es ...*event.Event) {
	b.Helper()
	for _, e := range es {
		b.Produce(stream.Events, e.ID.Partition(), e.Record())
	}
}

// ProduceOutcomes produces outcomes, each to the partition of its event.
func (b *Bench) ProduceOutcomes(os ...*event.Outcome) {
	b.Helper()
	for _, o := range os {
		b.Produce(stream.Outcomes, o.Event.Partition(), o.Record())
	}
}
