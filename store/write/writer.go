// Package write copies records from Kafka into ClickHouse, counts usage, and removes erased payloads and expired rows
// from ClickHouse. Begin with Writer.Run; the order of inserts and commits is in flush.go.
//
// Writer.Run has five goroutines; the first three end one after the other:
//
//	poll        fetches records and decodes them into the batch that is being filled
//	flushLoop   takes that batch when it is due and inserts it: one insert per table and shard
//	commitLoop  commits the offsets of what was inserted, after a Sync if there is one
//	watchParts  counts the parts of the tables; while ClickHouse lags behind with merging, batches grow
//	drain       after a stop gives flushLoop and commitLoop the time of Drain, then cancels them
//
// Back-pressure: one batch is flushed while another is filled. When the second is full (FlushRows or FlushBytes), poll
// waits until flushLoop takes it. So at most two batches are in memory however long ClickHouse is unavailable; further
// records stay in Kafka. A rebalance waits for a running flush for 5 s, then leaves its rows to the next owner.
//
// An Eraser and an Expirer run beside it; they read the tables and the configuration and consume no records.
package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
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

// WriterDeps are the dependencies of a Writer.
type WriterDeps struct {
	Log      *slog.Logger
	Stream   stream.Config
	Producer *stream.Producer      // for the dead letter topic
	Metrics  prometheus.Registerer // nil: no metrics
	// InstanceID is the Kafka group instance id of this node (static membership). Empty: dynamic membership, which the
	// embedded Kafka needs.
	InstanceID string
	// Sync makes everything that was inserted durable. Nil: ClickHouse does that before it answers an insert. With
	// Sync, offsets are committed once a second after a call of it; its error is final and ends Run.
	Sync func() error
	// Erased reports whether the payload of an event was erased: its rows are inserted without it. Nil: no payload was.
	Erased func(id.ID) bool
}

// Writer copies the log into ClickHouse.
type Writer struct {
	cfg      WriterConfig
	deps     WriterDeps
	log      *slog.Logger
	metrics  *writerMetrics
	shards   []*shard
	pos      *positions
	throttle throttle

	// Set by Run before it starts its goroutines, as are the connections of the shards.
	group     *stream.Group
	connected chan struct{} // closed once group and connections are set

	committing chan struct{} // capacity 1: a mutex over one commit; guards syncErr
	syncErr    error         // the final error of WriterDeps.Sync

	flushingSince atomic.Pointer[time.Time] // oldest record of the batch that is being inserted; nil if none is

	mu             sync.Mutex // guards filling and flushRequested
	filling        *batch
	flushRequested bool

	flushWake  chan struct{} // capacity 1: flushLoop checks whether a flush is due
	batchTaken chan struct{} // capacity 1: the batch was taken, poll may go on
	pollNow    chan struct{} // capacity 1: a reader waits for records that were not read yet
	flushing   chan struct{} // capacity 1: held while a flush runs
}

// shard is one of the ClickHouse shards.
type shard struct {
	number int
	conn   driver.Conn // set by Run before it starts its goroutines
	tables tables
	hours  *tally
	days   *tally
	// verified: its identity was checked; used by flush only
	verified bool
}

type tables struct {
	events     *table[*eventRow]
	deliveries *table[*deliveryRow]
	attempts   *table[*deliveryRow]
	receipts   *table[*receiptRow]
	audit      *table[*auditRow]
	hits       *table[*hitRow]
	senders    *table[*senderRow]
	candidates []candidateTable
}

func newTables() tables {
	return tables{eventsTable(), deliveriesTable(), attemptsTable(), receiptsTable(), auditTable(), hitsTable(),
		sendersTable(), candidateTables()}
}

// maxFetchWait bounds the first fetch after an assignment. Partitions whose offsets become known a moment later are not
// read until it has ended.
const maxFetchWait = 250 * time.Millisecond

// maxPoll bounds the records that one poll adds to a nearly full batch, maxFetch the bytes that one fetch returns of a
// partition: the embedded broker serves nothing else while it collects them.
const (
	maxPoll  = 5_000
	maxFetch = 512 << 10
)

// NewWriter checks the configuration. It does not connect.
func NewWriter(cfg WriterConfig, deps WriterDeps) (*Writer, error) {
	cfg = cfg.withDefaults()
	urls, err := ch.ParseURLs(cfg.URL)
	if err := errors.Join(err, deps.Stream.Validate()); err != nil {
		return nil, err
	}
	if deps.Producer == nil {
		return nil, errors.New("store: the writer needs a producer for the dead letter topic")
	}
	var shards []*shard
	for i := range urls {
		shards = append(shards, &shard{number: i + 1, tables: newTables(), hours: hoursOfEvents(), days: daysOfFindings()})
	}
	w := &Writer{
		cfg: cfg, deps: deps, log: deps.Log, metrics: newWriterMetrics(deps.Metrics),
		shards:  shards,
		pos:     newPositions(),
		filling: newBatch(), connected: make(chan struct{}),
		flushWake: make(chan struct{}, 1), batchTaken: make(chan struct{}, 1), pollNow: make(chan struct{}, 1),
		flushing:   make(chan struct{}, 1),
		committing: make(chan struct{}, 1),
	}
	if deps.Metrics != nil {
		deps.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "relay_store_lag_seconds",
			Help: "Age of the oldest record that was read and is not in ClickHouse yet; 0 if there is none.",
		}, func() float64 { return w.lag(time.Now()).Seconds() }))
	}
	return w, nil
}

