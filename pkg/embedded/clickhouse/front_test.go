package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	chdriver "github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// createSchema creates the tables of testdata/statements.sql in a database of the test's own.
func createSchema(t testing.TB, conn driver.Conn) string {
	t.Helper()
	db := newDatabase(t, conn)
	text := must.Get(os.ReadFile("testdata/statements.sql"))(t)
	bare := regexp.MustCompile(`(?m)^\s*--.*\n`).ReplaceAllString(string(text), "")
	for statement := range strings.SplitSeq(strings.NewReplacer("{db}", db, "{days}", "30").Replace(bare), ";\n") {
		if strings.TrimSpace(statement) != "" {
			mustExec(t, conn, statement)
		}
	}
	return db
}

func insertEvents(ctx context.Context, conn driver.Conn, db string, from, n int, body string) error {
	batch, err := eventBatch(ctx, conn, db, from, n, body)
	if err != nil {
		return err
	}
	return batch.Send()
}

func eventBatch(ctx context.Context, conn driver.Conn, db string, from, n int, body string) (chdriver.Batch, error) {
	batch, err := conn.PrepareBatch(
		ctx, "INSERT INTO "+db+".events (account, id, ts, endpoint, type, dests, body, remote_ip, size)")
	if err != nil {
		return nil, err
	}
	for i := from; i < from+n; i++ {
		err := batch.Append("acc", fmt.Sprintf("%016d", i), time.Now(), "ep", "order.created", []string{"dst_1", "dst_2"},
			fmt.Sprintf("%d %s", i, body), "192.0.2.1", uint32(len(body)))
		if err != nil {
			return nil, err
		}
	}
	return batch, nil
}

func TestSchemaInsertAndRead(t *testing.T) {
	conn := connect(t, address)
	db := createSchema(t, conn)
	if n := count(t, conn, "SELECT count() FROM system.tables WHERE database = {db:String}",
		driver.Named("db", db)); n != 18 {
		t.Errorf("%d tables and views, want 18", n)
	}
	const rows = 20_000
	body := strings.Repeat("0123456789abcdef", 64)
	for round := range 3 {
		batch := must.Get(eventBatch(t.Context(), conn, db, 0, rows, body))(t)
		began := time.Now()
		must.Do(t, batch.Send())
		t.Logf("round %d: %d rows of 1 KiB in %v", round, rows, time.Since(began).Round(time.Millisecond))
	}
	if n := count(t, conn, "SELECT count() FROM "+db+".events FINAL WHERE account = {a:String}",
		driver.Named("a", "acc")); n != rows {
		t.Errorf("%d events, want %d: rows with equal ids are merged", n, rows)
	}
	is.Equal(t, count(t, conn, "SELECT uniqExact(id) FROM "+db+".events_by_endpoint WHERE endpoint = 'ep'"), rows,
		"rows through the materialized view")
}

