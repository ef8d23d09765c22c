// Package write copies the log into ClickHouse, counts usage, and takes out of ClickHouse what was erased or has
// expired.
//
// Writer.Run has five goroutines; the first three end one after the other:
//
//	poll        fetches records and decodes them into the batch that is being filled
//	flushLoop   takes that batch when it is due and inserts it: one insert per table and shard
//	commitLoop  commits the offsets of what was inserted, behind Sync if there is one
//	watchParts  looks how many parts the tables have; while ClickHouse is behind with merging, batches grow
//	drain       after a stop gives flushLoop and commitLoop the time of Drain, then cuts them off
//
// Back-pressure: one batch is flushed while another is filled. Is that one full (FlushRows or FlushBytes), poll waits
// for room, which comes when flushLoop takes it. So at most two batches are in memory however long ClickHouse is away;
// what was not fetched stays in the log. A rebalance waits for a running flush for 5 s, then leaves its rows to the
// next owner.
//
// An Eraser and an Expirer run beside it; they read the store and the configuration, never the log.
package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/internal/ch"
)

// WriterDeps are what a Writer uses of its surroundings.
type WriterDeps struct {
	Log      *slog.Logger
	Stream   stream.Config
	Producer *stream.Producer      // for the topic dead
	Metrics  prometheus.Registerer // nil = none
	// InstanceID is this node's static membership; empty = dynamic, which the embedded engine needs.
	InstanceID string
	// Sync makes everything that was inserted durable. Nil: it is when the insert is answered. With it offsets are
	// committed once a second, behind it; an error of it ends Run.
	Sync func() error
	// Erased says whether the payload of an event was erased: its rows are written without it. Nil: none was.
	Erased func(id.ID) bool
}

// Writer copies the log into ClickHouse.
type Writer struct {
	cfg     WriterConfig
	deps    WriterDeps
	log     *slog.Logger
	metrics *writerMetrics
	shards  []*shard
	pos     *positions
	crowd   crowd

	// Set by Run before it starts anything, with the connections of the shards.
	group     *stream.Group
	connected chan struct{} // closed when they are set

	committing chan struct{} // 1: held from taking offsets to having committed them; guards unsafe
	unsafe     error         // the disk failed

	mu      sync.Mutex // guards filling and kicked
	filling *batch
	kicked  bool

	wake chan struct{} // 1: the flusher looks whether a flush is due
	room chan struct{} // 1: the batch was taken, the poller may go on
	soon chan struct{} // 1: a reader waits for records that were not read yet
	busy chan struct{} // 1: held while a flush runs
}

// shard is one of those that the rows are spread over.
type shard struct {
	number int
	conn   driver.Conn // set by Run before it starts anything
	tables tables
	dirty  *dirtyHours
	// counting is held while hours are counted.
	counting sync.Mutex
	known    bool // it is the shard that its address is meant to be; for flush alone
}

type tables struct {
	events     *table[*eventRow]
	deliveries *table[*deliveryRow]
	attempts   *table[*deliveryRow]
	receipts   *table[*receiptRow]
	audit      *table[*auditRow]
	candidates []candidateTable
}

func newTables() tables {
	return tables{eventsTable(), deliveriesTable(), attemptsTable(), receiptsTable(), auditTable(), candidateTables()}
}

// maxFetchWait bounds how long the first fetch after an assignment keeps partitions waiting whose offsets
// were known a moment later: until it is over nothing of them is read.
const maxFetchWait = 250 * time.Millisecond

// maxPoll bounds the records that one poll adds to a batch that was nearly full, maxFetch the bytes that one
// fetch brings of a partition: the embedded broker does nothing else while it gathers them.
const (
	maxPoll  = 5_000
	maxFetch = 512 << 10
)

// NewWriter checks the configuration. It connects to nothing.
func NewWriter(cfg WriterConfig, deps WriterDeps) (*Writer, error) {
	cfg = cfg.withDefaults()
	urls, err := ch.ParseURLs(cfg.URL)
	if err := errors.Join(err, deps.Stream.Validate()); err != nil {
		return nil, err
	}
	if deps.Producer == nil {
		return nil, errors.New("store: writer without a producer for the topic dead")
	}
	var shards []*shard
	for i := range urls {
		shards = append(shards, &shard{number: i + 1, tables: newTables(), dirty: newDirtyHours()})
	}
	return &Writer{
		cfg: cfg, deps: deps, log: deps.Log, metrics: newWriterMetrics(deps.Metrics),
		shards:  shards,
		pos:     newPositions(),
		filling: newBatch(), connected: make(chan struct{}),
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), soon: make(chan struct{}, 1),
		busy:       make(chan struct{}, 1),
		committing: make(chan struct{}, 1),
	}, nil
}

