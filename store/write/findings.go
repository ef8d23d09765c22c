package write

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
)

// hitRow is one row of the table findings_hits.
type hitRow struct {
	*finding.Hit
	source
	findingID id.ID
	day       time.Time
	location  string // JSON
}

// senderRow is one row of the table senders_minute.
type senderRow struct {
	*finding.Counts
	source
}

// decodeHit decodes a record of the topic findings. It returns finding.ErrNotHit for the counters of a sender, which
// decodeSender decodes.
func decodeHit(s source) (*hitRow, error) {
	hit, err := finding.Decode(s.record.Value)
	if err != nil {
		return nil, err
	}
	row := &hitRow{Hit: hit, source: s}
	if row.findingID, err = id.Parse(finding.Prefix, hit.Finding); err != nil {
		return nil, err
	}
	if row.day, err = time.Parse(time.DateOnly, hit.Day); err != nil {
		return nil, fmt.Errorf("read the day of a hit: %w", err)
	}
	location, err := json.Marshal(hit.Location)
	if err != nil {
		return nil, fmt.Errorf("encode the location of a hit: %w", err)
	}
	row.location = string(location)
	return row, nil
}

func decodeSender(s source) (*senderRow, error) {
	counts, err := finding.DecodeCounts(s.record.Value)
	if err != nil {
		return nil, err
	}
	return &senderRow{counts, s}, nil
}

// version is greatest for the first record of a hit: a sender that repeats its request does not move the hit in time,
// so paging neither skips nor repeats it. All records of a finding are in one partition.
func (r *hitRow) version() uint64 { return math.MaxUint64 - uint64(r.record.Offset) }

// remoteNet is the network of the client, which stays when its address is deleted.
func (r *hitRow) remoteNet() [16]byte {
	return column.IPToBytes(finding.NetworkOf(r.RemoteIP).Addr())
}

func hitsTable() *table[*hitRow] {
	type r = *hitRow
	return newTable("findings_hits",
		column.Text("account", func(x r) string { return x.Account }),
		column.Text("finding", func(x r) string { return x.Finding }),
		column.Typed("day", "Date", func(x r) time.Time { return x.day }),
		column.ID("hit", func(x r) []byte { return x.ID[:] }),
		column.Timestamp("at", func(x r) time.Time { return x.At }),
		column.Timestamp("observed_at", func(x r) time.Time { return x.ObservedAt }),
		column.Typed("n", "UInt32", func(x r) uint32 { return x.N }),
		column.LowCardinality("kind", func(x r) string { return string(x.Kind) }),
		column.LowCardinality("rule", func(x r) string { return x.Rule }),
		column.LowCardinality("source", func(x r) string { return string(x.Source) }),
		column.LowCardinality("channel", func(x r) string { return x.Channel }),
		column.Text("sender", func(x r) string { return x.Sender }),
		column.Typed("severity", "UInt8", func(x r) uint8 { return uint8(x.Severity) }),
		column.Typed("verified", "UInt8", func(x r) uint8 { return column.Bool(!x.Unverified) }),
		column.Typed("test", "UInt8", func(x r) uint8 { return column.Bool(x.Test) }),
		column.Typed("billed", "UInt8", func(x r) uint8 { return column.Bool(x.Billed) }),
		column.Text("masked", func(x r) string { return x.Masked }),
		column.Text("fingerprint", func(x r) string { return x.Fingerprint }),
		column.ID("location", func(x r) []byte { return x.LocationHash[:] }),
		column.Text("place", func(x r) string { return x.location }),
		column.LowCardinality("environment", func(x r) string { return x.Environment }),
		column.Text("release", func(x r) string { return x.Release }),
		column.Text("key_id", func(x r) string { return x.KeyID }),
		column.LowCardinality("method", func(x r) string { return x.Method }),
		column.Text("agent", func(x r) string { return x.Agent }),
		column.Typed("remote_ip", "IPv6", func(x r) [16]byte { return column.IPToBytes(x.RemoteIP) }),
		column.Typed("remote_net", "IPv6", r.remoteNet),
		column.Typed("ver", "UInt64", r.version),
	)
}

