package ch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/eventrelay/relay/pkg/id"
)

// All rows about an event are on one shard: that of the partition which its id names, modulo the number of shards. The
// partition of the record that a row came from would not do: an endpoint that was moved has its old events replayed
// from its new partition, and FINAL merges rows of one server only. So a statement about one event asks one shard, the
// rows of an endpoint that was never moved are on one shard, and every condition on what else is known of an event is
// judged where the event is.

// While a statement of a priority runs, those of a greater number wait. Reads that have none wait for nobody.
const (
	WriterPriority = 1
	SearchPriority = 2
)

// ShardOf is the shard of an event, of so many.
func ShardOf(d id.ID, shards int) int { return ShardOfPartition(d.Partition(), shards) }

// ShardOfPartition is the shard of the events of a partition.
func ShardOfPartition(p int32, shards int) int { return int(p) % shards }

// SplitURLs separates the shards of a list. What follows a comma without a scheme of its own belongs to the address
// before it: another replica of the same shard, or a password with a comma.
func SplitURLs(raw string) []string {
	var urls []string
	for part := range strings.SplitSeq(raw, ",") {
		if trimmed := strings.TrimSpace(part); len(urls) == 0 || strings.Contains(trimmed, "://") {
			urls = append(urls, trimmed)
		} else {
			urls[len(urls)-1] += "," + part
		}
	}
	return urls
}

// ParseURLs reads the addresses of all shards, in their order.
func ParseURLs(raw string) ([]*clickhouse.Options, error) {
	var all []*clickhouse.Options
	seen := make(map[string]int)
	urls := SplitURLs(raw)
	for i, one := range urls {
		opts, err := parseURL(one)
		if err != nil && len(urls) > 1 {
			err = fmt.Errorf("shard %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		for _, addr := range opts.Addr {
			place := addr + "/" + opts.Auth.Database
			if strings.HasPrefix(one, "unix:") {
				place = one // all sockets have one host
			}
			if first, twice := seen[place]; twice {
				return nil, fmt.Errorf("clickhouse URL: %s is named for shard %d and for shard %d", place, first+1, i+1)
			}
			seen[place] = i
		}
		all = append(all, opts)
	}
	return all, nil
}

// Open makes a pool of connections to every shard; nothing is dialled yet.
func Open(raw string, change func(*clickhouse.Options)) (conns []driver.Conn, err error) {
	all, err := ParseURLs(raw)
	if err != nil {
		return nil, err
	}
	for _, opts := range all {
		change(opts)
		conn, err := clickhouse.Open(opts)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open clickhouse: %w", err), CloseAll(conns))
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// CloseAll ends the connections.
func CloseAll(conns []driver.Conn) (err error) {
	for _, conn := range conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

var (
	// ErrNoShard says that a database does not know yet which shard it is.
	ErrNoShard = errors.New("relay migrate has not noted which shard this is")
	// ErrWrongShard says that the addresses are not in the order in which rows were spread over them.
	ErrWrongShard = errors.New("the addresses of RELAY_CLICKHOUSE_URL are not those that the rows were spread over")
)

// CheckShard compares what a database says of itself with its place among the addresses. Rows in the wrong shard would
// not be found, nor merged with what is said of the same event later.
func CheckShard(ctx context.Context, conn driver.Conn, table string, number, of int) (err error) {
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
			return fmt.Errorf("%w: number %d of %d was set up as number %d of %d", ErrWrongShard, number, of, is, among)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the number of the shard: %w", err)
	}
	if !known {
		return ErrNoShard
	}
	return nil
}
