package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

//go:embed schema/*.sql
var schemaFiles embed.FS

// Migrate brings the database of the URL up to the schema of this program: it creates the database,
// runs the files that it has not run yet, in order, and sets the retention of every table that follows
// it to days. It is safe to run again, and after it was interrupted at any place.
func Migrate(ctx context.Context, rawURL string, days int) (err error) {
	if days < 1 {
		return fmt.Errorf("migrate: retention of %d days", days)
	}
	var databases []string
	// The databases may not exist yet, so the connections start in the one that always does.
	conns, err := openShards(rawURL, func(o *clickhouse.Options) {
		databases = append(databases, o.Auth.Database)
		o.Auth.Database = "default"
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeShards(conns)) }()
	for i, conn := range conns {
		m := migration{conn: conn, db: databases[i], days: days}
		if err := m.run(ctx); err != nil {
			return fmt.Errorf("migrate database %s: %w", databases[i], err)
		}
	}
	return nil
}

type migration struct {
	conn driver.Conn
	db   string
	days int
}

func (m migration) run(ctx context.Context) error {
	for _, statement := range []string{
		"CREATE DATABASE IF NOT EXISTS {db}",
		"CREATE TABLE IF NOT EXISTS {db}.schema_version (version UInt32, name String, at DateTime('UTC')) ENGINE = ReplacingMergeTree ORDER BY version",
	} {
		if err := m.exec(ctx, statement); err != nil {
			return err
		}
	}
	done, err := m.version(ctx)
	if err != nil {
		return err
	}
	files, err := fs.Glob(schemaFiles, "schema/*.sql")
	if err != nil {
		return fmt.Errorf("list schema files: %w", err)
	}
	for _, file := range files {
		if err := m.apply(ctx, file, done); err != nil {
			return fmt.Errorf("apply %s: %w", file, err)
		}
	}
	return m.setRetention(ctx)
}

func (m migration) version(ctx context.Context) (uint32, error) {
	var v uint32
	if err := m.conn.QueryRow(ctx, m.fill("SELECT max(version) FROM {db}.schema_version")).Scan(&v); err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return v, nil
}

// apply runs a file whose number is above done and notes it. Its statements are written so that they
// may run twice, since there are no transactions.
func (m migration) apply(ctx context.Context, file string, done uint32) error {
	name := strings.TrimSuffix(strings.TrimPrefix(file, "schema/"), ".sql")
	digits, _, _ := strings.Cut(name, "_")
	number, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return fmt.Errorf("read its number: %w", err)
	}
	if uint32(number) <= done {
		return nil
	}
	text, err := schemaFiles.ReadFile(file)
	if err != nil {
		return err
	}
	for statement := range strings.SplitSeq(string(text), ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := m.exec(ctx, statement); err != nil {
			return err
		}
	}
	return m.exec(ctx, fmt.Sprintf("INSERT INTO {db}.schema_version SELECT %d, '%s', now()", number, name))
}

// retained are the tables whose rows live as long as their event.
func retained() []string {
	return []string{"events", "events_by_endpoint", "deliveries", "delivery_trouble", "attempts", "receipts", "receipt_firsts"}
}

// setRetention changes the TTL of the tables that were created with another one. Old parts keep the
// date they were written with until they are merged; reads filter by the retention as well.
func (m migration) setRetention(ctx context.Context) error {
	for _, table := range retained() {
		var engine string
		row := m.conn.QueryRow(ctx, "SELECT engine_full FROM system.tables WHERE database = '"+m.db+"' AND name = '"+table+"'")
		if err := row.Scan(&engine); err != nil {
			return fmt.Errorf("read the retention of %s: %w", table, err)
		}
		if strings.Contains(engine, fmt.Sprintf("toIntervalDay(%d)", m.days)) {
			continue
		}
		statement := "ALTER TABLE {db}." + table + " MODIFY TTL toDateTime(ts) + INTERVAL {days} DAY DELETE SETTINGS materialize_ttl_after_modify = 0"
		if err := m.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (m migration) fill(statement string) string {
	return strings.NewReplacer("{db}", m.db, "{days}", strconv.Itoa(m.days)).Replace(statement)
}

func (m migration) exec(ctx context.Context, statement string) error {
	if err := m.conn.Exec(ctx, m.fill(statement)); err != nil {
		return fmt.Errorf("run %q: %w", firstLine(statement), err)
	}
	return nil
}

// firstLine shortens a statement for an error text, comments left out.
func firstLine(statement string) string {
	for line := range strings.Lines(statement) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			return line
		}
	}
	return ""
}
