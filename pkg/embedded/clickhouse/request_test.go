package clickhouse

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestReadRequest(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxStatement, cfg.MaxInsert = 100, 200
	for _, c := range []struct {
		name, method, target, body    string
		query, format, rows, settings string
		code                          int
	}{
		{name: "insert of clickhouse-go", method: "POST",
			target: "/?default_format=Native&query=INSERT+INTO+t+(a)+FORMAT+Native", body: "rows",
			query: "INSERT INTO t (a)", format: "Native", rows: "rows"},
		{name: "insert with a setting of its own", method: "POST",
			target: "/?query=insert+into+t+settings+a%3D1%0Aformat+CSV+%3B", body: "1,2",
			query: "insert into t settings a=1", format: "CSV", rows: "1,2"},
		{name: "insert without format", method: "POST", target: "/?query=INSERT+INTO+t+VALUES", body: "(1)",
			query: "INSERT INTO t VALUES", format: "Values", rows: "(1)"},
		{name: "insert select", method: "POST", target: "/?query=INSERT+INTO+t+SELECT+1", query: "INSERT INTO t SELECT 1",
			format: "TabSeparated"},
		{name: "select", method: "POST", target: "/?default_format=Native&max_threads=2&a_b.c=x'y", body: "SELECT 1",
			query: "SELECT 1", format: "Native", settings: `, a_b.c = 'x\'y', max_threads = '2'`},
		{name: "format of the statement", method: "GET", target: "/?default_format=Native&query=SELECT+1+FORMAT+JSON",
			query: "SELECT 1 FORMAT JSON", format: "JSON", settings: ", readonly = 2"},
		{name: "a string is no format", method: "GET", target: "/?query=SELECT+'a+FORMAT+JSON'",
			query: "SELECT 'a FORMAT JSON'", format: "TabSeparated", settings: ", readonly = 2"},
		{name: "statement in both places", method: "POST", target: "/?query=SELECT+1", body: "+ 1", query: "SELECT 1\n+ 1",
			format: "TabSeparated"},
		{name: "behind white space", method: "POST", target: "/?query=%0B%0A+INSERT+INTO+t+FORMAT+CSV", body: "1",
			query: "\v\n INSERT INTO t", format: "CSV", rows: "1"},
		{name: "reserved names are no settings", method: "GET",
			target: "/?query=SELECT+1&async_insert=1&wait_end_of_query=1&user=u&log_comment=x", query: "SELECT 1",
			format:   "TabSeparated",
			settings: ", readonly = 2"},
		{name: "a setting does not lift the bound of GET", method: "GET", target: "/?query=SELECT+1&readonly=0",
			query:  "SELECT 1",
			format: "TabSeparated", settings: ", readonly = '0', readonly = 2"},
		{name: "insert, all in the body", method: "POST", target: "/", body: "INSERT INTO t\nFORMAT CSV\n1,'\n;SELECT 2",
			query: "INSERT INTO t\n", format: "CSV", rows: "1,'\n;SELECT 2"},
		{name: "no rows", method: "POST", target: "/?query=INSERT+INTO+t+FORMAT+Native", code: codeNoDataToInsert},
		{name: "bare semicolon", method: "POST", target: "/?query=SELECT+1;", code: codeBadArguments},
		{name: "bad setting", method: "GET", target: "/?query=SELECT+1&a%20b=1", code: codeUnknownSetting},
		{name: "bad parameter", method: "GET", target: "/?query=SELECT+1&param_a-b=1", code: codeBadArguments},
		{name: "bad revision", method: "GET", target: "/?query=SELECT+1&client_protocol_version=x", code: codeBadArguments},
		{name: "long statement", method: "POST", target: "/", body: strings.Repeat("x", 101), code: codeTooManyBytes},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := readRequest(httptest.NewRecorder(), httptest.NewRequest(c.method, c.target, strings.NewReader(c.body)),
				cfg)
			var e *exception
			if errors.As(err, &e); c.code != 0 || err != nil {
				if e == nil || e.code != c.code {
					t.Fatalf("got %v, want code %d", err, c.code)
				}
				return
			}
			rows := ""
			if q.insert != nil {
				text := must.Get(io.ReadAll(q.insert))(t)
				rows = string(text)
			}
			if q.query != c.query || q.format != c.format || rows != c.rows {
				t.Errorf("query %q, format %q, rows %q", q.query, q.format, rows)
			}
			if got, want := q.prepare("m"), "SET log_comment = 'm'"+c.settings; got != want {
				t.Errorf("settings %q, want %q", got, want)
			}
		})
	}
}

func TestBodyIsBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxInsert = 200
	r := httptest.NewRequest("POST", "/?query=INSERT+INTO+t+FORMAT+CSV", strings.NewReader(strings.Repeat("1\n", 200)))
	q, err := readRequest(httptest.NewRecorder(), r, cfg)
	must.Do(t, err)
	_, err = io.ReadAll(q.insert)
	var e *exception
	if !errors.As(bodyException(err), &e) || e.code != codeTooManyBytes {
		t.Errorf("got %v, want TOO_MANY_BYTES", err)
	}
}

func TestRefusedEncodings(t *testing.T) {
	for header, value := range map[string]string{
		"Content-Encoding": "gzip", "Content-Type": "multipart/form-data; boundary=x"} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("SELECT 1"))
		r.Header.Set(header, value)
		_, err := readRequest(httptest.NewRecorder(), r, DefaultConfig())
		var e *exception
		if !errors.As(err, &e) || e.code != codeNotImplemented {
			t.Errorf("%s %s: %v", header, value, err)
		}
	}
}

func TestParseException(t *testing.T) {
	for text, code := range map[string]int{
		"Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)": 60,
		"std::bad_alloc": codeStdException,
	} {
		var e *exception
		if err := parseException(text); !errors.As(err, &e) || e.code != code || e.text != text {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestQuote(t *testing.T) {
	is.Equal(t, quote(`it's \n`), `'it\'s \\n'`)
	is.Equal(t, quoteName("a`b\\"), "`a\\`b\\\\`")
}