func TestColumnTypes(t *testing.T) {
	type row struct {
		S   string     `ch:"s"`
		F   string     `ch:"f"`
		L   string     `ch:"l"`
		LN  *string    `ch:"ln"`
		T3  time.Time  `ch:"t3"`
		T   time.Time  `ch:"t"`
		D   time.Time  `ch:"d"`
		A   []string   `ch:"a"`
		AL  []string   `ch:"al"`
		IP  netip.Addr `ch:"ip"`
		U8  uint8      `ch:"u8"`
		U16 uint16     `ch:"u16"`
		U32 uint32     `ch:"u32"`
		U64 uint64     `ch:"u64"`
		U1  *big.Int   `ch:"u128"`
		N   *string    `ch:"n"`
		NU  *uint64    `ch:"nu"`
		SM  uint64     `ch:"sm"`
		B   bool       `ch:"b"`
		F64 float64    `ch:"f64"`
		M   map[string]string
	}
	conn := connect(t, address)
	db := newDatabase(t, conn)
	mustExec(t, conn, `CREATE TABLE `+db+
		`.t (s String, f FixedString(16), l LowCardinality(String), ln LowCardinality(Nullable(String)),
		t3 DateTime64(3,'UTC'), t DateTime('UTC'), d Date, a Array(String), al Array(LowCardinality(String)), ip IPv6,
		u8 UInt8, u16 UInt16, u32 UInt32, u64 UInt64, u128 UInt128, n Nullable(String), nu Nullable(UInt64),
		sm SimpleAggregateFunction(max, UInt64), b Bool, f64 Float64, M Map(String, String)) ENGINE = MergeTree ORDER BY u32`)
	text, number := "it's\n\x00ünï", uint64(1<<63)
	wide, _ := new(big.Int).SetString("340282366920938463463374607431768211455", 10)
	want := []row{
		{
			S: text, F: "\x00\x01\x02\x03456789abcdef", L: "order", LN: &text,
			T3: time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC), T: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
			D: time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC),
			A: []string{"a", "", text}, AL: []string{"x", "y", "x"}, IP: netip.MustParseAddr("2001:db8::1"),
			U8: 255, U16: 65535, U32: 1, U64: 1<<64 - 1, U1: wide, N: &text, NU: &number, SM: 7, B: true, F64: 0.25,
			M: map[string]string{"k": "v"},
		},
		{
			F: strings.Repeat("\x00", 16), T3: time.UnixMilli(0).UTC(), T: time.Unix(0, 0).UTC(), D: time.Unix(0, 0).UTC(),
			A: []string{}, AL: []string{}, IP: netip.MustParseAddr("::ffff:192.0.2.7"), U32: 2, U1: new(big.Int),
			M: map[string]string{},
		},
	}
	batch := must.Get(conn.PrepareBatch(t.Context(), "INSERT INTO "+db+".t"))(t)
	for i := range want {
		must.Do(t, batch.AppendStruct(&want[i]))
	}
	must.Do(t, batch.Send())
	var got []row
	must.Do(t, conn.Select(t.Context(), &got, "SELECT * FROM "+db+".t ORDER BY u32"))
	equal := cmp.Options{
		cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a.Unmap() == b.Unmap() }),
	}
	is.Same(t, got, want, equal)
	got = nil
	if err := conn.Select(t.Context(), &got, "SELECT * FROM "+db+".t WHERE u32 > 2"); err != nil || len(got) != 0 {
		t.Errorf("empty result: %d rows, %v", len(got), err)
	}
	var nothing string
	if err := conn.QueryRow(t.Context(), "SELECT l FROM "+db+".t WHERE u32 > 2").Scan(&nothing); err == nil {
		t.Error("no error for a missing row")
	}
}

func TestParameters(t *testing.T) {
	conn := connect(t, address)
	var s string
	var list []string
	var at time.Time
	want := "it's \\ a \"test\"\t\n{x:String}"
	wantAt := time.Date(2026, 2, 3, 4, 5, 6, 789e6, time.UTC)
	must.Do(t, conn.QueryRow(t.Context(), "SELECT {s:String}, {l:Array(String)}, {t:DateTime64(3,'UTC')}",
		driver.Named("s", want), driver.Named("l", "['a','b']"), driver.Named("t", "2026-02-03 04:05:06.789")).
		Scan(&s, &list, &at))
	if s != want || cmp.Diff([]string{"a", "b"}, list) != "" || !at.Equal(wantAt) {
		t.Errorf("got %q, %q, %v", s, list, at)
	}
}

