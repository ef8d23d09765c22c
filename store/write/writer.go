// Package write copies records from Kafka into ClickHouse, counts usage, and removes erased payloads and expired rows
// from ClickHouse. Begin with Writer.Run; the order of inserts and commits is in flush.go.
//
// The writer has two loaders that share nothing but the disk: one for events and what belongs to them, one for
// findings. So no list of events waits for the rows of findings, and rows that ClickHouse does not take stop one loader
// only. Each loader has its own consumer group, batch and connections, and these goroutines:
//
//	poll        fetches records and decodes them into the batch that is being filled
//	scanLoop    scans the payloads of events in that batch for secrets
//	flushLoop   takes that batch when it is due and inserts it: one insert per table and shard
//
// Writer.Run has three more:
//
//	commitLoop  commits the offsets of what the loaders inserted, after a Sync if there is one
//	watchParts  counts the parts of the tables; while ClickHouse lags behind with merging, batches grow
//	drain       after a stop gives the flushLoops and commitLoop the time of Drain, then cancels them
//
// Back-pressure: a loader flushes one batch while it fills another. When the second is full (FlushRows or FlushBytes),
// poll waits until flushLoop takes it. So at most two batches of each loader are in memory however long ClickHouse is
// unavailable; further records stay in Kafka. A rebalance waits for a running flush for 5 s, then leaves its rows to
// the next owner.
//
// An Eraser and an Expirer run beside it; they read the tables and the configuration and consume no records.
package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/metric"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/ch"
)

// WriterDeps are the dependencies of a Writer.
type WriterDeps struct {
	Log      *slog.Logger
	Stream   stream.Config
	Producer *stream.Producer      // for the dead letter topic
	Metrics  prometheus.Registerer // nil: no metrics
	// InstanceID is the Kafka group instance id of this node (static membership). Empty: dynamic membership.
	InstanceID string
	// Sync makes everything that was inserted durable. Nil: ClickHouse does that before it answers an insert. With
	// Sync, offsets are committed once a second after a call of it; its error is final and ends Run.
	Sync func() error
	// Scan looks for secrets in the payloads of events and returns when what it found is durable. It runs soon after they
	// were read, and at the latest while their rows are inserted. Their offsets are committed when it has returned; no
	// reader waits for it. It returns an error only if ctx ended. Nil: payloads are not scanned.
	Scan func(ctx context.Context, events []*event.Event) error
	// Erased reports whether the payload of an event was erased: its rows are inserted without it. Nil: no payload was.
	Erased func(id.ID) bool
}

// Writer copies the log into ClickHouse.
type Writer struct {
	*shared
	loaders   []*loader     // see newLoaders
	connected chan struct{} // closed once the loaders are connected
}

// shared is what the loaders of a writer share.
type shared struct {
	cfg     WriterConfig
	deps    WriterDeps
	log     *slog.Logger
	metrics *writerMetrics
	changed *broadcast // of the progress of any loader

	syncing chan struct{} // capacity 1: a mutex over WriterDeps.Sync; guards syncErr
	syncErr error         // the final error of WriterDeps.Sync
}

func newShared(cfg WriterConfig, deps WriterDeps) *shared {
	return &shared{cfg: cfg, deps: deps, log: deps.Log, metrics: newWriterMetrics(deps.Metrics), changed: newBroadcast(),
		syncing: make(chan struct{}, 1)}
}

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
	c := newShared(cfg, deps)
	w := &Writer{shared: c, loaders: newLoaders(c, len(urls)), connected: make(chan struct{})}
	metric.GaugeOf(deps.Metrics, "relay_store_lag_seconds",
		"Age of the oldest record that was read and is not in ClickHouse yet; 0 if there is none.",
		func() float64 { return w.lag(time.Now()).Seconds() })
	metric.GaugeOf(deps.Metrics, "relay_store_unavailable_shards",
		"ClickHouse shards whose last insert failed because they are unavailable or overloaded.",
		func() float64 { return float64(w.unavailableShards()) })
	return w, nil
}

// lag returns the age of the oldest record that any loader has read and not stored yet, 0 if there is none.
func (w *Writer) lag(now time.Time) (age time.Duration) {
	for _, l := range w.loaders {
		age = max(age, l.lag(now))
	}
	return age
}

// unavailableShards returns how many shards any loader fails to write.
func (w *Writer) unavailableShards() int {
	failing := make(map[int]bool)
	for _, l := range w.loaders {
		for _, shard := range l.pos.failingShards() {
			failing[shard] = true
		}
	}
	return len(failing)
}

