package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/wait"
)

// startFloor returns a function that starts the bare pipeline of [floor], or a part of it.
func startFloor(part string) func(context.Context, options) (*relay, error) {
	return func(ctx context.Context, o options) (*relay, error) {
		admin, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		r := &relay{admin: admin}
		args := []string{
			"floor-pipe", "--part", part, "--data", o.dir, "--deliver", o.deliver, "--admin", admin,
			fmt.Sprintf("--fsync=%t", o.fsync), "--posters", fmt.Sprint(o.posters), "--size", fmt.Sprint(o.size),
		}
		return r, r.start(ctx, o.self, args, nil, readyLine)
	}
}

// floorRequests posts to the pipeline of [floor].
func floorRequests(ctx context.Context, b *benchRun) error {
	return b.run(ctx, arrivalLimit, b.post("events", b.r.url+"/in", 0))
}

// floorLog lets the part log of the pipeline run for --duration. That part produces its own records.
func floorLog(ctx context.Context, b *benchRun) error {
	return b.measureWork(ctx, func(ctx context.Context, before cost) (int64, error) {
		if err := wait.For(ctx, b.o.duration); err != nil {
			return 0, err
		}
		now, err := b.r.readCost(ctx)
		return int64(now.metrics["floor_finished_total"] - before.metrics["floor_finished_total"]), err
	})
}

// measureWork measures the cost of work that is no stream of posts. work returns the number of its events.
func (b *benchRun) measureWork(ctx context.Context, work func(ctx context.Context, before cost) (int64, error)) error {
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	before, err := b.r.readCost(ctx)
	if err != nil {
		return err
	}
	own, began := cpu(os.Getpid()), time.Now()
	n, err := work(ctx, before)
	if err != nil {
		return err
	}
	after, err := b.r.readCost(ctx)
	if err != nil {
		return err
	}
	spent, took := after.since(before), time.Since(began)
	spent.byKind["load"] = cpu(os.Getpid()) - own
	res := &b.result
	res.Accepted, res.Delivered = n, n
	res.PostSeconds, res.AllSeconds = took.Seconds(), took.Seconds()
	b.addCosts(spent, &watch{b: b}, took)
	return nil
}

// startClickHouse starts the embedded ClickHouse without a relay.
func startClickHouse(ctx context.Context, o options) (*relay, error) {
	r := &relay{}
	args := []string{
		"engine", "clickhouse", "--data", filepath.Join(o.dir, "clickhouse"), fmt.Sprintf("--fsync=%t", o.fsync),
		"--listen", "unix:" + filepath.Join(o.dir, "clickhouse.sock"),
	}
	return r, r.start(ctx, o.relay, args, nil, engineLine)
}

// rowsPerInsert is the size of a busy relay's flush.
const rowsPerInsert = 5_000

// floorRows inserts blocks of rows for --duration. A row has the minimum of an event: an id, a time and a body.
func floorRows(ctx context.Context, b *benchRun) error {
	statements := []string{
		"CREATE DATABASE IF NOT EXISTS floor",
		"CREATE TABLE IF NOT EXISTS floor.rows (id FixedString(16), ts Int64, body String CODEC(ZSTD(1))) " +
			"ENGINE = MergeTree ORDER BY id",
	}
	for _, s := range statements {
		if err := b.queryClickHouse(ctx, s, nil); err != nil {
			return err
		}
	}
	return b.measureWork(ctx, func(ctx context.Context, _ cost) (n int64, err error) {
		for began := time.Now(); time.Since(began) < b.o.duration; n += rowsPerInsert {
			if err := b.queryClickHouse(
				ctx, "INSERT INTO floor.rows FORMAT Native", nativeBlock(n, rowsPerInsert, b.o.size)); err != nil {
				return n, err
			}
		}
		return n, nil
	})
}

// queryClickHouse sends one statement to the embedded ClickHouse. rows is its input in the format Native, or nil.
func (b *benchRun) queryClickHouse(ctx context.Context, statement string, rows []byte) error {
	address := "http://localhost/?query=" + url.QueryEscape(statement)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(rows))
	if err != nil {
		return err
	}
	resp, err := b.clickhouseClient().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", statement, resp.Status, answer)
	}
	return err
}

// clickhouseClient returns the HTTP client for the embedded ClickHouse's Unix socket. It keeps its connections.
func (b *benchRun) clickhouseClient() *http.Client {
	if b.engine == nil {
		path := strings.TrimPrefix(b.r.url, "unix:")
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return private.Dial(ctx, path) }
		b.engine = &http.Client{Transport: &http.Transport{DialContext: dial}}
	}
	return b.engine
}

// nativeBlock returns n rows in ClickHouse's format Native. The ids begin with the number first.
func nativeBlock(first int64, n, size int) []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	column := func(b []byte, name, kind string) []byte { return text(text(b, name), kind) }
	out := binary.AppendUvarint(binary.AppendUvarint(nil, 3), uint64(n))
	out = column(out, "id", "FixedString(16)")
	for i := range n {
		out = binary.BigEndian.AppendUint64(out, uint64(first)+uint64(i))
		out = append(out, make([]byte, 8)...)
	}
	out = column(out, "ts", "Int64")
	for range n {
		out = binary.LittleEndian.AppendUint64(out, uint64(time.Now().UnixMilli()))
	}
	out = column(out, "body", "String")
	body := eventBody(size)
	for range n {
		out = text(out, body)
	}
	return out
}
