package read

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
)

const (
	// minSearch and maxSearch bound the rows of a chunk, minSearchBytes and maxSearchBytes its bodies and headers. One
	// body may have 10 MiB.
	minSearch, maxSearch           = 500, 1_000_000
	minSearchBytes, maxSearchBytes = 4 << 20, 1 << 30
	// headerBytes is the assumed size of an event's headers; no column has the real one.
	headerBytes = 512
	// searchMemory bounds the memory of one statement of a search, in bytes.
	searchMemory = 512 << 20
	// maxSearches is how many searches run at once for an account, one of each API key; a further one waits at most
	// searchWait.
	maxSearches, searchWait = 2, time.Second
)

// adaptChunk sizes the next chunk of a search by the duration of the last one, which is zero before the first. It
// reports whether the search has to end for now, which is earlier when it has hits.
func (w *walk) adaptChunk(began time.Time, last time.Duration, found int) (end bool) {
	if w.Search == nil || last == 0 {
		return false
	}
	factor := min(max(float64(cluster.SearchChunkTime)/float64(last), 0.25), 4)
	w.chunk = min(max(int(float64(w.chunk)*factor), minSearch), maxSearch)
	w.bytes = min(max(int(float64(w.bytes)*factor), minSearchBytes), maxSearchBytes)
	if found > 0 {
		return time.Since(began) >= min(w.r.Config.SearchFoundBudget, w.r.Config.SearchBudget)
	}
	return time.Since(began) >= w.r.Config.SearchBudget
}

// searchChunkStart is chunkStart for a search: as many rows as w.chunk and w.bytes allow, at least one of each shard.
func (w *walk) searchChunkStart(ctx context.Context) (lowest id.ID, cut bool, err error) {
	for {
		var rows, size int
		lowest, cut = id.Lowest(w.from()), false
		t, share := w.eventsTable(), w.r.shardLimit(w.chunk)
		q := w.newSearchQuery().Add("SELECT min(id), sum(size), count() FROM (SELECT id, size FROM ").Add(t.name)
		w.where(q, t, w.window()).Add(" ORDER BY id DESC LIMIT ", share).Add(")")
		err := w.r.Each(ctx, q, func(r driver.Rows) error {
			var d id.ID
			var bytes, n uint64
			err := r.Scan(&d, &bytes, &n)
			rows, size = rows+int(n), size+int(bytes)+int(n)*headerBytes
			if int(n) == share && (!cut || d.Compare(lowest) > 0) {
				lowest, cut = d, true
			}
			return err
		})
		switch {
		case err != nil:
			return lowest, cut, err
		case size > w.bytes && rows > w.r.ReadPool.Count():
			w.chunk = max(1, int(float64(rows)*float64(w.bytes)/float64(size)*0.9))
		case w.r.ReadPool.Count() > 1: // some of the rows are below the bound of another shard
			return lowest, cut, w.countScanned(ctx, lowest)
		default:
			w.scanned += rows
			return lowest, cut, nil
		}
	}
}

// countScanned adds the rows of a chunk, from its lowest id on, to w.scanned.
func (w *walk) countScanned(ctx context.Context, lowest id.ID) error {
	t := w.eventsTable()
	q := w.where(w.newSearchQuery().Add("SELECT count() FROM ").Add(t.name), t, w.window().above(lowest))
	n, err := w.r.Count(ctx, q)
	w.scanned += n
	return err
}

// newSearchQuery returns an empty statement with the settings of a search.
func (w *walk) newSearchQuery() *ch.Query { return &ch.Query{Settings: w.r.searchSettings} }

// searchSettings protect other statements from a search: it has few threads and little memory, yields to the writer's
// inserts, ends when its caller has gone, and cannot write.
func searchSettings(cfg cluster.Config) clickhouse.Settings {
	return clickhouse.Settings{
		"max_threads": cfg.SearchThreads, "max_memory_usage": searchMemory, "priority": ch.SearchPriority,
		"max_execution_time": int(cfg.Timeout/time.Second) + 1,
		// Reading in the order of the table, backwards, reads small pieces and takes 1.5 times as long.
		"optimize_read_in_order": 0,
		// The values in a request's URL may have 64 KB; as conditions they exceed the default limits.
		"max_query_size": 8 << 20, "max_ast_elements": 500_000, "max_expanded_ast_elements": 1_000_000,
		// Over HTTP a statement continues after its client has gone, unless it is read-only and this is set.
		"readonly": 2, "cancel_http_readonly_queries_on_client_close": 1,
	}
}

// acquireSearch waits for the only search of the API key or the tenant, and then for one of those of its account: one
// key does not hold all of them. Tenants share some among themselves, and so take none from the account.
func (r *Reader) acquireSearch(ctx context.Context, account string) (release func(), err error) {
	endOfKey := func() {}
	caller := event.Caller(ctx)
	if event.IsTenant(caller) {
		account += " tenants"
	}
	if caller != "" {
		if endOfKey, err = r.searchesOfKey.Acquire(ctx, caller); err != nil {
			return nil, err
		}
	}
	endOfAccount, err := r.searches.Acquire(ctx, account)
	if err != nil {
		endOfKey()
		return nil, err
	}
	return func() { endOfAccount(); endOfKey() }, nil
}
