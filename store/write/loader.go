package write

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/ch"
)

// loaderConfig is what differs between loaders.
type loaderConfig struct {
	name      string // of the consumer group
	conns     int    // the most connections to a shard
	usage     func() *tally
	ownTables ch.SQL // a condition on the column table: those that the loader's inserts make parts in
}

// loader copies the topics of one consumer group.
type loader struct {
	*shared
	loaderConfig
	sinks  []anySink
	shards []*shard
	pos    *positions
	// throttled: the loader inserts larger batches, less often, because ClickHouse has more parts than it can merge. Each
	// insert makes a part in every day partition that it has rows for, reads open all of them, and at 3,000 parts
	// ClickHouse rejects inserts; the writer throttles well before that.
	throttled atomic.Bool
	group     *stream.Group // set by connect, as are the connections of the shards

	flushingSince atomic.Pointer[time.Time] // oldest record of the batch that is being inserted; nil if none is

	flushes atomic.Uint64 // that have begun

	mu             sync.Mutex // guards filling, inserting, flushRequested, buffered, and which rows the batches have
	filling        *batch
	inserting      *batch // nil: no flush runs
	flushRequested bool
	askedAt        time.Time // when a reader has last asked for a flush
	buffered       int       // rows that the metric counts

	flushWake  chan struct{} // capacity 1: flushLoop checks whether a flush is due
	batchTaken chan struct{} // capacity 1: the batch was taken, poll may go on
	pollNow    chan struct{} // capacity 1: a reader waits for records that were not read yet
	scanWake   chan struct{} // capacity 1: there may be payloads to scan
	flushing   chan struct{} // capacity 1: held while a flush runs
	scanning   chan struct{} // capacity 1: held while a scan of payloads runs; guards eventRow.scanned
	committing chan struct{} // capacity 1: a mutex over one commit
}

// shard is one of the ClickHouse shards, as one loader uses it.
type shard struct {
	number   int
	conn     driver.Conn // set by connect
	usage    *tally
	verified bool // its identity was checked; used by flush only
}

// maxFetchWait bounds the first fetch after an assignment. Partitions whose offsets become known a moment later are not
// read until it has ended.
const maxFetchWait = 250 * time.Millisecond

// maxPoll bounds the records that one poll adds to a nearly full batch, maxFetch the bytes that one fetch returns of a
// partition.
const (
	maxPoll  = 5_000
	maxFetch = 512 << 10
)

// A poll that brings fewer than fewRecords makes the next pause twice as long, up to longestPoll times PollEvery.
const (
	fewRecords  = 100
	longestPoll = 32
)

// newLoaders returns a loader for each consumer group of the store.
func newLoaders(c *shared, shards int) []*loader {
	return []*loader{
		// One connection per table (a flush mostly needs three), and one to count parts.
		newLoader(c, shards, loaderConfig{stream.StoreGroup, 10, hoursOfEvents,
			"table NOT IN ('findings', 'findings_hits', 'senders_minute')"}),
		newLoader(c, shards, loaderConfig{stream.StoreFindingsGroup, 4, daysOfFindings,
			"table IN ('findings', 'findings_hits', 'senders_minute')"}),
	}
}

func newLoader(c *shared, shards int, cfg loaderConfig) *loader {
	sinks := newSinks()
	l := &loader{
		shared: c, loaderConfig: cfg, sinks: sinks, pos: newPositions(c.changed), filling: newBatch(sinks),
		flushWake: make(chan struct{}, 1), batchTaken: make(chan struct{}, 1), pollNow: make(chan struct{}, 1),
		scanWake: make(chan struct{}, 1),
		flushing: make(chan struct{}, 1), scanning: make(chan struct{}, 1), committing: make(chan struct{}, 1),
	}
	for i := range shards {
		l.shards = append(l.shards, &shard{number: i + 1, usage: cfg.usage()})
	}
	return l
}