// Run reads and writes until ctx ends; then it writes what it holds, for at most Config.Drain, commits
// and leaves the group. ClickHouse need not be there.
func (w *Writer) Run(ctx context.Context) (err error) {
	if err := w.connect(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.disconnect()) }()
	defer w.group.Close()

	// work outlives ctx by the drain time, so that a stop does not tear an insert apart.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	polled, flushed, committed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(polled)
		return w.poll(gctx)
	})
	g.Go(func() error {
		defer close(flushed)
		return w.flushLoop(work, polled)
	})
	g.Go(func() error {
		defer close(committed)
		return w.commitLoop(work, flushed)
	})
	g.Go(func() error { return w.watchParts(gctx) })
	g.Go(func() error {
		<-gctx.Done()
		drain := time.NewTimer(w.cfg.Drain)
		defer drain.Stop()
		for _, ended := range []chan struct{}{flushed, committed} { // committing may have ended first, with the disk
			select {
			case <-ended:
			case <-drain.C:
				stopWork()
				return nil
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil && (ctx.Err() == nil || w.unsafe != nil) {
		return fmt.Errorf("store writer: %w", err)
	}
	return nil
}

func (w *Writer) connect() (err error) {
	conns, err := ch.Open(w.cfg.URL, func(o *clickhouse.Options) {
		o.MaxOpenConns, o.MaxIdleConns = 10, 6 // one per table, of which a flush mostly needs three, and one to look at them
		// Rows are in when the insert is answered, not when the server has queued them.
		o.Settings["async_insert"] = 0
		o.Settings["priority"] = ch.WriterPriority
		// What comes together may be of every day that is kept, and each is a partition.
		o.Settings["max_partitions_per_insert_block"] = 0
		// The indexes of a part are files of their own, and cost more than the rows of a small batch. Merges make them;
		// what was not merged yet is soon read.
		o.Settings["materialize_skip_indexes_on_insert"] = 0
	})
	if err != nil {
		return err
	}
	for i, s := range w.shards {
		s.conn = conns[i]
	}
	w.group, err = stream.NewGroup(w.deps.Stream, stream.GroupConfig{
		Name: store.Group, Topics: store.Topics(), InstanceID: w.deps.InstanceID,
		MaxPoll: maxPoll, MaxWait: maxFetchWait, MaxPartitionBytes: maxFetch,
		Assigned: w.assigned, Revoked: w.revoked, Lost: w.lost,
	})
	if err != nil {
		return errors.Join(err, w.disconnect())
	}
	close(w.connected)
	return nil
}

func (w *Writer) disconnect() (err error) {
	for _, s := range w.shards {
		err = errors.Join(err, s.conn.Close())
	}
	return err
}

// assigned takes over partitions, with what their last owner may not have counted: whoever sees that they are owned can
// have it counted.
func (w *Writer) assigned(marks map[stream.Partition]stream.Commit) {
	for _, s := range w.shards {
		s.dirty.addAll()
	}
	w.pos.assign(marks)
}

// poll fills the batch and stops while it is full. Between two polls it lets records gather: a fetch costs
// the same for one as for a hundred, and no row is wanted before the flush but by a reader, who says so.
func (w *Writer) poll(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		for w.full() {
			select {
			case <-w.room:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		came := 0
		err := w.group.Poll(ctx, func(p stream.Partition, records []*stream.Record) { came += w.take(p, records) })
		if err != nil {
			return err
		}
		if came == 0 || came >= maxFetch/2 || w.pos.awaited() {
			continue // nothing came, there is more, or a reader waits
		}
		pause.Reset(w.cfg.PollEvery)
		select {
		case <-pause.C:
		case <-w.soon:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *Writer) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fullLocked()
}

func (w *Writer) fullLocked() bool {
	growth := 1
	if w.crowd.crowded() {
		growth = crowdedGrowth
	}
	return w.filling.rows() >= growth*w.cfg.FlushRows || w.filling.bytes >= growth*w.cfg.FlushBytes
}

// take adds the records of one partition to the batch and returns their size.
func (w *Writer) take(p stream.Partition, records []*stream.Record) int {
	w.mu.Lock()
	before := w.filling.bytes
	at, ready := w.pos.advance(p, records[len(records)-1].Offset+1)
	if at != nil {
		w.filling.add(at, records, time.Now())
	}
	w.kicked = w.kicked || ready
	w.metrics.buffered.Set(float64(w.filling.rows()))
	came := w.filling.bytes - before
	w.mu.Unlock()
	signal(w.wake)
	return came
}

// Kick flushes what is buffered.
func (w *Writer) RequestFlushNow() {
	w.mu.Lock()
	w.kicked = true
	w.mu.Unlock()
	signal(w.wake)
}

// RequestFlush flushes as soon as everything below the offsets has been read. Partitions of other writers
// are ignored.
func (w *Writer) RequestFlush(targets map[stream.Partition]int64) {
	if w.pos.want(targets) {
		w.RequestFlushNow()
		return
	}
	signal(w.soon)
}

// Progress says how far the owned partitions are in ClickHouse.
func (w *Writer) Progress() store.Progress { return w.pos.progress() }

// revoked drops what was not written yet; the next owner reads it again. It waits for a flush that is
// under way, so that its offsets are committed and its rows are not written a second time.
func (w *Writer) revoked(ctx context.Context, ps []stream.Partition) {
	const patience = 5 * time.Second // a flush takes milliseconds unless ClickHouse is away
	leaving := w.pos.leave(ps)
	w.dropRows(leaving)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case w.busy <- struct{}{}:
		<-w.busy
	case <-limit.C:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = w.commit(ctx) // what flushes before have written; commitLoop has its error, too
	w.pos.forget(leaving)
}

func (w *Writer) lost(ps []stream.Partition) {
	leaving := w.pos.leave(ps)
	w.pos.forget(leaving)
	w.dropRows(leaving)
}

func (w *Writer) dropRows(gone map[*place]bool) {
	w.mu.Lock()
	w.filling.drop(gone)
	w.mu.Unlock()
	signal(w.room)
}

// signal wakes whoever waits on c; one waiting signal is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
