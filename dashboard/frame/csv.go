package frame

import (
	"encoding/csv"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/web"
)

// csvPath is below which lists can be downloaded as CSV: /app/csv/audit?actor=usr_…, with the filters of the list.
const csvPath = "/app/csv"

// Bounds of a file. What is beyond maxCSVRows is left out, and the last line says so.
const (
	maxCSVRows = 10_000
	maxCSVTime = 45 * time.Second // the answer has a minute
	csvPage    = 100              // rows of a call of the API
	// maxCSVPages bounds the calls: a search may return pages without rows.
	maxCSVPages = 500
	maxCSVWait  = 2 * time.Second // for the API's limit of requests
)

// CSVList is a list that can be downloaded: which call of the API has it, with which filters, and what a row is.
type CSVList struct {
	Api     string // path of the API; {id} stands for the parameter id of the page
	Filters []string
	// query makes the query of the API from that of the page; nil: it has the filters alone.
	Query func(asked url.Values) url.Values
	Whole bool // the API answers with one object in place of pages
	// columns are members of a row of the API, such as actor.id, separated by spaces.
	Columns string
	// each is a list in a row, such as deliveries: the file then has a line for each of its elements, whose columns
	// begin with its name.
	Each string
}

// CSVLink is the path of a list as CSV with its filters.
func CSVLink(name string, query url.Values) string { return WithQuery(csvPath+"/"+name, query) }

// downloadCSV streams a list with the filters in the query as CSV. If a page after the first cannot be read, the
// connection is closed, so that nobody takes the beginning for the whole.
func downloadCSV(v *Visit) error {
	name, asked := v.Vars["list"], v.R.URL.Query()
	list, ok := v.Lists[name]
	if !ok {
		return web.Missing("There is no such list.")
	}
	s := &csvStream{CSVList: list, v: v, until: v.Now().Add(maxCSVTime), query: FiltersOf(asked, list.Filters),
		columns: strings.Fields(list.Columns)}
	s.api = strings.ReplaceAll(list.Api, "{id}", url.PathEscape(asked.Get("id")))
	if list.Query != nil {
		s.query = list.Query(asked)
	}
	if !list.Whole {
		s.query.Set("limit", strconv.Itoa(csvPage))
	}
	rows, cursor, err := s.read("")
	if err != nil {
		return err
	}
	h := v.W.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	s.out = csv.NewWriter(v.W)
	return s.writeAll(rows, cursor)
}

// csvStream is one download.
type csvStream struct {
	CSVList
	v       *Visit
	api     string
	query   url.Values
	columns []string
	out     *csv.Writer
	written int // lines, without the headings
	until   time.Time
}

// read reads a page of the list. A call beyond the limit of requests is made again when the API allows it.
func (s *csvStream) read(cursor string) (rows []map[string]any, next string, err error) {
	query := maps.Clone(s.query)
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	for {
		var page wire.List[map[string]any]
		var whole map[string]any
		if s.Whole {
			err = s.v.Get(s.api, s.query, &whole)
			page.Data = []map[string]any{whole}
		} else {
			err = s.v.Get(s.api, query, &page)
		}
		x, ok := errors.AsType[*APIError](err)
		if !ok || x.Status != http.StatusTooManyRequests || cursor == "" || !s.v.Now().Before(s.until) {
			return page.Data, page.NextCursor, err
		}
		wait := time.NewTimer(min(max(x.RetryAfter, time.Second), maxCSVWait))
		select {
		case <-wait.C:
		case <-s.v.R.Context().Done():
			wait.Stop()
			return nil, "", err
		}
	}
}

// writeAll writes the rows of the first page and of those after it, as far as the bounds allow.
func (s *csvStream) writeAll(rows []map[string]any, cursor string) error {
	s.writeLine(s.columns...)
	for pages := 1; ; pages++ {
		whole := s.writeRows(rows)
		if whole && cursor == "" {
			return s.flush()
		}
		if !whole || pages == maxCSVPages || !s.v.Now().Before(s.until) {
			last := make([]string, len(s.columns))
			last[0] = "There are more rows: a file has at most " + Number(maxCSVRows) + ", and is made within " +
				DurationText(maxCSVTime.Seconds()) + ". Narrow the filter."
			s.writeLine(last...)
			return s.flush()
		}
		err := s.flush()
		if err == nil {
			_, err = s.v.CheckSession()
		}
		if err == nil {
			rows, cursor, err = s.read(cursor)
		}
		if err != nil {
			return err
		}
	}
}

// writeRows writes rows until the file is full; whole is false if some of them are left out.
func (s *csvStream) writeRows(rows []map[string]any) (whole bool) {
	for _, row := range rows {
		lines := []any{nil}
		if s.Each != "" {
			lines, _ = row[s.Each].([]any)
		}
		for _, line := range lines {
			if s.written == maxCSVRows {
				return false
			}
			if s.Each != "" {
				row[s.Each] = line
			}
			cells := make([]string, len(s.columns))
			for i, column := range s.columns {
				cells[i] = csvCell(member(row, column))
			}
			s.writeLine(cells...)
			s.written++
		}
	}
	return true
}

// writeLine keeps an error for flush.
func (s *csvStream) writeLine(cells ...string) { _ = s.out.Write(cells) }

// flush sends what was written to the client.
func (s *csvStream) flush() error {
	s.out.Flush()
	_ = http.NewResponseController(s.v.W).Flush() // without it the last part is sent at the end
	return s.out.Error()
}

// maxCSVCell bounds a cell in bytes; programs that read the file have a bound of 32,767 characters.
const maxCSVCell = 16 << 10

// afterSeparator finds what a spreadsheet would run as a formula inside a text: where the list separator is ; or a tab,
// it begins another cell there, whatever the quotes.
var afterSeparator = regexp.MustCompile(`([;\t\r\n][\s\x{a0}"]*)([=+@|%＝＋－＠-])`)

// csvCell is a value of the API as a cell. A spreadsheet would run a text that others wrote as a formula if it began
// with one of these characters (CWE-1236); behind an apostrophe it is a text. Invisible characters are visible.
func csvCell(value any) string {
	text := Truncate(Plain(TextOfJSON(value)), maxCSVCell)
	text = afterSeparator.ReplaceAllString(text, "$1'$2")
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, " \u00a0"))
	if strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", first) {
		return "'" + text
	}
	return text
}
