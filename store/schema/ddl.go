package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Tables and migrations are written for one server. On a cluster every statement runs on all servers, tables are
// replicated within their shard, and each has a Distributed table, <name>_all, that reads all shards. The Distributed
// tables are for people and tools; the relay asks the shards itself. This file renders the statements for a cluster.

// target is the database that statements are rendered for.
type target struct {
	db      string
	days    int
	cluster string // empty: one server, or shards that are no ClickHouse cluster
}

// DistributedSuffix is the end of the name of a table that reads all shards of a cluster.
const DistributedSuffix = "_all"

// partitionOfID is the partition that an id contains, in SQL; ID.Partition reads it in Go. A Distributed table takes it
// modulo the number of shards. It is deterministic, so that optimize_skip_unused_shards finds the shard of an id.
const partitionOfID = "bitShiftRight(reinterpretAsUInt16(reverse(substring(id, 7, 2))), 4)"

// The beginnings of the statements that a schema file may contain.
var (
	createTable = regexp.MustCompile(`^CREATE TABLE IF NOT EXISTS \{db\}\.(\w+)`)
	createView  = regexp.MustCompile(`^CREATE MATERIALIZED VIEW IF NOT EXISTS \{db\}\.(\w+)`)
	alterTable  = regexp.MustCompile(`^ALTER TABLE \{db\}\.(\w+)`)
	dropTable   = regexp.MustCompile(`^DROP (TABLE|VIEW) IF EXISTS (\{db\}\.\w+)`)
	// columnChange matches changes that the Distributed table must follow: it has the columns, but no indices and no
	// TTL.
	columnChange = regexp.MustCompile(`^ALTER TABLE \{db\}\.\w+\s+(ADD|DROP|MODIFY|RENAME) COLUMN `)
	mergeTree    = regexp.MustCompile(`\bENGINE = (\w*)MergeTree(?:\((\w*)\))?`)
	idColumn     = regexp.MustCompile(`\bid FixedString\(16\)`)
)

// render returns the statements to run for one of a schema file. An error means that the file is wrong.
func (d target) render(statement string) ([]string, error) {
	if d.cluster == "" {
		return []string{d.fill(statement)}, nil
	}
	on := " ON CLUSTER '" + d.cluster + "'"
	switch {
	case createTable.MatchString(statement):
		name := createTable.FindStringSubmatch(statement)[1]
		if !mergeTree.MatchString(statement) {
			return nil, fmt.Errorf("table %s has no MergeTree engine", name)
		}
		local := createTable.ReplaceAllString(statement, "${0}"+on)
		local = mergeTree.ReplaceAllStringFunc(local, func(engine string) string { return replicated(engine, name) })
		return []string{d.fill(local), d.fill(d.distributedTable(statement, name))}, nil
	case createView.MatchString(statement):
		return []string{d.fill(createView.ReplaceAllString(statement, "${0}"+on))}, nil
	case alterTable.MatchString(statement):
		out := []string{d.fill(alterTable.ReplaceAllString(statement, "${0}"+on))}
		if columnChange.MatchString(statement) {
			out = append(out, d.fill(alterTable.ReplaceAllString(statement, "${0}"+DistributedSuffix+on)))
		}
		return out, nil
	case dropTable.MatchString(statement):
		parts := dropTable.FindStringSubmatch(statement)
		out := []string{d.fill(statement + on)}
		if parts[1] == "TABLE" {
			out = append(out, d.fill("DROP TABLE IF EXISTS "+parts[2]+DistributedSuffix+on))
		}
		return out, nil
	}
	return nil, fmt.Errorf("statement cannot run on a cluster: %q", firstLine(statement))
}

// replicated turns a MergeTree engine into the replicated one, with the Keeper path where the replicas of the table's
// shard find each other. {shard} and {replica} are macros in the configuration of every server of a cluster.
func replicated(engine, table string) string {
	parts := mergeTree.FindStringSubmatch(engine)
	args := "'/clickhouse/tables/{shard}/{db}/" + table + "', '{replica}'"
	if parts[2] != "" {
		args += ", " + parts[2]
	}
	return "ENGINE = Replicated" + parts[1] + "MergeTree(" + args + ")"
}

// distributedTable renders the table that reads all shards. Tables with an id get a sharding key, without which a
// Distributed table cannot be inserted into.
func (d target) distributedTable(statement, table string) string {
	key := ""
	if idColumn.MatchString(statement) {
		key = ", " + partitionOfID
	}
	return "CREATE TABLE IF NOT EXISTS {db}." + table + DistributedSuffix + " ON CLUSTER '" + d.cluster +
		"' AS {db}." + table +
		" ENGINE = Distributed('" + d.cluster + "', '{db}', '" + table + "'" + key + ")"
}

func (d target) fill(statement string) string {
	return strings.NewReplacer("{db}", d.db, "{kept}", d.retentionTTL()).Replace(statement)
}

// bookkeepingTables renders the tables of the migration itself: schema_version, the steps that ran, which is the same
// on all servers, and shard, which says which shard a server is.
func (d target) bookkeepingTables() []string {
	on, all, shard := "", "ReplacingMergeTree", "ReplacingMergeTree"
	if d.cluster != "" {
		on = " ON CLUSTER '" + d.cluster + "'"
		all = "ReplicatedReplacingMergeTree('/clickhouse/tables/all/{db}/schema_version', '{shard}-{replica}')"
		shard = "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{db}/shard', '{replica}')"
	}
	statements := []string{
		"CREATE DATABASE IF NOT EXISTS {db}" + on,
		"CREATE TABLE IF NOT EXISTS {db}.schema_version" + on +
			" (version UInt32, name String, at DateTime('UTC'), program String, checksum String)" +
			" ENGINE = " + all + " ORDER BY version",
		"CREATE TABLE IF NOT EXISTS {db}.shard" + on + " (number UInt32, of UInt32, at DateTime('UTC'))" +
			" ENGINE = " + shard + " ORDER BY (number, of)",
	}
	for i := range statements {
		statements[i] = d.fill(statements[i])
	}
	return statements
}

// retentionTTL is the TTL of rows of an event. All rows of a day expire together, when the newest may: a part expires
// with its newest row, so with a TTL per row half of a day's parts could be gone when the retention is made longer.
func (d target) retentionTTL() string {
	return "toStartOfDay(toDateTime(ts)) + INTERVAL " + strconv.Itoa(d.days+1) + " DAY DELETE"
}

// retention renders the statement that changes a table's TTL.
func (d target) retention(table string) string {
	on := ""
	if d.cluster != "" {
		on = " ON CLUSTER '" + d.cluster + "'"
	}
	return d.fill("ALTER TABLE {db}." + table + on + " MODIFY TTL {kept} SETTINGS materialize_ttl_after_modify = 0")
}

// withoutComments removes lines that are comments as a whole.
func withoutComments(statement string) string {
	var out strings.Builder
	for line := range strings.Lines(statement) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// firstLine shortens a statement for an error message.
func firstLine(statement string) string {
	line, _, _ := strings.Cut(statement, "\n")
	return line
}
