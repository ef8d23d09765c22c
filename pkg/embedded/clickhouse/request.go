package clickhouse

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
)

// request is the statement of one HTTP request, with its settings and rows.
type request struct {
	id        string
	query     string
	format    string // of the result, or of an insert's body
	hasFormat bool   // the statement has a FORMAT clause
	protocol  uint64 // protocol revision of Native results; 0 has neither block info nor flags
	database  string
	settings  []setting
	params    []param
	readsOnly bool      // a GET: only a statement that reads may run
	insert    io.Reader // rows of an insert; nil for other statements
	compress  *compress.Method
}

type setting struct{ name, value string }

// formatClause matches the FORMAT clause at the end of a statement. A string that looks like one does not match: its
// closing quote comes after it.
var formatClause = regexp.MustCompile(`(?is)\s+FORMAT\s+([A-Za-z]\w*)\s*;?\s*$`)

var (
	settingName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
	parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	firstWord     = regexp.MustCompile(`^[\s\v(]*([A-Za-z]+)`)
)

// notSettings are URL parameters of ClickHouse's HTTP interface that are not settings, and settings that only this
// package sets: async_insert, which decides whether an insert is stored before it is answered, and log_comment, which
// marks the statement so that it can be killed.
var notSettings = []string{
	"query", "database", "default_format", "client_protocol_version", "query_id", "quota_key", "role",
	"compress", "decompress", "user", "password", "session_id", "session_timeout", "session_check",
	"wait_end_of_query", "buffer_size", "stacktrace", "async_insert", "wait_for_async_insert", "log_comment",
}

func readRequest(w http.ResponseWriter, r *http.Request, cfg Config) (*request, error) {
	// URL.Query would drop what it cannot parse, such as a bare semicolon, and with it the statement or a setting.
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, newException(codeBadArguments, "BAD_ARGUMENTS", "Cannot read the URL: %v", err)
	}
	q := &request{
		id:        values.Get("query_id"),
		readsOnly: r.Method != http.MethodPost,
		format:    cmp.Or(values.Get("default_format"), r.Header.Get("X-ClickHouse-Format"), "TabSeparated"),
		database:  cmp.Or(values.Get("database"), r.Header.Get("X-ClickHouse-Database")),
	}
	if err := q.readValues(values); err != nil {
		return nil, err
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" {
		return nil, newException(codeNotImplemented, "NOT_IMPLEMENTED", "Content-Encoding %s is not supported", encoding)
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		return nil, newException(codeNotImplemented, "NOT_IMPLEMENTED", "External tables are not supported")
	}
	return q, q.readStatement(values, http.MaxBytesReader(w, r.Body, cfg.MaxInsert), cfg.MaxStatement)
}

// readValues reads the URL parameters as statement parameters and settings.
func (q *request) readValues(values url.Values) error {
	if text := values.Get("client_protocol_version"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return newException(codeBadArguments, "BAD_ARGUMENTS", "client_protocol_version %q is not a number", text)
		}
		q.protocol = n
	}
	if values.Get("compress") == "1" {
		method := compress.LZ4
		if strings.EqualFold(values.Get("network_compression_method"), "ZSTD") {
			method = compress.ZSTD
		}
		q.compress = &method
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(name)
		if bare, ok := strings.CutPrefix(name, "param_"); ok {
			if !parameterName.MatchString(bare) {
				return newException(codeBadArguments, "BAD_ARGUMENTS", "Parameter name %q is not an identifier", bare)
			}
			q.params = append(q.params, param{name: bare, value: value})
			continue
		}
		if slices.Contains(notSettings, name) {
			continue
		}
		if !settingName.MatchString(name) {
			return newException(codeUnknownSetting, "UNKNOWN_SETTING", "Unknown setting %q", name)
		}
		q.settings = append(q.settings, setting{name: name, value: value})
	}
	return nil
}

// readStatement separates the statement from the rows of an insert. clickhouse-go sends the statement in the URL and
// the rows in the body; curl may send both in the body.
func (q *request) readStatement(values url.Values, body io.Reader, maxStatement int64) error {
	if values.Get("decompress") == "1" {
		body = compress.NewReader(body)
	}
	inURL := values.Get("query")
	if strings.EqualFold(verb(inURL), "INSERT") {
		rows, err := unlessEmpty(body)
		if err != nil {
			return err
		}
		q.insert = rows
		q.query = inURL
		q.parseFormat(rows != nil)
		if rows == nil && q.hasFormat {
			return newException(codeNoDataToInsert, "NO_DATA_TO_INSERT", "No data to insert")
		}
		return nil
	}
	inBody, err := io.ReadAll(io.LimitReader(body, maxStatement+1))
	if err != nil {
		return bodyException(err)
	}
	q.query = inURL
	if len(inBody) > 0 {
		q.query = strings.TrimPrefix(inURL+"\n", "\n") + string(inBody)
	}
	if int64(len(q.query)) > maxStatement {
		return newException(codeTooManyBytes, "TOO_MANY_BYTES", "Statement is longer than %d bytes", maxStatement)
	}
	if strings.EqualFold(verb(q.query), "INSERT") {
		if insert, format, rows, ok := splitInsert(q.query); ok {
			q.query, q.format, q.hasFormat, q.insert = insert, format, true, strings.NewReader(rows)
			return nil
		}
	}
	q.parseFormat(false)
	return nil
}

// parseFormat reads the FORMAT clause of the statement. If cut is set, it removes the clause, because the engine takes
// the format of an insert apart from the statement; the default is then Values.
func (q *request) parseFormat(cut bool) {
	at := formatClause.FindStringSubmatchIndex(q.query)
	if at == nil {
		if cut {
			q.format = "Values"
		}
		return
	}
	q.format, q.hasFormat = q.query[at[2]:at[3]], true
	if cut {
		q.query = q.query[:at[0]]
	}
}

// verb returns the first word of a statement, after white space and opening parentheses.
func verb(query string) string {
	m := firstWord.FindStringSubmatch(query)
	if m == nil {
		return ""
	}
	return m[1]
}

// unlessEmpty reads one byte ahead and returns nil for an empty body.
func unlessEmpty(body io.Reader) (io.Reader, error) {
	var first [1]byte
	_, err := io.ReadFull(body, first[:])
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, bodyException(err)
	}
	return io.MultiReader(bytes.NewReader(first[:]), body), nil
}

// bodyException returns the ClickHouse exception for a body that is too long or ended early.
func bodyException(err error) error {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		return newException(codeTooManyBytes, "TOO_MANY_BYTES", "Body is longer than %d bytes", tooLong.Limit)
	}
	return newException(codeCannotReadAll, "CANNOT_READ_ALL_DATA", "Cannot read the body: %v", err)
}

// prepare returns the SET statement for the mark and the request's settings. The values are quoted; the engine converts
// them to each setting's type.
func (q *request) prepare(mark string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "SET log_comment = %s", quote(mark))
	for _, s := range q.settings {
		fmt.Fprintf(&b, ", %s = %s", s.name, quote(s.value))
	}
	if q.readsOnly {
		b.WriteString(", readonly = 2") // no writes, whatever the other settings say
	}
	return b.String()
}

// quote returns s as a string literal of ClickHouse's SQL.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// quoteName returns s as a quoted identifier of ClickHouse's SQL.
func quoteName(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(s) + "`"
}
