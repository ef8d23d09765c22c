package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/ch"
)

// checkCluster checks that the connections lead to all shards of the cluster in its order. Only then do the Distributed
// tables find the rows where the relay puts them.
func checkCluster(ctx context.Context, cluster string, conns []driver.Conn) error {
	for i, conn := range conns {
		var shards, localShard uint64
		q := new(ch.Query).Add("SELECT uniqExact(shard_num), maxIf(toUInt64(shard_num), is_local) "+
			"FROM system.clusters WHERE cluster = ", cluster)
		if err := conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&shards, &localShard); err != nil {
			return fmt.Errorf("read cluster %s: %w", cluster, err)
		}
		if err := validateClusterPosition(cluster, i+1, len(conns), int(shards), int(localShard)); err != nil {
			return err
		}
	}
	return nil
}

// validateClusterPosition compares address number (1 is the first) of RELAY_CLICKHOUSE_URL with what its server says of
// the cluster: how many shards it has, and which of them the server belongs to (0: none).
func validateClusterPosition(cluster string, number, addresses, shards, localShard int) error {
	switch {
	case shards == 0:
		return fmt.Errorf("the server of address %d knows no cluster %s: name one that it knows; "+
			"SELECT cluster FROM system.clusters lists them", number, cluster)
	case shards != addresses:
		return fmt.Errorf("cluster %s has %d shards and RELAY_CLICKHOUSE_URL names %d: "+
			"name one address for each shard, separated by commas, in the order of the shards", cluster, shards, addresses)
	case localShard != number:
		return fmt.Errorf("address %d of RELAY_CLICKHOUSE_URL is shard %d of cluster %s: "+
			"name the addresses in the order of the shards",
			number, localShard, cluster)
	}
	return nil
}

// validateEngine refuses to migrate the tables of a cluster as those of one server, and the other way round. engine is
// that of an existing table; empty if there is none.
func validateEngine(engine, cluster string) error {
	replicated := strings.HasPrefix(engine, "Replicated")
	switch {
	case engine == "" || replicated == (cluster != ""):
		return nil
	case replicated:
		return errors.New("its tables are replicated in a cluster: name the cluster with --cluster, otherwise only this " +
			"server would change")
	}
	return fmt.Errorf("its tables were made for one server and are not replicated: "+
		"give cluster %s a database of its own and copy the rows", cluster)
}
