package clickhouse_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const planted = "planted secret"

// disguises are ways to write a call so that a parser of the statement may see a different one than the engine.
var disguises = []string{
	"%s", "(%s)", "/**/%s", "/* /* */ ' */ %s -- '", "/* /* */ */ %s", "-- '\n%s -- '", "// '\n%s // '", "# '\n%s # '",
	"#! '\n%s #'",
	`'\'', %s -- '`, "'''', %s -- '", `x'\', %s -- '`, `b'\', %s -- '`, "$$'$$, %s -- '", "$a$'$a$, %s -- '",
	"`\\``, %s -- `",
	`"\"", %s -- "`, "‘'’, %s -- '", "\u2212\u2212 '\n%s -- '", "1\x00, %s", "1\u00a0, %s", "\ufeff%s",
	"1_000, %s", "t.1%s",
	"0x1%s", "1e5%s", "[%s][1]", "{'a': %s}['a']", "x -> %s", "arrayMap(x -> %s, [1])", "if(1, %s, '')", "%s AS a",
	"CAST(%s, 'String')",
	"(SELECT %s)", "{p:String}, %s", "ignore('{p:String}'), %s", `'\x27', %s -- '`, `e'\'', %s -- '`,
	`N'\', %s -- '`, "''%s''",
}

// statementsWithExpression are statements that take an expression.
var statementsWithExpression = []string{
	"SELECT %s", "WITH %s AS c SELECT c", "SELECT 1 WHERE notEmpty(%s)", "SELECT * FROM numbers(1) ORDER BY %s",
	"EXPLAIN SYNTAX SELECT %s",
	"INSERT INTO {t} SELECT 1, %s", "INSERT INTO {t} VALUES (1, %s)", "INSERT INTO {t} FORMAT Values (1, %s)",
	"CREATE VIEW {new} AS SELECT %s",
	"INSERT INTO {t} (a) FORMAT Values (%s)", "CREATE TABLE {new} (a Int8, s String DEFAULT %s) ENGINE = Memory",
	"CREATE TABLE {new} (a Int8, s String MATERIALIZED %s) ENGINE = MergeTree ORDER BY a",
	"CREATE TABLE {new} ENGINE = Memory AS SELECT %s",
	"CREATE TABLE {new} (a Int8, CONSTRAINT c CHECK notEmpty(%s)) ENGINE = MergeTree ORDER BY a",
	"CREATE FUNCTION f AS x -> %s",
	"CREATE TABLE {new} (a Int8, INDEX i %s TYPE minmax) ENGINE = MergeTree ORDER BY a",
	"ALTER TABLE {t} UPDATE s = %s WHERE 1",
	"ALTER TABLE {t} ADD COLUMN IF NOT EXISTS c String DEFAULT %s", "DELETE FROM {t} WHERE notEmpty(%s)",
	"SET param_x = %s",
	"DROP TABLE IF EXISTS {new} PARALLEL WITH CREATE VIEW {new} AS SELECT %s", "DESCRIBE (SELECT %s)",
	"SELECT 1; SELECT %s",
}

// TestDisguisedCallsAreRefused runs random statements that hide a call of the function file: none returns the content
// of a file or creates one. The sequence is fixed; RELAY_DISGUISES is the number of statements.
func TestDisguisedCallsAreRefused(t *testing.T) {
	number, _ := strconv.Atoi(os.Getenv("RELAY_DISGUISES"))
	if number == 0 {
		number = 300
	}
	conn := connect(t, address)
	db := newDatabase(t, conn)
	mustExec(t, conn, "CREATE TABLE "+db+".t (a Int64, s String) ENGINE = MergeTree ORDER BY a")
	file := filepath.Join(t.TempDir(), "f")
	must.Do(t, os.WriteFile(file, []byte(planted), 0o600))
	calls := disguisedCalls(file)
	rnd := rand.New(rand.NewPCG(26, 7))
	ran := 0
	for i := range number {
		made := fmt.Sprintf("%s.n%d", db, i)
		statement, values := disguisedStatement(rnd, calls, strings.NewReplacer("{t}", db+".t", "{new}", made))
		if rnd.IntN(8) == 0 {
			statement += " INTO OUTFILE '" + file + ".out'"
		}
		status, answer, _ := sendRequest(t, http.MethodPost, values, strings.NewReader(statement))
		is.Lacks(t, answer, planted, "%q %v: %d", statement, values, status)
		if status != http.StatusOK {
			continue
		}
		ran++
		for _, table := range []string{db + ".t", made} {
			if _, answer, _ := sendRequest(t, http.MethodPost, nil, strings.NewReader("SELECT * FROM "+table)); strings.Contains(
				answer, planted) {
				t.Fatalf("%q %v: then %s holds %s", statement, values, table, answer)
			}
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("statements have written files: %v, %v", left, err)
	}
	t.Logf("%d of %d statements ran", ran, number)
}

// disguisedStatement returns a random statement. Some inserts get their rows apart.
func disguisedStatement(rnd *rand.Rand, calls []string, names *strings.Replacer) (string, url.Values) {
	pick := func(from []string) string { return from[rnd.IntN(len(from))] }
	text := strings.ReplaceAll(pick(disguises), "%s", pick(calls))
	if rnd.IntN(3) == 0 {
		text = strings.ReplaceAll(pick(disguises), "%s", text)
	}
	statement := strings.ReplaceAll(names.Replace(pick(statementsWithExpression)), "%s", text)
	values := url.Values{"param_f": {"file"}, "param_p": {"'"}, "param_x": {"x"}}
	if head, rows, ok := strings.Cut(statement, " FORMAT Values "); ok && rnd.IntN(2) == 0 {
		values.Set("query", head+" FORMAT Values")
		values.Set("input_format_null_as_default", strconv.Itoa(rnd.IntN(2)))
		statement = rows
	}
	return statement, values
}

// disguisedCalls are ways to call the function file.
func disguisedCalls(file string) []string {
	var all []string
	for _, path := range []string{
		"'" + file + "'", "$$" + file + "$$", "assumeNotNull('" + file + "')", fmt.Sprintf("unhex('%x')", file)} {
		for _, form := range []string{
			"file(%s)", "FILE (%s)", "`file`(%s)", `"file"(%s)`, "`f\\x69le`(%s)", "f\u0131le(%s)", "\uff46ile(%s)",
			"arrayMap(file, [%s])",
			"arrayMap({f:Identifier}, [%s])", "{f:Identifier}(%s)", "{f : Identifier }(%s)", "{f:String}(%s)", "file/**/(%s)",
			"file--\n(%s)",
			"arrayMap(x -> file(x), [%s])", "(%s AS q, file(q))", "1file(%s)", "t.1file(%s)", "upper(%s)",
			"(SELECT * FROM file(%s, 'RawBLOB', 's String'))",
			"(SELECT * FROM format('RawBLOB', 's String DEFAULT file(1)', %s))",
			"(SELECT a FROM values('a String ALIAS file(1)', %s))", "(SELECT * FROM loop(file(%s, 'RawBLOB')))",
			"arrayFold(file, [%s], '')", "apply(file)(%s)", "toString(%s)",
		} {
			all = append(all, strings.ReplaceAll(form, "%s", path))
		}
	}
	return all
}