func (l *loader) connect() (err error) {
	conns, err := ch.Open(l.cfg.URL, func(o *clickhouse.Options) {
		o.MaxOpenConns, o.MaxIdleConns = l.conns, l.conns/2+1
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
	for i, s := range l.shards {
		s.conn = conns[i]
	}
	l.group, err = stream.NewGroup(l.deps.Stream, stream.GroupConfig{
		Name: l.name, Topics: stream.ReadBy(l.name), InstanceID: l.deps.InstanceID, Shards: len(l.shards),
		MaxPoll: maxPoll, MaxWait: maxFetchWait, MaxPartitionBytes: maxFetch,
		Assigned: l.assigned, Revoked: l.revoked, Lost: l.lost,
	})
	return err
}

// disconnect leaves the group and closes the connections; it also ends a connect that failed.
func (l *loader) disconnect() (err error) {
	if l.group != nil {
		l.group.Close()
	}
	for _, s := range l.shards {
		if s.conn != nil {
			err = errors.Join(err, s.conn.Close())
		}
	}
	return err
}

// assigned takes over partitions. It requires a recount of usage before it announces them as owned: a caller that sees
// them owned and then calls CountUsage also counts the hours that their last owner left uncounted.
func (l *loader) assigned(commits map[stream.Partition]stream.Commit) {
	for _, s := range l.shards {
		s.usage.requireRecount()
	}
	l.pos.assign(commits)
}

// poll fills the batch and stops while it is full. Between two polls it lets records gather: fetching one record costs
// as much as fetching a hundred, and before the flush only a reader needs them, which then wakes it with pollNow.
func (l *loader) poll(ctx context.Context) error {
	pause, quiet := time.NewTimer(0), 0
	defer pause.Stop()
	for {
		for l.isFull() {
			select {
			case <-l.batchTaken:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		received, n := 0, 0
		err := l.group.Poll(ctx, func(p stream.Partition, records []*stream.Record) {
			received, n = received+l.addRecords(p, records), n+len(records)
		})
		if err != nil {
			return err
		}
		l.pos.announceRead()
		if received == 0 || received >= maxFetch/2 || l.pos.readerWaits() {
			continue // nothing came, there is more, or a reader waits
		}
		if quiet++; n >= fewRecords {
			quiet = 0
		}
		pause.Reset(wait.Backoff{First: l.cfg.PollEvery, Longest: longestPoll * l.cfg.PollEvery}.After(quiet))
		select {
		case <-pause.C:
		case <-l.pollNow:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *loader) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isFullLocked(time.Now())
}

// isReadLocked reports whether a reader has asked for a flush lately.
func (l *loader) isReadLocked(now time.Time) bool { return now.Sub(l.askedAt) < readLately }

func (l *loader) isFullLocked(now time.Time) bool {
	share := 1
	if l.isReadLocked(now) && !l.throttled.Load() {
		share = readShare
	}
	return l.filling.rows*share >= l.cfg.FlushRows || l.filling.bytes*share >= l.cfg.FlushBytes
}

// addRecords adds the records of one partition to the batch and returns their size in bytes.
func (l *loader) addRecords(p stream.Partition, records []*stream.Record) int {
	l.mu.Lock()
	before := l.filling.bytes
	a, allRead := l.pos.advance(p, records[len(records)-1].Offset+1)
	if a != nil {
		l.filling.addRecords(a, records, time.Now())
	}
	l.flushRequested = l.flushRequested || allRead
	l.reportBufferedLocked()
	received := l.filling.bytes - before
	l.mu.Unlock()
	wait.Wake(l.flushWake)
	wait.Wake(l.scanWake)
	return received
}

// reportBufferedLocked adds to the metric what the batch has more or less than at the last call.
func (l *loader) reportBufferedLocked() {
	l.metrics.buffered.Add(float64(l.filling.rows - l.buffered))
	l.buffered = l.filling.rows
}

// requestFlushNow asks for a flush of what is buffered.
func (l *loader) requestFlushNow() {
	l.mu.Lock()
	l.flushRequested = true
	l.mu.Unlock()
	wait.Wake(l.flushWake)
}

// requestFlush asks for a flush as soon as the records of this loader below the offsets have been read.
func (l *loader) requestFlush(targets map[stream.Partition]int64) {
	awaited, allRead := l.pos.waitFor(targets)
	if awaited || allRead {
		l.mu.Lock()
		l.askedAt = time.Now()
		l.mu.Unlock()
		wait.Wake(l.flushWake) // the batch may be full now
	}
	switch {
	case allRead:
		l.requestFlushNow()
	case awaited:
		wait.Wake(l.pollNow)
	}
}

// revoked drops the rows of revoked partitions that are not in a flush yet; the next owner reads them again. It waits
// for a running flush, so that its offsets are committed and its rows are not inserted a second time.
func (l *loader) revoked(ctx context.Context, ps []stream.Partition) {
	const maxWait = 5 * time.Second // a flush takes milliseconds unless ClickHouse is unavailable
	revoked := l.pos.revoke(ps)
	l.dropRows(revoked)
	limit := time.NewTimer(maxWait)
	defer limit.Stop()
	select {
	case l.flushing <- struct{}{}:
		<-l.flushing
	case <-limit.C:
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	_ = l.commit(ctx, l) // of the flushes that have ended; commitLoop returns the error, too
	l.pos.remove(revoked)
}

func (l *loader) lost(ps []stream.Partition) {
	revoked := l.pos.revoke(ps)
	l.pos.remove(revoked)
	l.dropRows(revoked)
}

func (l *loader) dropRows(gone map[*assignment]bool) {
	l.mu.Lock()
	l.filling.dropAssignments(gone)
	l.reportBufferedLocked()
	l.mu.Unlock()
	wait.Wake(l.batchTaken)
}