func TestLargeResult(t *testing.T) {
	for name, compression := range map[string]driver.CompressionMethod{
		"plain": driver.CompressionNone, "lz4": driver.CompressionLZ4, "zstd": driver.CompressionZSTD} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, address, func(o *driver.Options) {
				o.Compression = &driver.Compression{Method: compression, Level: 1}
			})
			db := newDatabase(t, conn)
			mustExec(t, conn, "CREATE TABLE "+db+".t (n UInt64, l LowCardinality(String), s String) ENGINE = MergeTree "+
				"ORDER BY n")
			const rows = 150_000 // three blocks
			batch := must.Get(conn.PrepareBatch(t.Context(), "INSERT INTO "+db+".t"))(t)
			for i := range rows {
				must.Do(t, batch.Append(uint64(i), fmt.Sprintf("kind %d", i%1000), fmt.Sprintf("row %d", i)))
			}
			must.Do(t, batch.Send())
			result := must.Get(conn.Query(t.Context(), "SELECT n, l, s FROM "+db+".t ORDER BY n"))(t)
			var i, n uint64
			var l, s string
			for ; result.Next(); i++ {
				must.Do(t, result.Scan(&n, &l, &s))
				if n != i || l != fmt.Sprintf("kind %d", i%1000) || s != fmt.Sprintf("row %d", i) {
					t.Fatalf("row %d is %d, %q, %q", i, n, l, s)
				}
			}
			if i != rows || result.Err() != nil {
				t.Errorf("%d rows, want %d: %v", i, rows, result.Err())
			}
		})
	}
}

func TestExceptions(t *testing.T) {
	conn := connect(t, address)
	db := newDatabase(t, conn)
	mustExec(t, conn, "CREATE TABLE "+db+".t (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
	query := func(text string, options ...driver.QueryOption) func() error {
		return func() error {
			rows, err := conn.Query(driver.Context(t.Context(), options...), text)
			if err != nil {
				return err
			}
			for rows.Next() {
			}
			return errors.Join(rows.Err(), rows.Close())
		}
	}
	for name, c := range map[string]struct {
		do   func() error
		code int32
	}{
		"syntax":            {query("SELECT 1 +"), 62},
		"no such table":     {query("SELECT * FROM " + db + ".nope"), 60},
		"no such setting":   {query("SELECT 1", driver.WithSettings(driver.Settings{"nope": 1})), 115},
		"bad setting value": {query("SELECT 1", driver.WithSettings(driver.Settings{"max_threads": "x"})), 27},
		"amid the result":   {query("SELECT throwIf(number = 250000) FROM numbers(300000)"), 395},
		"insert, no table": {func() error {
			batch, err := conn.PrepareBatch(
				driver.Context(t.Context(),
					driver.WithColumnNamesAndTypes([]driver.ColumnNameAndType{{Name: "n", Type: "UInt64"}})),
				"INSERT INTO "+db+".nope (n)")
			return errors.Join(err, batch.Append(uint64(1)), batch.Send())
		}, 60},
		"insert, wrong type": {func() error {
			batch, err := conn.PrepareBatch(
				driver.Context(t.Context(),
					driver.WithColumnNamesAndTypes([]driver.ColumnNameAndType{{Name: "n", Type: "String"}})),
				"INSERT INTO "+db+".t (n)")
			return errors.Join(err, batch.Append("x"), batch.Send())
		}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do()
			var e *driver.Exception
			if !errors.As(err, &e) || e.Code != c.code {
				t.Errorf("got %v, want code %d", err, c.code)
			}
		})
	}
	if n := count(t, conn, "SELECT count() FROM "+db+".t"); n != 0 {
		t.Errorf("%d rows after rejected inserts, want none", n)
	}
	var e *driver.Exception
	if err := connect(t, address, func(o *driver.Options) { o.Auth.Database = "nope" }).Ping(t.Context()); !errors.As(
		err, &e) || e.Code != 81 {
		t.Errorf("got %v, want code 81, unknown database", err)
	}
}

// sendRequest sends a request as curl does.
func sendRequest(t *testing.T, method string, values url.Values, body io.Reader) (int, string, http.Header) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+address+"/?"+values.Encode(), body))(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response := must.Get(client.Do(request))(t)
	text, err := io.ReadAll(response.Body)
	must.Do(t, errors.Join(err, response.Body.Close()))
	return response.StatusCode, string(text), response.Header
}

