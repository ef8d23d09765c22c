package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/store/ch"
)

// Roles of ClickHouse users, by what connects with them.
const (
	RoleMigrate = "migrate" // relay migrate
	RoleWrite   = "write"   // RELAY_CLICKHOUSE_URL of nodes: inserts, erases payloads, drops expired days
	RoleRead    = "read"    // RELAY_READ_URL: lists, pages and figures
	RoleSearch  = "search"  // RELAY_SEARCH_URL
)

// Roles returns all roles, that of relay migrate first.
func Roles() []string { return []string{RoleMigrate, RoleWrite, RoleRead, RoleSearch} }

// Rights returns what a role needs in a database, each as GRANT takes it before TO. cluster is whether the tables are
// on a ClickHouse cluster.
func Rights(role, database string, cluster bool) (rights []string) {
	system := func(tables ...string) {
		for _, table := range tables {
			rights = append(rights, "SELECT ON system."+table)
		}
	}
	switch role {
	case RoleMigrate:
		// Migrations of later versions change and drop tables.
		rights = []string{"CREATE DATABASE, CREATE TABLE, CREATE VIEW, SELECT, INSERT, ALTER, DROP TABLE, DROP VIEW ON " +
			database + ".*"}
		system("parts", "mutations", "data_skipping_indices")
		engines := []string{"MergeTree", "ReplacingMergeTree", "AggregatingMergeTree", "MaterializedView"}
		if cluster {
			for i := range engines[:3] {
				engines[i] = "Replicated" + engines[i]
			}
			engines = append(engines, "Distributed")
			system("clusters")
			rights = append(rights, "CLUSTER, REMOTE ON *.*")
		}
		for _, engine := range engines {
			rights = append(rights, "TABLE ENGINE ON "+engine)
		}
	case RoleWrite:
		rights = []string{"SELECT, INSERT, ALTER UPDATE, ALTER DELETE ON " + database + ".*"}
		system("parts", "mutations")
	default:
		rights = []string{"SELECT ON " + database + ".*"}
		if role == RoleRead { // looks for damage
			system("parts", "detached_parts", "errors")
		}
	}
	return rights
}

// Grants returns the statements that create a role of ClickHouse for each of Roles, with its rights. The roles are
// named after the database: write_relay.
func Grants(cfg Config) (statements []string, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	all, err := ch.ParseURLs(cfg.URL)
	if err != nil {
		return nil, err
	}
	d := target{all[0].Auth.Database, cfg.RetentionDays, cfg.Cluster}
	for _, role := range Roles() {
		name := role + "_" + d.db
		statements = append(statements, "CREATE ROLE IF NOT EXISTS "+name+d.onCluster())
		for _, right := range Rights(role, d.db, cfg.Cluster != "") {
			statements = append(statements, "GRANT"+d.onCluster()+" "+right+" TO "+name)
		}
	}
	return statements, nil
}

// MissingRights returns the rights of a role that the user of the URLs lacks, with the shard if there are several. It
// finds none on servers that cannot tell, which are those before ClickHouse 24.11.
func MissingRights(ctx context.Context, urls, role string) (missing []string, err error) {
	var databases []string
	conns, err := ch.Open(urls, func(o *clickhouse.Options) { databases = append(databases, o.Auth.Database) })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ch.CloseAll(conns)) }()
	for i, conn := range conns {
		for _, right := range Rights(role, databases[i], false) {
			var granted uint8
			err := conn.QueryRow(ctx, "CHECK GRANT "+right).Scan(&granted)
			var refused *clickhouse.Exception
			switch {
			case errors.As(err, &refused) && (refused.Code == codeSyntaxError || refused.Code == codeNotImplemented):
				return nil, nil
			case err != nil:
				return nil, fmt.Errorf("check the rights of shard %d: %w", i+1, err)
			case granted == 1:
			case len(conns) > 1:
				missing = append(missing, fmt.Sprintf("%s (shard %d)", right, i+1))
			default:
				missing = append(missing, right)
			}
		}
	}
	return missing, nil
}

// Error codes of ClickHouse.
const (
	codeNotImplemented = 48
	codeSyntaxError    = 62
)
