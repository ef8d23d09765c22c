package ch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/eventrelay/relay/pkg/id"
)

// All rows of an event are on one shard: the Kafka partition that its id contains, modulo the number of shards. The
// partition of the record would not do, because a moved endpoint replays its old events from its new partition, and
// FINAL merges rows of one server only. So a statement about one event asks one shard, all rows of an endpoint that
// never moved to another partition are on one shard, and conditions that join other rows of an event are evaluated on
// its shard.

// ClickHouse setting priority: while a statement with a lower number runs, those with a greater number wait. Statements
// without a priority do not wait.
const (
	WriterPriority = 1
	SearchPriority = 2
)

// ShardOf returns the shard of an event, from 0 to shards-1. The hits of a finding are on the shard of its id, which is
// random; the counters of a sender on that of IDOf.
func ShardOf(event id.ID, shards int) int { return ShardOfPartition(event.Partition(), shards) }

// IDOf returns 16 bytes that decide the shard of rows which belong to no event, from their key.
func IDOf(key string) (d id.ID) {
	sum := sha256.Sum256([]byte(key))
	copy(d[:], sum[:])
	return d
}

// ShardOfPartition returns the shard of the events of a Kafka partition.
func ShardOfPartition(p int32, shards int) int { return int(p) % shards }

// SplitURLs splits a comma-separated list into the addresses of shards. Text after a comma without a scheme belongs to
// the address before it: a replica of the same shard, or a password with a comma.
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

// ParseURLs parses the comma-separated addresses of all shards, in their order; see parseURL for the forms. One server
// and database must not be named for two shards.
func ParseURLs(raw string) ([]*clickhouse.Options, error) {
	var all []*clickhouse.Options
	seen := make(map[string]int)
	urls := SplitURLs(raw)
	for i, url := range urls {
		opts, err := parseURL(url)
		if err != nil && len(urls) > 1 {
			err = fmt.Errorf("shard %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		for _, addr := range opts.Addr {
			server := addr + "/" + opts.Auth.Database
			if strings.HasPrefix(url, "unix:") {
				server = url // all sockets have one host name
			}
			if first, twice := seen[server]; twice {
				return nil, fmt.Errorf("clickhouse URL: %s is named for shard %d and for shard %d", server, first+1, i+1)
			}
			seen[server] = i
		}
		all = append(all, opts)
	}
	return all, nil
}

// Open returns connection pools for every shard; nothing is dialled yet. change adjusts the options of each.
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

// CloseAll closes the connections.
func CloseAll(conns []driver.Conn) (err error) {
	for _, conn := range conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

var (
	// ErrNoShard means that relay migrate has not recorded yet which shard a database is.
	ErrNoShard = errors.New("the database has no shard number yet: run relay migrate")
	// ErrWrongShard means that the addresses are not in the order in which the rows were distributed.
	ErrWrongShard = errors.New(
		"the addresses of RELAY_CLICKHOUSE_URL are not the shards, in their order, that the rows were distributed over")
)

// CheckShard compares the shard number that a database has recorded with its place among the addresses (1 is the
// first). Rows in the wrong shard would not be found, and not be merged with later rows of the same event.
func CheckShard(ctx context.Context, conn driver.Conn, table string, number, of int) (err error) {
	rows, err := conn.Query(ctx, "SELECT number, of FROM "+table+" FINAL ORDER BY number, of LIMIT 2")
	if err != nil {
		return fmt.Errorf("read the number of the shard: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found := false
	for rows.Next() {
		var recordedNumber, recordedOf uint32
		if err := rows.Scan(&recordedNumber, &recordedOf); err != nil {
			return fmt.Errorf("read the number of the shard: %w", err)
		}
		if found = true; int(recordedNumber) != number || int(recordedOf) != of {
			return fmt.Errorf("%w: number %d of %d was set up as number %d of %d", ErrWrongShard, number, of,
				recordedNumber, recordedOf)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read the number of the shard: %w", err)
	}
	if !found {
		return ErrNoShard
	}
	return nil
}
