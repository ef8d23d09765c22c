package clickhouse_test

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// TestStatementsStayInside: no statement reads or writes a file outside the data directory or connects to an address.
// The policy refuses some, the engine's grants and settings the others.
func TestStatementsStayInside(t *testing.T) {
	conn := connect(t, address)
	db := newDatabase(t, conn)
	mustExec(t, conn, "CREATE TABLE "+db+".t (a Int64, s String) ENGINE = MergeTree ORDER BY a")
	mustExec(t, conn, "INSERT INTO "+db+".t VALUES (1, '/etc/hosts')")
	secret := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(secret, []byte("planted secret"), 0o600))
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var reached atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			c.Close()
		}
	})
	for _, c := range forbiddenStatements(db, secret, "http://"+listener.Addr().String()+"/bucket/x") {
		status, text, _ := sendRequest(t, http.MethodPost, c.values, strings.NewReader(c.statement))
		if (status == http.StatusOK) != c.harmless || strings.Contains(text, "planted secret") {
			t.Errorf("%s %v: %d %s", c.statement, c.values, status, text)
		}
	}
	listener.Close()
	wg.Wait()
	if n := reached.Load(); n > 0 {
		t.Errorf("statements connected %d times to an address, want never", n)
	}
	if left, err := os.ReadDir(filepath.Dir(secret)); err != nil || len(left) != 1 {
		t.Errorf("statements have written files: %v, %v", left, err)
	}
	_, rows, _ := sendRequest(t, http.MethodPost, nil, strings.NewReader("SELECT * FROM "+db+".t"))
	if strings.Contains(rows, "planted") {
		t.Errorf("the table holds %s, want its own row", rows)
	}
}

type attack struct {
	statement string
	values    url.Values
	harmless  bool // it may run
}

func forbiddenStatements(db, file, address string) []attack {
	quoted, out := "'"+file+"'", "'"+file+".out'"
	condition := "length(file('" + file + "')) > 0"
	sql := "'" + strings.ReplaceAll(condition, "'", `\'`) + "'"
	var all []attack
	for _, s := range []string{
		"SELECT file(" + quoted + ")", "SELECT arrayMap(file, [" + quoted + "])", "SELECT * FROM file(" + quoted +
			", 'LineAsString')",
		"SELECT * FROM " + quoted, `SELECT * FROM "` + file + `"`, `SELECT * FROM default."` + file + `"`,
		"SELECT 1 INTO OUTFILE " + out, "INSERT INTO FUNCTION file(" + out + ", 'TSV', 'a Int8') VALUES (1)",
		"INSERT INTO " + db + ".t FROM INFILE " + quoted + " FORMAT TSV", "INSERT INTO " + db + ".t VALUES (2, file(" +
			quoted + "))",
		"INSERT INTO " + db + ".t FORMAT Values (2, file(" + quoted + "))",
		"INSERT INTO " + db + ".t SETTINGS input_format_values_interpret_expressions = 1 FORMAT Values (2, file(" +
			quoted + "))",
		"SELECT 1 AS x SETTINGS format_template_resultset = " + quoted + " FORMAT Template",
		"SELECT 1 AS x SETTINGS format_schema = '" + file + ":M' FORMAT Protobuf",
		"SELECT 1 AS x SETTINGS output_format_schema = " + out + " FORMAT Protobuf",
		"SELECT * FROM numbers(2) SETTINGS additional_result_filter = " + sql,
		"SELECT * FROM " + db + ".t SETTINGS additional_table_filters = {'" + db + ".t': " + sql + "}",
		"SELECT * FROM url('" + address + "', 'LineAsString')", "SELECT * FROM s3('" + address + "', 'LineAsString')",
		"SELECT * FROM remote('127.0.0.1', system.one)", "SELECT * FROM executable('/bin/sh', 'TSV', 'a String')",
		"CREATE TABLE " + db + ".f (a String) ENGINE = File(TSV, " + quoted + ")",
		"CREATE TABLE " + db + ".f (a String) ENGINE = URL('" + address + "', 'TSV')",
		"CREATE DATABASE " + db + "_f ENGINE = Filesystem('/etc')",
		"CREATE TABLE " + db + ".f (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = web, endpoint = '" +
			address + "/')",
		"CREATE TABLE " + db + ".f (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = 'default'",
		"CREATE DICTIONARY " + db + ".d (a UInt64) PRIMARY KEY a SOURCE(HTTP(url '" + address +
			"' format 'TSV')) LAYOUT(FLAT()) LIFETIME(0)",
		"CREATE FUNCTION f AS x -> x", "CREATE NAMED COLLECTION c AS a = 'b'", "CREATE USER u", "GRANT ALL ON *.* TO default",
		"BACKUP DATABASE " + db + " TO File(" + out + ")", "BACKUP DATABASE " + db + " TO S3('" + address + "')",
		"SYSTEM SHUTDOWN", "SELECT 1; SELECT file(" + quoted + ")",
		"SELECT /* /* */ ' */ file($$" + file + "$$) -- '", "SELECT /* /* */ ' */ 1 INTO OUTFILE $$" + file + ".out$$ -- '",
		"DROP TABLE IF EXISTS x PARALLEL WITH CREATE TABLE " + db + ".q ENGINE = FileLog(" + quoted + ", 'LineAsString')",
		"INSERT INTO " + db + ".t VALUES (41, file(assumeNotNull(" + quoted + ")))",
		"INSERT INTO " + db + ".t SETTINGS input_format_values_deduce_templates_of_expressions = 1 FORMAT Values (2, " +
			"upper('x'))",
		"INSERT INTO " + db + ".t SETTINGS input_format_allow_errors_num = 9, input_format_record_errors_file_path = " + out +
			" FORMAT CSV\nx,y\n",
	} {
		all = append(all, attack{statement: s})
	}
	insert := func(format string) url.Values {
		return url.Values{"query": {"INSERT INTO " + db + ".t FORMAT " + format}}
	}
	expressions := insert("Values")
	expressions.Set("input_format_values_interpret_expressions", "1")
	withoutNulls := insert("Values")
	withoutNulls.Set("input_format_null_as_default", "0")
	return append(all,
		attack{statement: "SELECT 1 AS x FORMAT Template", values: url.Values{"format_template_resultset": {file}}},
		attack{statement: "SELECT 1 AS x FORMAT Template", values: url.Values{"format_template_row": {file}}},
		attack{statement: "SELECT 1", values: url.Values{"additional_result_filter": {condition}}},
		attack{statement: "SELECT 1", values: url.Values{"dialect": {"prql"}}},
		attack{statement: "(3, file(" + quoted + "))", values: insert("Values")},
		attack{statement: "(3, file(" + quoted + "))", values: expressions},
		attack{statement: "(3, file(assumeNotNull(" + quoted + ")))", values: insert("Values")},
		attack{statement: "(3, file(assumeNotNull(" + quoted + "))), (4, file(" + quoted + "))", values: withoutNulls},
		attack{statement: "SELECT arrayMap({f:Identifier}, [" + quoted + "])", values: url.Values{"param_f": {"file"}}},
		attack{statement: "1\t'\n; SELECT file(" + quoted + ") -- '", values: insert("TSV")},
		attack{statement: "INSERT INTO " + db + ".t FORMAT TSV\n5\t'\n\n\nSELECT file(" + quoted + ") -- '"},
		attack{statement: "SELECT 'file(" + file + ")'", harmless: true},
	)
}