func TestPlainRequests(t *testing.T) {
	conn := connect(t, address)
	db := newDatabase(t, conn)
	for _, c := range []struct {
		name, method, query, body, want string
		values                          url.Values
		status                          int
	}{
		{name: "get", method: "GET", query: "SELECT 1, 'a'", want: "1\ta\n"},
		{name: "post", method: "POST", body: "SELECT 2", want: "2\n"},
		{name: "format", method: "POST", body: "SELECT 1 AS x FORMAT JSONEachRow;", want: "{\"x\":1}\n"},
		{name: "default format", method: "GET", query: "SELECT 1 AS x",
			values: url.Values{"default_format": {"CSVWithNames"}},
			want:   "\"x\"\n1\n"},
		{name: "parameter", method: "GET", query: "SELECT {x:UInt8} + 1", values: url.Values{"param_x": {"4"}}, want: "5\n"},
		{name: "setting", method: "GET", query: "SELECT getSetting('max_threads')", values: url.Values{"max_threads": {"3"}},
			want: "3\n"},
		{name: "set", method: "POST", body: "SET max_threads = 7", want: ""},
		{name: "set leaves nothing", method: "GET", query: "SELECT getSetting('max_threads') = 7", want: "0\n"},
		{name: "inserts are not collected", method: "GET", query: "SELECT getSetting('async_insert')",
			values: url.Values{"async_insert": {"1"}}, want: "false\n"},
		{name: "create", method: "POST", body: "CREATE TABLE t (a UInt8, b String) ENGINE = MergeTree ORDER BY a",
			values: url.Values{"database": {db}}, want: ""},
		{name: "insert values", method: "POST", body: "INSERT INTO t VALUES (1, 'x')",
			values: url.Values{"database": {db}}, want: ""},
		{name: "insert, rows behind the statement", method: "POST", body: "INSERT INTO t FORMAT TabSeparated\n2\ty\n3\tz\n",
			values: url.Values{"database": {db}}, want: ""},
		{name: "insert, rows in the body", method: "POST", query: "INSERT INTO t (a, b) FORMAT JSONEachRow",
			body: `{"a":4,"b":"w"}`, values: url.Values{"database": {db}}, want: ""},
		{name: "insert select", method: "POST", body: "INSERT INTO t SELECT a + 10, b FROM t",
			values: url.Values{"database": {db}}, want: ""},
		{name: "read it", method: "GET", query: "SELECT groupArray(b) FROM (SELECT * FROM t ORDER BY a)",
			values: url.Values{"database": {db}}, want: "['x','y','z','w','x','y','z','w']\n"},
		{name: "no rows", method: "POST", query: "INSERT INTO t FORMAT Native", values: url.Values{"database": {db}},
			status: 500, want: "Code: 108. DB::Exception: No data to insert. (NO_DATA_TO_INSERT)\n"},
		{name: "unknown setting", method: "GET", query: "SELECT 1", values: url.Values{"bad name": {"1"}}, status: 500,
			want: "Code: 115. DB::Exception: Unknown setting \"bad name\". (UNKNOWN_SETTING)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			values := url.Values{}
			for k, v := range c.values {
				values[k] = v
			}
			if c.query != "" {
				values.Set("query", c.query)
			}
			status, text, header := sendRequest(t, c.method, values, strings.NewReader(c.body))
			if status != max(c.status, 200) && c.status != 0 || c.status == 0 && status != 200 || text != c.want {
				t.Errorf("%d %q, want %d %q", status, text, max(c.status, 200), c.want)
			}
			if header.Get("X-ClickHouse-Query-Id") == "" && status == 200 {
				t.Error("no query id")
			}
		})
	}
	response := must.Get(http.Get("http://" + address + "/ping"))(t)
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || string(text) != "Ok.\n" {
		t.Errorf("ping: %q, %v", text, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// sendPart sends the head of a request and a part of its body, as chunks or of a longer Content-Length, and no more. It
// returns the answer.
func sendPart(t *testing.T, values url.Values, rows string, chunked bool) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must.Do(t, err)
	head := fmt.Sprintf("POST /?%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", values.Encode(), address)
	body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(rows)+10, rows)
	if chunked {
		body = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(rows), rows)
	}
	_, err = io.WriteString(conn, head+body)
	must.Do(t, errors.Join(err, conn.(*net.TCPConn).CloseWrite()))
	answer, err := io.ReadAll(conn)
	must.Do(t, errors.Join(err, conn.Close()))
	return string(answer)
}