// Run copies records until ctx ends. Then it flushes its batches and commits, for at most WriterConfig.Drain, and
// leaves the groups. While ClickHouse is unavailable, also at the start, it waits.
func (w *Writer) Run(ctx context.Context) (err error) {
	for _, l := range w.loaders {
		defer func() { err = errors.Join(err, l.disconnect()) }()
		if err := l.connect(); err != nil {
			return err
		}
	}
	close(w.connected)

	// work outlives ctx by the drain time, so that a stop does not cancel a running insert.
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	flushed, committed := make(chan struct{}), make(chan struct{})
	g, gctx := errgroup.WithContext(ctx)
	var flushing sync.WaitGroup
	for _, l := range w.loaders {
		polled := make(chan struct{})
		g.Go(func() error {
			defer close(polled)
			return l.poll(gctx)
		})
		if w.deps.Scan != nil {
			g.Go(func() error { return l.scanLoop(gctx) })
		}
		flushing.Add(1)
		g.Go(func() error {
			defer flushing.Done()
			return l.flushLoop(work, polled)
		})
	}
	g.Go(func() error {
		defer close(flushed)
		flushing.Wait()
		return nil
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

// RequestFlush asks for a flush as soon as every record below the offsets has been read. It does not wait, and ignores
// partitions that this writer does not own.
func (w *Writer) RequestFlush(targets map[stream.Partition]int64) {
	for _, l := range w.loaders {
		l.requestFlush(targets)
	}
}

// Unstored returns the rows of events, outcomes, commands and receipts that were read and are not stored yet, see
// store.FlushRequester.
func (w *Writer) Unstored(offsets map[stream.Partition]int64) (rows *store.Unstored, owned bool) {
	for _, l := range w.loaders {
		if l.name == stream.StoreGroup {
			return l.unstored(offsets)
		}
	}
	return nil, false
}

// Progress returns how far the owned partitions have been written.
func (w *Writer) Progress() store.Progress {
	// The channel comes first: what changes after it was taken closes it.
	p := store.Progress{Changed: w.changed.wait(), Owned: make(map[stream.Partition]store.Position)}
	for _, l := range w.loaders {
		maps.Copy(p.Owned, l.pos.progress())
	}
	return p
}

// WriterConfig says where ClickHouse is and when the writer flushes.
type WriterConfig struct {
	// URL is the address of ClickHouse, or the comma-separated addresses of its shards in their order; see ch.ParseURLs
	// for the forms. It may hold a password and is never logged.
	URL string
	// FlushRows is the number of buffered rows, of all tables together, that starts a flush; 0 = 60,000. A third of them
	// starts one for 10 s after a reader has asked for a flush.
	FlushRows int
	// FlushBytes is the size of the buffered records that starts a flush, or a third of it, likewise; 0 = 24 MiB.
	FlushBytes int
	// FlushEvery is the longest time a row waits for a flush that no reader asks for; 0 = 10 s. From 5,000 rows on it is
	// at most 2.5 s, at most 1 s while readers ask, and at least 5 s while the batch has rows of more than 8 days or
	// flushes are throttled.
	FlushEvery time.Duration
	// PollEvery is the shortest pause between two polls while no reader waits; it lets records gather in Kafka. It
	// doubles up to 32 times that while few records come. 0 = 20 ms.
	PollEvery time.Duration
	// InsertTimeout bounds one insert. An insert that times out is repeated, which changes nothing if it had succeeded.
	// 0 = 1 min.
	InsertTimeout time.Duration
	// ThrottleParts is the number of parts in one partition of a table from which on the writer throttles its flushes,
	// see throttle.go. ClickHouse itself slows inserts down from 1,000 parts on and rejects them from 3,000 on. 0 =
	// 300.
	ThrottleParts int
	// PartsInterval is how often the parts are counted, with a jitter of 0.5 to 1.5 times that; 0 = 15 s.
	PartsInterval time.Duration
	// Drain is how long a stop waits for the last flush and commit; 0 = 5 s.
	Drain time.Duration
}

func (c WriterConfig) withDefaults() WriterConfig {
	c.FlushRows = cmp.Or(c.FlushRows, 60_000)
	c.FlushBytes = cmp.Or(c.FlushBytes, 24<<20)
	c.FlushEvery = cmp.Or(c.FlushEvery, 10*time.Second)
	c.PollEvery = cmp.Or(c.PollEvery, 20*time.Millisecond)
	c.InsertTimeout = cmp.Or(c.InsertTimeout, time.Minute)
	c.ThrottleParts = cmp.Or(c.ThrottleParts, 300)
	c.PartsInterval = cmp.Or(c.PartsInterval, 15*time.Second)
	c.Drain = cmp.Or(c.Drain, 5*time.Second)
	return c
}

// unstored returns the rows of the batch that is being inserted and of the one that is being filled, once all records
// below the offsets have been read; see Writer.Unstored. The rows of a batch never change, and its slices only grow or
// are replaced, so the reader uses them without a lock.
func (l *loader) unstored(offsets map[stream.Partition]int64) (rows *store.Unstored, owned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owned, read := l.pos.waitRead(offsets) // under l.mu: what has been read is in a batch
	if !read {
		wait.Wake(l.pollNow)
		return nil, owned
	}
	var events [2][]*eventRow
	var deliveries [2][]*deliveryRow
	var receipts [2][]*receiptRow
	for i, b := range []*batch{l.inserting, l.filling} {
		if b != nil {
			events[i], deliveries[i] = sinkOf[*eventRow](b).rows, sinkOf[*deliveryRow](b).rows
			receipts[i] = sinkOf[*receiptRow](b).rows
		}
	}
	flushes := l.flushes.Load()
	return &store.Unstored{
		FlushBegan: func() bool { return l.flushes.Load() != flushes },
		Events: func(yield func(*event.Event, int) bool) {
			eachRow(events, func(r *eventRow) bool { return yield(r.Event, int(r.size)) })
		},
		Outcomes: func(yield func(*event.Outcome, event.Version) bool) {
			eachRow(deliveries, func(r *deliveryRow) bool { return yield(r.Outcome, r.version) })
		},
		Receipts: func(yield func(*event.Receipt, int64) bool) {
			eachRow(receipts, func(r *receiptRow) bool { return yield(r.Receipt, r.record.Offset) })
		},
	}, true
}

// eachRow calls f for the rows of both batches until it returns false.
func eachRow[R any](batches [2][]R, f func(R) bool) {
	for _, rows := range batches {
		if slices.ContainsFunc(rows, func(r R) bool { return !f(r) }) {
			return
		}
	}
}
