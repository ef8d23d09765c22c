package schema

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/internal/ch"
)

// Retained are the tables whose rows live as long as their event.
func RetainedTables() []string {
	return []string{
		"events", "events_by_endpoint", "event_keys", "deliveries", "failure_candidates_by_endpoint", "failure_candidates",
		"attempts", "receipts", "receipt_firsts",
	}
}

// ttlPattern is how ClickHouse tells the TTL that retention renders.
var ttlPattern = regexp.MustCompile(`TTL toStartOfDay\(toDateTime\(ts\)\) \+ toIntervalDay\((\d+)\)`)

// TableRetentionDays reads from a table's definition for how many days it keeps rows; 0: none is told.
func TableRetentionDays(engine string) int {
	found := ttlPattern.FindStringSubmatch(engine)
	if found == nil {
		return 0
	}
	days, err := strconv.Atoi(found[1])
	if err != nil {
		return 0
	}
	return days - 1
}

// DropExpired drops the partitions of a table that hold nothing from oldest on, and returns how many. An empty database
// is that of the connection.
func DropExpired(ctx context.Context, conn driver.Conn, database, table string, oldest time.Time) (
	dropped int, err error,
) {
	oldest = oldest.UTC()
	// Ids of partitions are YYYYMMDD or YYYYMM: what is below that of the oldest moment has ended.
	q := new(ch.Query).Add("SELECT groupUniqArray(partition_id) FROM system.parts WHERE active AND table = ", table)
	q.Add(" AND database = if(", database).Add(" = '', currentDatabase(), ", database).Add(")")
	q.Add(" AND partition_id < if(length(partition_id) = 6, ", oldest.Format("200601"), oldest.Format("20060102")).Add(")")
	var ended []string
	if err := conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&ended); err != nil {
		return 0, fmt.Errorf("look for partitions of %s that have ended: %w", table, err)
	}
	where := table
	if database != "" {
		where = database + "." + table
	}
	slices.Sort(ended)
	for _, partition := range ended {
		q := new(ch.Query).Add("ALTER TABLE ").Add(ch.SQL(where)).Add(" DROP PARTITION ID ", partition)
		if err := conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
			return dropped, fmt.Errorf("drop partition %s of %s: %w", partition, table, err)
		}
		dropped++
	}
	return dropped, nil
}
