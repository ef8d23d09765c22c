// Package read answers reads from ClickHouse: lists, searches, single events, the audit log, and with its packages
// usage and traffic, findings, and the items of recovery jobs. Events of the last minutes that ClickHouse does not have
// yet come from the log.
//
// Promises: the first page of a list and the read of one event see everything that was acknowledged before the call
// (read-your-writes, see package fence), or say with AsOf that they may not. A read that fails on one shard fails as a
// whole. Reads are bounded by the retention; those that answer one request also by cluster.Config.Timeout and by the
// number of reads that one API key runs at once (cluster.Slots). The long ones, for replays and recovery jobs, bound
// each statement. Values reach ClickHouse as query parameters only.
//
// Begin with reader.go. A list: list.go chooses the table to read and walks back in time, find.go has the
// statements, filters.go the conditions, candidate.go adds statuses. detail.go reads one event. Package cluster asks
// several servers and merges their answers.
package read

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/singleflight"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/read/fence"
	"github.com/eventrelay/relay/store/read/jobs"
	"github.com/eventrelay/relay/store/read/traffic"
)

// Reader answers reads. It starts no goroutines of its own; Close ends its connections.
type Reader struct {
	*cluster.Cluster
	traffic.Counts
	jobs.Jobs
	searchSettings  clickhouse.Settings
	unreported      *fence.Unreported
	scans           *scanner
	outcomesTimeout time.Duration  // of the outcomes in the log; only tests change it
	lateScans       *scanner       // of HasEvent
	searches        *cluster.Slots // of each account
	searchesOfKey   *cluster.Slots // of each API key
	// receiptLoads shares one load of an event's receipts between callers while the writer is behind.
	receiptLoads singleflight.Group
}

// NewReader checks the configuration. The connections are made by the first read.
func NewReader(cfg cluster.Config, deps cluster.Deps) (*Reader, error) {
	c, err := cluster.New(cfg, deps)
	if err != nil {
		return nil, err
	}
	return &Reader{
		Cluster: c, Counts: traffic.Counts{Cluster: c}, Jobs: jobs.Jobs{Cluster: c},
		searchSettings: searchSettings(c.Config), scans: newScanner(c.Topic, scanSpan),
		outcomesTimeout: outcomesTimeout, lateScans: newLateScanner(c.Topic),
		unreported:    fence.NewUnreported(c.Topic, c.Config.FenceWait),
		searches:      cluster.NewSlots(maxSearches, searchWait, "searches of the account"),
		searchesOfKey: cluster.NewSlots(1, searchWait, "search of the API key"),
	}, nil
}

// Summaries returns the list rows of the stored events among ids; the caller passes at most 1,000 ids. It waits for the
// fence; when the store is behind, the newest events and outcomes may be missing.
func (r *Reader) Summaries(ctx context.Context, account string, ids []id.ID) (map[id.ID]event.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	if _, err := r.Fence.WaitAll(ctx); err != nil {
		return nil, err
	}
	out := make(map[id.ID]event.Summary, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	newest := slices.SortedFunc(slices.Values(ids), id.NewestFirst)
	newest = slices.Compact(newest)
	q := ch.WhereIDs(selectEvents(tableEvents).Add(" WHERE account = ", account), newest)
	found, _, err := rowReader{r}.readEvents(ctx, account, q, 0)
	if err != nil {
		return nil, err
	}
	if err := (rowReader{r}).addAttemptsAndReceipts(ctx, account, found, true); err != nil {
		return nil, err
	}
	for i := range found {
		out[found[i].ID] = found[i].summary
	}
	return out, nil
}

const (
	// maxSelected bounds the events that Select passes to page at once.
	maxSelected = maxIDs
	// fenceTries is how often Select waits for the fence: 15 s in all. A read can show what is stored meanwhile, a replay
	// can only be refused.
	fenceTries = 10
)

// Select calls page for every event that a query matches, newest first, with at most q.Limit events at a time (0 =
// maxSelected). It includes everything acknowledged before the call, else it returns event.ErrUnavailable: a replay
// must not be selected from incomplete data. It stops at the first error of page. Each step has the time limit of one
// read, so the whole may take as long as ctx allows.
func (r *Reader) Select(ctx context.Context, q event.Query, page func([]event.Match) error) error {
	reportedBefore := r.reportedBoundFor(ctx, &q) // before the fence
	if err := r.upToDate(ctx); err != nil {
		return err
	}
	q.Before = id.ID{}
	n := q.Limit
	if n <= 0 {
		n = maxSelected
	}
	var selected []event.Match
	for w := r.newWalk(q, reportedBefore); !w.done(); {
		found, err := w.nextInTime(ctx, min(n, maxSelected))
		if err != nil {
			return err
		}
		selected = selected[:0]
		for i := range found {
			c := &found[i]
			if r.Erased(c.ID) {
				continue // there is nothing left to send
			}
			selected = append(selected, event.Match{
				ID: c.ID, Endpoint: c.Endpoint, Type: c.Type, Verdict: c.Verdict, Reason: c.Reason, Size: int(c.size),
			})
		}
		if len(selected) == 0 {
			continue
		}
		if err := page(selected); err != nil {
			return err
		}
	}
	return nil
}

// upToDate calls CaughtUp up to fenceTries times.
func (r *Reader) upToDate(ctx context.Context) (err error) {
	for range fenceTries {
		if err = r.CaughtUp(ctx); !errors.Is(err, fence.ErrNotCaughtUp) {
			return err
		}
	}
	return err
}

// nextInTime is next with the time limit of one read.
func (w *walk) nextInTime(ctx context.Context, n int) ([]candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, w.r.Config.Timeout)
	defer cancel()
	return w.next(ctx, n)
}
