package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

var (
	// errNoShard says that a database does not know yet which shard it is.
	errNoShard = errors.New("relay migrate has not noted which shard this is")
	// errWrongShard says that the addresses are not in the order in which rows were spread over them.
	errWrongShard = errors.New("the addresses of RELAY_CLICKHOUSE_URL are not those that the rows were spread over")
)

// checkShard compares what a database says of itself with its place among the addresses. Rows in the wrong shard would
// not be found, nor merged with what is said of the same event later.
func checkShard(ctx context.Context, conn driver.Conn, table string, number, of int) (err error) {
	rows, err := conn.Query(ctx, "SELECT number, of FROM "+table+" FINAL ORDER BY number, of LIMIT 2")
	if err != nil {
		return fmt.Errorf("read the number of the shard: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	known := false
	for rows.Next() {
		var is, among uint32
		if err := rows.Scan(&is, &among); err != nil {
			return fmt.Errorf("read the number of the shard: %w", err)
		}
		if known = true; int(is) != number || int(among) != of {
			return fmt.Errorf("%w: number %d of %d was set up as number %d of %d", errWrongShard, number, of, is, among)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the number of the shard: %w", err)
	}
	if !known {
		return errNoShard
	}
	return nil
}

// checkCluster sees that the connections lead to the shards of a cluster, all of them and in its order: then the twins
// find rows where the relay has put them.
func checkCluster(ctx context.Context, cluster string, conns []driver.Conn) error {
	for i, conn := range conns {
		var shards, here uint64
		q := new(query).add("SELECT uniqExact(shard_num), maxIf(toUInt64(shard_num), is_local) FROM system.clusters WHERE cluster = ", cluster)
		if err := conn.QueryRow(ctx, q.text.String(), q.args...).Scan(&shards, &here); err != nil {
			return fmt.Errorf("read cluster %s: %w", cluster, err)
		}
		if err := fitsCluster(cluster, i+1, len(conns), int(shards), int(here)); err != nil {
			return err
		}
	}
	return nil
}

// fitsCluster judges what the server of address number, one of so many, says of the cluster: how many shards it has, and
// which of them the server belongs to.
func fitsCluster(cluster string, number, addresses, shards, here int) error {
	switch {
	case shards == 0:
		return fmt.Errorf("the server of address %d knows no cluster %s; SELECT cluster FROM system.clusters lists those that it knows", number, cluster)
	case shards != addresses:
		return fmt.Errorf("cluster %s has %d shards and RELAY_CLICKHOUSE_URL names %d: one address for each, by commas, in their order", cluster, shards, addresses)
	case here != number:
		return fmt.Errorf("address %d of RELAY_CLICKHOUSE_URL is shard %d of cluster %s: name them in the order of their shards", number, here, cluster)
	}
	return nil
}

// fitsEngine refuses to take tables of one server for those of a cluster, and the other way round; engine is that of one of
// them, empty when there is none yet.
func fitsEngine(engine, cluster string) error {
	replicated := strings.HasPrefix(engine, "Replicated")
	switch {
	case engine == "" || replicated == (cluster != ""):
		return nil
	case replicated:
		return errors.New("its tables are those of a cluster: name it with --cluster, or only this server would be changed")
	}
	return fmt.Errorf("its tables were made for one server and are not replicated: give cluster %s a database of its own and copy the rows", cluster)
}
