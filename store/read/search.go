package read

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

const (
	// A search looks at a stretch of rows after the other, each so long that it should take searchStretch, and ends
	// between two of them when its budget is spent.
	searchStretch, searchBudget = 300 * time.Millisecond, 2 * time.Second
	// firstSearch, minSearch and maxSearch are rows of a stretch.
	firstSearch, minSearch, maxSearch = 10_000, 500, 1_000_000
	// firstSearchBytes, minSearchBytes and maxSearchBytes bound its bodies and headers. Bodies may have 10 MiB.
	firstSearchBytes, minSearchBytes, maxSearchBytes = 32 << 20, 4 << 20, 1 << 30
	// headerBytes is what the headers of an event are counted for; their size stands in no column.
	headerBytes = 512
	// searchMemory is what one statement of a search may take, in bytes.
	searchMemory = 512 << 20
	// maxSearches is how many run at once for an account; another waits for its turn for searchWait.
	maxSearches, searchWait = 2, time.Second
)

// spent reports whether a search has to end for now, which it does sooner when it has found something, and makes the
// next stretch as long as the last one says; took is that one's time, zero before the first.
func (w *walk) budgetSpent(began time.Time, took time.Duration, found int) bool {
	if w.Search == nil || took == 0 {
		return false
	}
	factor := min(max(float64(searchStretch)/float64(took), 0.25), 4)
	w.chunk = min(max(int(float64(w.chunk)*factor), minSearch), maxSearch)
	w.bytes = min(max(int(float64(w.bytes)*factor), minSearchBytes), maxSearchBytes)
	if found > 0 {
		return time.Since(began) >= min(w.r.cfg.SearchFoundBudget, w.r.cfg.SearchBudget)
	}
	return time.Since(began) >= w.r.cfg.SearchBudget
}

// stretch is edge for a search: as many rows as chunk and bytes allow, one of each shard at least.
func (w *walk) searchChunkStart(ctx context.Context) (lowest id.ID, cut bool, err error) {
	for {
		var rows, size int
		lowest, cut = id.Lowest(w.from()), false
		t, share := w.eventsTable(), w.r.shardLimit(w.chunk)
		q := w.newSearchQuery().Add("SELECT min(id), sum(size), count() FROM (SELECT id, size FROM ").Add(t.name)
		w.where(q, t, w.window()).Add(" ORDER BY id DESC LIMIT ", share).Add(")")
		err := w.r.each(ctx, q, func(r driver.Rows) error {
			var d id.ID
			var bytes, n uint64
			err := r.Scan(&d, &bytes, &n)
			rows, size = rows+int(n), size+int(bytes)+int(n)*headerBytes
			if int(n) == share && (!cut || slices.Compare(d[:], lowest[:]) > 0) {
				lowest, cut = d, true
			}
			return err
		})
		switch {
		case err != nil:
			return lowest, cut, err
		case size > w.bytes && rows > w.r.pool.Count():
			w.chunk = max(1, int(float64(rows)*float64(w.bytes)/float64(size)*0.9))
		case w.r.pool.Count() > 1: // some are below the edge of another shard
			return lowest, cut, w.countScanned(ctx, lowest)
		default:
			w.scanned += rows
			return lowest, cut, nil
		}
	}
}

// count adds the rows of a stretch, from its lowest id on, to those that were looked at.
func (w *walk) countScanned(ctx context.Context, lowest id.ID) error {
	t := w.eventsTable()
	q := w.where(w.newSearchQuery().Add("SELECT count() FROM ").Add(t.name), t, w.window().above(lowest))
	return w.r.each(ctx, q, func(rows driver.Rows) error {
		var n uint64
		err := rows.Scan(&n)
		w.scanned += int(n)
		return err
	})
}

// searching begins a statement of a search.
func (w *walk) newSearchQuery() *ch.Query { return &ch.Query{Settings: w.r.searchSettings} }

// searchSettings keep a search from harming the others: it has few threads, little memory, waits while the writer
// inserts, ends when nobody waits for it any more, and changes nothing.
func searchSettings(cfg ReaderConfig) clickhouse.Settings {
	return clickhouse.Settings{
		"max_threads": cfg.SearchThreads, "max_memory_usage": searchMemory, "priority": ch.SearchPriority,
		"max_execution_time": int(cfg.Timeout/time.Second) + 1,
		// In the order of the table rows are read in pieces that are too small, backwards: it takes half as long again.
		"optimize_read_in_order": 0,
		// A URL holds 64 KB of values; written as conditions they may be longer than what is usual.
		"max_query_size": 8 << 20, "max_ast_elements": 500_000, "max_expanded_ast_elements": 1_000_000,
		// Over HTTP a statement goes on after its client has left, unless it only reads and this is set.
		"readonly": 2, "cancel_http_readonly_queries_on_client_close": 1,
	}
}