// TestGetReadsOnly: GET only reads, as in ClickHouse, because an <img> of a web page can send a GET.
func TestGetReadsOnly(t *testing.T) {
	conn := connect(t, address)
	db := newDatabase(t, conn)
	mustExec(t, conn, "CREATE TABLE "+db+".t (a Int64) ENGINE = MergeTree ORDER BY a")
	for _, statement := range []string{
		"INSERT INTO " + db + ".t VALUES (1)", "INSERT INTO " + db + ".t SELECT 1", "DROP TABLE " + db + ".t",
		"CREATE DATABASE " + db + "2", "SET max_threads = 1", "SYSTEM FLUSH LOGS",
	} {
		status, text, header := sendRequest(t, http.MethodGet, url.Values{"query": {statement}, "readonly": {"0"}}, nil)
		if status == http.StatusOK || header.Get("X-ClickHouse-Exception-Code") != "164" {
			t.Errorf("%s: %d %s", statement, status, text)
		}
	}
	if status, text, _ := sendRequest(
		t, http.MethodGet, url.Values{"query": {"SELECT count() FROM " + db + ".t"}}, nil); text != "0\n" {
		t.Errorf("%d %s", status, text)
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodOptions} {
		if status, _, _ := sendRequest(
			t, method, url.Values{"query": {"SELECT 1"}}, nil); status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, status)
		}
	}
}

// TestChildListensOnSocketOnly: only processes of this user can connect to the engine of a Child. There is no port, and
// the socket is in a directory closed to others, however long its path is.
func TestChildListensOnSocketOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 90))
	must.Do(t, os.Mkdir(dir, 0o755))
	cfg := childConfig(filepath.Join(dir, "clickhouse"), kit.ChdbLibrary(t))
	cfg.Socket = filepath.Join(dir, "run", "clickhouse.sock")
	child, _ := startChild(t, cfg)
	is.Equal(t, count(t, connect(t, child.Socket()), "SELECT toUInt64(7)"), 7)
	for path, want := range map[string]os.FileMode{
		filepath.Dir(cfg.Socket): os.ModeDir | 0o700, cfg.Socket: os.ModeSocket | 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, mode %v, want %v", path, err, info.Mode(), want)
		}
	}
	if ports := kit.Listeners(t, child.PID()); len(ports) > 0 {
		t.Errorf("the engine listens on %v", ports)
	}
}

// TestChildRefusesOpenDirectory: a directory that other users can enter is refused for the socket.
func TestChildRefusesOpenDirectory(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(dir, "x"), nil, 0o600), os.Chmod(dir, 0o755)))
	cfg := childConfig(filepath.Join(dir, "data"), kit.ChdbLibrary(t))
	cfg.Socket = filepath.Join(dir, "clickhouse.sock")
	_, err := clickhouse.NewChild(cfg, clickhouse.ChildDeps{Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("got %v, want a refusal", err)
	}
}