func sendersTable() *table[*senderRow] {
	type r = *senderRow
	return newTable("senders_minute",
		column.Text("account", func(x r) string { return x.Account }),
		column.Text("sender", func(x r) string { return x.Sender }),
		column.Typed("t", "DateTime('UTC')", func(x r) time.Time { return x.Minute }),
		column.LowCardinality("node", func(x r) string { return x.Node }),
		column.ID("boot", func(x r) []byte { return x.Boot[:] }),
		column.Typed("requests", "UInt64", func(x r) uint64 { return x.Requests }),
		column.Typed("lines", "UInt64", func(x r) uint64 { return x.Lines }),
		column.Typed("bytes", "UInt64", func(x r) uint64 { return x.Bytes }),
		column.Typed("hits", "UInt64", func(x r) uint64 { return x.Hits }),
		column.Typed("rejected", "UInt64", func(x r) uint64 { return x.Rejected }),
		column.Timestamp("last_at", func(x r) time.Time { return x.LastAt }),
		column.LowCardinality("platform", func(x r) string { return x.Platform }),
		column.LowCardinality("last_error", func(x r) string { return x.LastError }),
		column.Typed("ver", "UInt64", func(x r) uint64 { return x.Version }),
	)
}

// The UTC days of findings, see counting.go.

// daysOfFindings counts the usage of findings by the UTC day: one for each finding and source with a billed hit. Reads
// count today and yesterday themselves (schema.LiveFindings).
func daysOfFindings() *tally {
	return &tally{counting: semaphore.NewWeighted(1), length: 24 * time.Hour,
		spansOf: (*batch).findingDays, count: countFindings,
		counted: "SELECT count(), max(t) FROM usage_day WHERE endpoint = '' AND t <= ",
		oldest:  "SELECT count(), toDateTime(min(day), 'UTC') FROM findings_hits WHERE account != ''",
		dirty:   make(map[time.Time]bool)}
}

// findingDays returns the days of the batch's billed hits, oldest first.
func (b *batch) findingDays() []time.Time {
	seen := make(map[time.Time]bool)
	for _, h := range sinkOf[*hitRow](b).rows {
		if h.Billed {
			seen[h.day] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), time.Time.Compare)
}

// countFindings counts every day of [from, to). Rows that are stored twice count once without FINAL, because the number
// of different findings and sources is counted. The version of a row is its count.
func countFindings(ctx context.Context, conn driver.Conn, from, to time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	q := new(ch.Query).Add("INSERT INTO usage_day (account, t, endpoint, findings, ver) SELECT account, "+
		"toDateTime(day, 'UTC'), '', uniqExact(finding, source) AS number, number FROM findings_hits WHERE billed = 1 AND "+
		"day >= toDate(", from).Add(") AND day < toDate(", to).Add(") GROUP BY account, day")
	return execForSpan(ctx, conn, q, "count findings", from, to)
}

// A finding is forgotten 400 days after its last hit. Its hits leave the store by their age; the row of the table
// findings, whose first hit must never change, is deleted by name.

// FindingTable knows when findings were hit last, and deletes their rows.
type FindingTable struct {
	store    Shards
	caughtUp func(context.Context) error // waits until the store has all hits that were acknowledged before the call
}

// Shards are the connections to the store.
type Shards interface{ Pool() *ch.Pool }

// NewFindingTable returns the findings of a store. caughtUp waits until the store has all hits that were acknowledged
// before its call.
func NewFindingTable(store Shards, caughtUp func(context.Context) error) *FindingTable {
	return &FindingTable{store, caughtUp}
}

// LastHits returns when each of these findings was hit last, with the hits that were acknowledged before the call. A
// finding without hits is missing.
func (f *FindingTable) LastHits(ctx context.Context, account string, ids []string) (map[string]time.Time, error) {
	if err := f.caughtUp(ctx); err != nil {
		return nil, err
	}
	last, pool := make(map[string]time.Time, len(ids)), f.store.Pool()
	for shard := range pool.Count() {
		q := new(ch.Query).Add("SELECT finding, max(last_at) FROM findings WHERE account = ", account).
			Add(" AND finding IN ", ids).Add(" GROUP BY finding")
		err := pool.ForEachRow(ctx, shard, q, func(rows driver.Rows) error {
			var id string
			var at time.Time
			err := rows.Scan(&id, &at)
			if last[id].Before(at) {
				last[id] = at
			}
			return err
		})
		if err != nil {
			return nil, ch.ClassifyError(ctx, fmt.Errorf("read the last hits of findings: %w", err))
		}
	}
	return last, nil
}

// DeleteFindings deletes the rows of these findings.
func (f *FindingTable) DeleteFindings(ctx context.Context, account string, ids []string) error {
	pool := f.store.Pool()
	return pool.ForEachShard(func(shard int) error {
		q := new(ch.Query).Add("ALTER TABLE findings DELETE WHERE account = ", account).Add(" AND finding IN ", ids).
			Add(" SETTINGS mutations_sync = 2")
		if err := pool.Exec(ctx, shard, q); err != nil {
			return ch.ClassifyError(ctx, fmt.Errorf("delete findings: %w", err))
		}
		return nil
	})
}
