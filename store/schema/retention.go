package schema

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/ch"
)

// RetainedTables returns the tables whose rows live as long as their event.
func RetainedTables() []string {
	return []string{
		"events", "events_by_endpoint", "event_keys", "deliveries", "failure_candidates_by_endpoint", "failure_candidates",
		"attempts", "receipts", "receipt_firsts",
	}
}

// ttlPattern matches the TTL of retentionTTL as ClickHouse prints it.
var ttlPattern = regexp.MustCompile(`TTL toStartOfDay\(toDateTime\(ts\)\) \+ toIntervalDay\((\d+)\)`)

// TableRetentionDays reads from a table's engine definition (system.tables.engine_full) for how many days it keeps
// rows; 0 if it has no such TTL.
func TableRetentionDays(engine string) int {
	match := ttlPattern.FindStringSubmatch(engine)
	if match == nil {
		return 0
	}
	days, err := strconv.Atoi(match[1])
	if err != nil {
		return 0
	}
	return days - 1
}

// DropExpired drops the partitions of a table that have no row from oldest on, and returns how many it dropped. An
// empty database is that of the connection.
func DropExpired(ctx context.Context, conn driver.Conn, database, table string, oldest time.Time) (
	dropped int, err error,
) {
	oldest = oldest.UTC()
	// Partition ids are YYYYMMDD or YYYYMM: those below the id of oldest have expired.
	q := new(ch.Query).Add("SELECT groupUniqArray(partition_id) FROM system.parts WHERE active AND table = ", table)
	q.Add(" AND database = if(", database).Add(" = '', currentDatabase(), ", database).Add(")")
	q.Add(" AND partition_id < if(length(partition_id) = 6, ", oldest.Format("200601"), oldest.Format("20060102")).Add(")")
	var expired []string
	if err := conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&expired); err != nil {
		return 0, fmt.Errorf("list the expired partitions of %s: %w", table, err)
	}
	fullName := table
	if database != "" {
		fullName = database + "." + table
	}
	slices.Sort(expired)
	for _, partition := range expired {
		q := new(ch.Query).Add("ALTER TABLE ").Add(ch.SQL(fullName)).Add(" DROP PARTITION ID ", partition)
		if err := conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
			return dropped, fmt.Errorf("drop partition %s of %s: %w", partition, table, err)
		}
		dropped++
	}
	return dropped, nil
}