// TestBrokenInsertStoresNothing: an insert whose body ends early stores no row, wherever it ends.
func TestBrokenInsertStoresNothing(t *testing.T) {
	conn := connect(t, address)
	db := newDatabase(t, conn)
	mustExec(t, conn, "CREATE TABLE "+db+".t (a UInt64) ENGINE = MergeTree ORDER BY a")
	insert := url.Values{"query": {"INSERT INTO " + db + ".t FORMAT TabSeparated"}}
	for _, n := range []int{3, 500_000} { // less and more than the engine gets at a time
		var rows strings.Builder
		for i := range n {
			fmt.Fprintln(&rows, i)
		}
		for _, chunked := range []bool{false, true} {
			if answer := sendPart(t, insert, rows.String(), chunked); !strings.HasPrefix(answer, "HTTP/1.1 500 ") {
				t.Errorf("%d rows, chunked %v: %.200s", n, chunked, answer)
			}
		}
	}
	// A second insert, complete but with an invalid last row.
	status, text, _ := sendRequest(t, http.MethodPost, insert, strings.NewReader("1\n2\nx\n"))
	if status != 500 || !strings.Contains(text, "Code: 27.") {
		t.Errorf("%d %s", status, text)
	}
	if n := count(t, conn, "SELECT count() FROM "+db+".t"); n != 0 {
		t.Errorf("%d rows of failed inserts, want none", n)
	}
}

func TestAbandonedQueryIsKilled(t *testing.T) {
	conn := connect(t, address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		rows, err := conn.Query(ctx, "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 12345")
		if err == nil {
			err = rows.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the cancelled context's error", err)
		}
	})
	running := func() uint64 {
		return count(t, conn, "SELECT count() FROM system.processes WHERE query LIKE '%12345%' AND query NOT LIKE "+
			"'%processes%'")
	}
	kit.WaitFor(t, "the query runs", func() bool { return running() == 1 })
	cancel()
	wg.Wait()
	kit.WaitFor(t, "the query is gone", func() bool { return running() == 0 })
}

func TestStatementsAreBounded(t *testing.T) {
	conn := connect(t, address, func(o *driver.Options) { o.MaxOpenConns = 32 })
	var wg sync.WaitGroup
	began := time.Now()
	for range 16 {
		wg.Go(func() {
			is.OK(t, conn.Exec(t.Context(), "SELECT sleep(0.2)"))
		})
	}
	wg.Wait()
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("16 statements of 0.2 s took %v; no more than 8 may run at once", took)
	}
}

func TestSelectsBesideInserts(t *testing.T) {
	conn := connect(t, address)
	db := createSchema(t, conn)
	var wg sync.WaitGroup
	const writers, batches, size = 3, 10, 500
	for w := range writers {
		wg.Go(func() {
			for b := range batches {
				is.OK(t, insertEvents(t.Context(), conn, db, (w*batches+b)*size, size, "body"))
			}
		})
		wg.Go(func() {
			var before uint64
			for range 20 {
				var n uint64
				is.OK(t, conn.QueryRow(t.Context(), "SELECT count() FROM "+db+".events FINAL").Scan(&n))
				if n < before {
					t.Errorf("%d events after %d", n, before)
				}
				before = n
			}
		})
	}
	wg.Wait()
	is.Equal(t, count(t, conn, "SELECT count() FROM "+db+".events"), writers*batches*size, "events")
}
