package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/tools/bench/fill"
)

const (
	// maxStored bounds --stored: filling takes a minute for each million.
	maxStored = 50_000_000
	// storedEndpoints is the number of endpoints of stored events; each is created through the API.
	storedEndpoints = 50
	storedBatch     = 50_000
)

// fillStored writes --stored events of the last 24 hours into the store before the relay under test starts: what
// ClickHouse merges depends on how many rows the day of the new ones has. They are merged, as older rows are.
func fillStored(ctx context.Context, o options) error {
	account, endpoints, err := createFillEndpoints(ctx, o.relay, o.dir, storedEndpoints)
	if err != nil {
		return err
	}
	return fillDataDir(ctx, fillOptions{relay: o.relay, dir: o.dir, Config: fill.Config{
		Account: account, Endpoints: endpoints, Events: o.stored, Days: 1, Batch: min(storedBatch, o.stored), Merge: true,
		Seed: 1,
	}}, io.Discard)
}

// tableEvents are counters of system.events: how much ClickHouse inserts and merges. ClickHouse 26.7 counts each merge
// and its rows twice.
var tableEvents = []string{"InsertQuery", "InsertedRows", "Merge", "MergedRows"}

// addTableEvents adds the counters of a started relay's embedded ClickHouse to the metrics, as clickhouse_<name>.
func (c *cost) addTableEvents(ctx context.Context, socket string) error {
	if _, err := os.Stat(socket); err != nil {
		return nil // a service without an embedded ClickHouse has no such counters
	}
	lines, err := queryTables(ctx, socket, "SELECT event, value FROM system.events WHERE event IN ('"+
		strings.Join(tableEvents, "', '")+"') FORMAT TSV")
	if err != nil {
		return err
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "\t")
		n, _ := strconv.ParseFloat(value, 64)
		c.metrics["clickhouse_"+name] = n
	}
	return nil
}

// queryTables sends one statement to the ClickHouse behind a Unix socket and returns the lines of its answer.
func queryTables(ctx context.Context, socket, statement string) (lines []string, err error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return private.Dial(ctx, socket) }
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/?query="+url.QueryEscape(statement),
		http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", statement, resp.Status)
	}
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines, nil
}
