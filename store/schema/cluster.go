package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/internal/ch"
)

// checkCluster sees that the connections lead to the shards of a cluster, all of them and in its order: then the twins
// find rows where the relay has put them.
func checkCluster(ctx context.Context, cluster string, conns []driver.Conn) error {
	for i, conn := range conns {
		var shards, here uint64
		q := new(ch.Query).Add("SELECT uniqExact(shard_num), maxIf(toUInt64(shard_num), is_local) "+
			"FROM system.clusters WHERE cluster = ", cluster)
		if err := conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&shards, &here); err != nil {
			return fmt.Errorf("read cluster %s: %w", cluster, err)
		}
		if err := validateClusterPosition(cluster, i+1, len(conns), int(shards), int(here)); err != nil {
			return err
		}
	}
	return nil
}

// validateClusterPosition judges what the server of address number, one of so many, says of the cluster: how many shards it has,
// and which of them the server belongs to.
func validateClusterPosition(cluster string, number, addresses, shards, here int) error {
	switch {
	case shards == 0:
		return fmt.Errorf("the server of address %d knows no cluster %s; "+
			"SELECT cluster FROM system.clusters lists those that it knows", number, cluster)
	case shards != addresses:
		return fmt.Errorf("cluster %s has %d shards and RELAY_CLICKHOUSE_URL names %d: "+
			"one address for each, by commas, in their order", cluster, shards, addresses)
	case here != number:
		return fmt.Errorf("address %d of RELAY_CLICKHOUSE_URL is shard %d of cluster %s: "+
			"name them in the order of their shards",
			number, here, cluster)
	}
	return nil
}

// validateEngine refuses to take tables of one server for those of a cluster, and the other way round; engine is that of
// one of them, empty when there is none yet.
func validateEngine(engine, cluster string) error {
	replicated := strings.HasPrefix(engine, "Replicated")
	switch {
	case engine == "" || replicated == (cluster != ""):
		return nil
	case replicated:
		return errors.New("its tables are those of a cluster: name it with --cluster, or only this server would be changed")
	}
	return fmt.Errorf("its tables were made for one server and are not replicated: "+
		"give cluster %s a database of its own and copy the rows", cluster)
}
