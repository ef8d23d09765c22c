package clickhouse

import (
	"errors"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func testPolicy(backups bool) policy {
	return newPolicy(strings.Fields(
		"file url s3 remote mysql executable format input eval generateRandom values null merge "+
			"numbers view"), backups)
}

// exceptionCodeOf returns the code of the exception for a statement, 0 for none.
func exceptionCodeOf(t *testing.T, p policy, statement string) int {
	t.Helper()
	err := p.check(statement)
	if err == nil {
		return 0
	}
	var e *exception
	if !errors.As(err, &e) {
		t.Fatalf("%s: %v", statement, err)
	}
	return e.code
}

func TestStatementsThatRun(t *testing.T) {
	for _, statement := range []string{
		"",
		"SELECT 1",
		" ( SELECT 1 ) ; ",
		"WITH 1 AS x SELECT x, 0xfF, 0b1, 1e5, 1e-5, 1_000, {'a': 1}, {}",
		"SELECT {l:Array(LowCardinality(String))}, {t:DateTime64(3,'UTC')}",
		`SELECT * FROM t WHERE body LIKE '%file(%' AND a = 'it''s \' url(x)'`,
		"SELECT `url`, \"method\" FROM attempts",
		"INSERT INTO attempts (account, url) VALUES (1, 'x'), (2, 'y')",
		"INSERT INTO t SELECT number FROM numbers(3)",
		"SELECT * FROM merge('relay', '.*')",
		"CREATE TABLE t (a Int8) ENGINE = ReplacingMergeTree(a) ORDER BY a",
		"CREATE TABLE t (a Int8) ENGINE MergeTree ORDER BY a",
		"CREATE MATERIALIZED VIEW v TO t AS SELECT 1",
		"SELECT engine FROM system.tables WHERE engine LIKE '%MergeTree'",
		"SYSTEM STOP MERGES t",
		"SELECT {x:String}, [1, 2][1], a.1, x -> x + 1, -1 % 2 != 3",
	} {
		is.Equal(t, exceptionCodeOf(t, testPolicy(false), statement), 0, "%s: refused with", statement)
	}
}

// TestStatementsThatAreRefused lists every way to name a file, an address or another server in ClickHouse's grammar.
func TestStatementsThatAreRefused(t *testing.T) {
	for _, statement := range []string{
		"SELECT * FROM (SELECT * FROM system.one SETTINGS additional_table_filters={'system.one':'1'})",
		"SELECT * FROM (SELECT formatRow('Template', 1 AS x) SETTINGS Format_Template_Row='/etc/hosts')",
		"SELECT formatRow('AvroConfluent', 1)", "SELECT `formatRowNoNewline`('Protobuf', 1)",
		"INSERT INTO t SETTINGS input_format_values_interpret_expressions = DEFAULT FORMAT Values",
		"INSERT INTO t SETTINGS `input_format_values_deduce_templates_of_expressions` = DEFAULT FORMAT Values",
		"SELECT count(DISTINCT '/etc/hosts') SETTINGS count_distinct_implementation='f', enable_analyzer=0",
		"SELECT 1 SETTINGS allow_experimental_analyzer=0", "SET compatibility = '20.1'",
		"SELECT * FROM system.models", `EXISTS TABLE "/etc/hostname"`, "DESCRIBE `/etc/hostname`",
		"SELECT file('/etc/hosts')", "SELECT FILE('/etc/hosts')", "SELECT file ('/etc/hosts')",
		"SELECT file/**/('/etc/hosts')",
		"SELECT file--\n('/etc/hosts')", "SELECT `file`('/etc/hosts')", `SELECT "file"('/etc/hosts')`,
		"SELECT `f\\x69le`('/etc/hosts')", "SELECT arrayMap(file, ['/etc/hosts'])", "SELECT * APPLY(file) FROM t",
		"SELECT * APPLY file FROM t", "SELECT 1.file('/etc/hosts')", "SELECT 'a', file('/etc/hosts')",
		`SELECT 'a\'', file('/etc/hosts') -- '`, "SELECT 'a''', file('/etc/hosts') -- '",
		`SELECT x'\', file('/etc/hosts') -- '`, `SELECT b'\', file('/etc/hosts') -- '`,
		"SELECT $$'$$, file('/etc/hosts') -- '", "SELECT 1 # '\n, file('/etc/hosts') -- '",
		"SELECT ‘'’, file('/etc/hosts') -- '",
		"SELECT “file”('/etc/hosts')", "SELECT /* /* */ file('/etc/hosts') -- */", "SELECT 1 /* open", "SELECT 'open",
		"SELECT `open",
		"SELECT `a``b`", "SELECT /* /* */ ' */ file($$x$$) -- '", "SELECT 1 /* a */", "SELECT 1 -- a", "SELECT 1 // a",
		"SELECT 1 #a",
		"SELECT arrayMap({f:Identifier}, ['x'])", "SELECT arrayMap({f:identifier}, ['x'])",
		"SELECT arrayMap({`f`:Identifier}, ['x'])",
		"SELECT * FROM {t:Array(Identifier)}", "SELECT {f:`Identifier`}", "SELECT {f : Identifier}", "SELECT {f}",
		"CREATE TABLE a (x Int8) ENGINE Null PARALLEL WITH CREATE TABLE b (x Int8) ENGINE = Null",
		"DROP TABLE a Parallel WITH DROP TABLE b",
		"ALTER TABLE a MODIFY ENGINE FileLog", "TRUNCATE TABLE a ENGINE = QueryRunner", "CREATE DATABASE d ENGINE Filesystem",
		"SELECT hasColumnInTable('h', 'd', 't', 'c')", "SELECT aiGenerate('x')", "SELECT catboostEvaluate('x', 1)",
		"SELECT arrayMap(dictGet, [1])",
		"CREATE VIEW v AS SELECT t.1PARALLEL WITH CREATE TABLE b", "SELECT 1file('x')", "SELECT 1.5e5from(x)",
		"SELECT 1\x00, file('/etc/hosts')", "EXPLAIN SELECT file('/etc/hosts')",
		"SELECT * FROM file('/etc/hosts', 'LineAsString')", "SELECT * FROM url('http://127.0.0.1/')",
		"SELECT * FROM `url` ('http://127.0.0.1/')", "SELECT (SELECT * FROM remote('127.0.0.1', system.one))",
		"INSERT INTO FUNCTION url('http://127.0.0.1/') SELECT 1", "INSERT INTO TABLE FUNCTION mysql('a')",
		"CREATE TABLE t AS s3('a')", "DESCRIBE TABLE url('http://127.0.0.1/')", "SELECT * FROM eval('SELECT 1')",
		"SELECT * FROM format(JSONEachRow, 'a String DEFAULT 1', '{}')", "SELECT * FROM input('a String')",
		"SELECT a FROM generateRandom('a String ALIAS 1')", "SELECT a FROM values('a String ALIAS 1', 1)",
		"INSERT INTO t SELECT a FROM values('a String ALIAS 1', 1)",
		"INSERT INTO t VALUES ((SELECT a FROM values('a String ALIAS 1', 1)))",
		"INSERT INTO FUNCTION null('a String DEFAULT 1') VALUES (1)",
		"SELECT 1 INTO OUTFILE '/tmp/x'", "SELECT 1 INTO outfile '/tmp/x'",
		"INSERT INTO t FROM INFILE '/etc/hosts' FORMAT CSV",
		"CREATE TABLE t (a Int8) ENGINE = File(TSV)", "CREATE TABLE t (a Int8) ENGINE URL('http://x')",
		"CREATE TABLE t (a Int8) engine=`Kafka`", "CREATE DATABASE d ENGINE = MySQL('a')",
		"CREATE TABLE t (a Int8) ENGINE = EmbeddedRocksDB(0, '/tmp/x')",
		"CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '/tmp/')",
		"CREATE TABLE t (a Int8) ENGINE = Log SETTINGS disk = 'backups'",
		"CREATE DATABASE d ENGINE = Atomic SETTINGS a = 1, `disk` = 'backups'",
		"CREATE TEMPORARY TABLE t (a Int8) ENGINE = TinyLog SETTINGS Storage_Policy='__backups'",
		"ATTACH TABLE t FROM '/etc' (a Int8)", "GRANT ALL ON *.* TO default", "EXECUTE AS default SELECT 1",
		"COPY t TO '/tmp/x'",
		"1", "'SELECT'", "SELECT 1; SELECT 2", "BACKUP TABLE t TO File('x')", "RESTORE TABLE t FROM File('x')",
	} {
		if exceptionCodeOf(t, testPolicy(false), statement) == 0 {
			t.Errorf("%s is not refused", statement)
		}
	}
}

func TestBackupStatements(t *testing.T) {
	p := testPolicy(true)
	for _, statement := range []string{
		"BACKUP DATABASE relay TO File('x')", "RESTORE DATABASE relay FROM File('x')",
		"BACKUP DATABASE relay TO File('y') SETTINGS base_backup = File('x')",
		"BACKUP DATABASE relay TO Disk('backups', 'x')", "RESTORE DATABASE relay FROM Disk('backups', 'x')",
		"BACKUP DATABASE relay TO Disk('backups', 'y') SETTINGS base_backup = Disk('backups', 'x')",
	} {
		is.Equal(t, exceptionCodeOf(t, p, statement), 0, "%s: refused with", statement)
	}
	for _, statement := range []string{
		"BACKUP DATABASE relay TO S3('http://127.0.0.1/')", "RESTORE DATABASE relay FROM AzureBlobStorage('x')",
		"SELECT * FROM File('x')", "RESTORE TABLE t FROM File('x') SETTINGS storage_policy = disk('backups')",
		"BACKUP TABLE t TO File('x') SETTINGS a = (SELECT file('x'))",
	} {
		if exceptionCodeOf(t, p, statement) == 0 {
			t.Errorf("%s is not refused", statement)
		}
	}
}

func TestSplitInsert(t *testing.T) {
	for statement, want := range map[string][3]string{
		"INSERT INTO t FORMAT CSV\n1,2\n":               {"INSERT INTO t ", "CSV", "1,2\n"},
		"INSERT INTO t (a) SETTINGS x=1 format TSV 1\t": {"INSERT INTO t (a) SETTINGS x=1 ", "TSV", "1\t"},
		"INSERT INTO t VALUES (1, 'FORMAT CSV')":        {},
		"INSERT INTO t SELECT 1 FORMAT CSV":             {},
	} {
		insert, format, rows, _ := splitInsert(statement)
		is.Equal(t, [3]string{insert, format, rows}, want, statement)
	}
}

func BenchmarkCheck(b *testing.B) {
	p, statement := testPolicy(false), "SELECT id, ts, type FROM events WHERE account = {a:String} AND endpoint IN ("+
		strings.Repeat("unhex('0123456789abcdef'), ", 40)+"'x') ORDER BY id DESC LIMIT 50"
	b.SetBytes(int64(len(statement)))
	for b.Loop() {
		must.Do(b, p.check(statement))
	}
}