// Run copies records until ctx ends. Then it flushes its batch and commits, for at most WriterConfig.Drain, and leaves
// the group. While ClickHouse is unavailable, also at the start, it waits.
func (w *Writer) Run(ctx context.Context) (err error) {
	if err := w.connect(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.disconnect()) }()
	defer w.group.Close()

	// work outlives ctx by the drain time, so that a stop does not cancel a running insert.
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
		for _, ended := range []chan struct{}{flushed, committed} { // after a failed sync commitLoop has ended first
			select {
			case <-ended:
			case <-drain.C:
				stopWork()
				return nil
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil && (ctx.Err() == nil || w.syncErr != nil) {
		return fmt.Errorf("store writer: %w", err)
	}
	return nil
}

func (w *Writer) connect() (err error) {
	conns, err := ch.Open(w.cfg.URL, func(o *clickhouse.Options) {
		o.MaxOpenConns, o.MaxIdleConns = 10, 6 // one per table (a flush mostly needs three), and one to count parts
		// An insert is answered when the rows are stored, not when the server has queued them.
		o.Settings["async_insert"] = 0
		o.Settings["priority"] = ch.WriterPriority
		// A batch may have rows of every day of the retention, and each day is a partition.
		o.Settings["max_partitions_per_insert_block"] = 0
		// Skip indexes are files of their own in each part and cost more than the rows of a small batch. Merges build
		// them; parts that are not merged yet are small and cheap to read.
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

// assigned takes over partitions. It requires a recount of usage before it announces them as owned: a caller that sees
// them owned and then calls CountUsage also counts the hours that their last owner left uncounted.
func (w *Writer) assigned(commits map[stream.Partition]stream.Commit) {
	for _, s := range w.shards {
		s.hours.dirty.requireRecount()
		s.days.dirty.requireRecount()
	}
	w.pos.assign(commits)
}

// poll fills the batch and stops while it is full. Between two polls it lets records gather: fetching one record costs
// as much as fetching a hundred, and before the flush only a reader needs them, which then wakes it with pollNow.
func (w *Writer) poll(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		for w.isFull() {
			select {
			case <-w.batchTaken:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		received := 0
		err := w.group.Poll(ctx, func(p stream.Partition, records []*stream.Record) { received += w.addRecords(p, records) })
		if err != nil {
			return err
		}
		if received == 0 || received >= maxFetch/2 || w.pos.readerWaits() {
			continue // nothing came, there is more, or a reader waits
		}
		pause.Reset(w.cfg.PollEvery)
		select {
		case <-pause.C:
		case <-w.pollNow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *Writer) isFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isFullLocked()
}

func (w *Writer) isFullLocked() bool {
	growth := 1
	if w.throttle.isActive() {
		growth = throttledGrowth
	}
	return w.filling.rows() >= growth*w.cfg.FlushRows || w.filling.bytes >= growth*w.cfg.FlushBytes
}

// addRecords adds the records of one partition to the batch and returns their size in bytes.
func (w *Writer) addRecords(p stream.Partition, records []*stream.Record) int {
	w.mu.Lock()
	before := w.filling.bytes
	a, allRead := w.pos.advance(p, records[len(records)-1].Offset+1)
	if a != nil {
		w.filling.addRecords(a, records, time.Now())
	}
	w.flushRequested = w.flushRequested || allRead
	w.metrics.buffered.Set(float64(w.filling.rows()))
	received := w.filling.bytes - before
	w.mu.Unlock()
	notify(w.flushWake)
	return received
}

// RequestFlushNow asks for a flush of what is buffered. It does not wait.
func (w *Writer) RequestFlushNow() {
	w.mu.Lock()
	w.flushRequested = true
	w.mu.Unlock()
	notify(w.flushWake)
}

// RequestFlush asks for a flush as soon as every record below the offsets has been read. It ignores partitions that
// this writer does not own.
func (w *Writer) RequestFlush(targets map[stream.Partition]int64) {
	if w.pos.waitFor(targets) {
		w.RequestFlushNow()
		return
	}
	notify(w.pollNow)
}

// Progress returns how far the owned partitions have been written.
func (w *Writer) Progress() store.Progress { return w.pos.progress() }

// revoked drops the rows of revoked partitions that are not in a flush yet; the next owner reads them again. It waits
// for a running flush, so that its offsets are committed and its rows are not inserted a second time.
func (w *Writer) revoked(ctx context.Context, ps []stream.Partition) {
	const maxWait = 5 * time.Second // a flush takes milliseconds unless ClickHouse is unavailable
	revoked := w.pos.revoke(ps)
	w.dropRows(revoked)
	limit := time.NewTimer(maxWait)
	defer limit.Stop()
	select {
	case w.flushing <- struct{}{}:
		<-w.flushing
	case <-limit.C:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	_ = w.commit(ctx) // of the flushes that have ended; commitLoop returns the error, too
	w.pos.remove(revoked)
}

func (w *Writer) lost(ps []stream.Partition) {
	revoked := w.pos.revoke(ps)
	w.pos.remove(revoked)
	w.dropRows(revoked)
}

func (w *Writer) dropRows(gone map[*assignment]bool) {
	w.mu.Lock()
	w.filling.dropAssignments(gone)
	w.mu.Unlock()
	notify(w.batchTaken)
}

// notify wakes whoever waits on c. One pending wake-up is enough.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
