package ui

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/pkg/web"
)

// csvPath is the parent path of all CSV downloads: /app/csv/audit?actor=usr_…, with the filters of the list.
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

// CSVList describes the download of a list: its API call, its filters and its rows.
type CSVList struct {
	API     string // path of the API; {id} stands for the parameter id of the page
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
// connection is closed, so that a partial file is not taken for the whole list.
func downloadCSV(v *Visit) error {
	name, asked := v.Vars["list"], v.R.URL.Query()
	list, ok := v.Lists[name]
	if !ok {
		return web.Missing("There is no such list.")
	}
	s := &csvStream{CSVList: list, v: v, until: v.Now().Add(maxCSVTime), query: FiltersOf(asked, list.Filters),
		columns: strings.Fields(list.Columns)}
	s.api = strings.ReplaceAll(list.API, "{id}", url.PathEscape(asked.Get("id")))
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
func (s *csvStream) read(cursor string) (rows []gjson.Result, next string, err error) {
	query := maps.Clone(s.query)
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	for {
		var page json.RawMessage
		err = s.v.Get(s.api, query, &page)
		x, ok := errors.AsType[*APIError](err)
		switch {
		case ok && x.Status == http.StatusTooManyRequests && cursor != "" && s.v.Now().Before(s.until):
			if wait.For(s.v.R.Context(), min(max(x.RetryAfter, time.Second), maxCSVWait)) != nil {
				return nil, "", err
			}
			continue
		case s.Whole:
			return []gjson.Result{gjson.ParseBytes(page)}, "", err
		}
		return gjson.GetBytes(page, "data").Array(), gjson.GetBytes(page, "next_cursor").String(), err
	}
}

// writeAll writes the rows of the first page and of those after it, as far as the bounds allow.
func (s *csvStream) writeAll(rows []gjson.Result, cursor string) error {
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
func (s *csvStream) writeRows(rows []gjson.Result) (whole bool) {
	for _, row := range rows {
		lines := []gjson.Result{row}
		if s.Each != "" {
			lines = row.Get(s.Each).Array()
		}
		for _, line := range lines {
			if s.written == maxCSVRows {
				return false
			}
			cells := make([]string, len(s.columns))
			for i, column := range s.columns {
				if inner, ok := strings.CutPrefix(column, s.Each+"."); ok && s.Each != "" {
					cells[i] = csvCell(line.Get(inner))
				} else {
					cells[i] = csvCell(row.Get(column))
				}
			}
			s.writeLine(cells...)
			s.written++
		}
	}
	return true
}

// writeLine keeps an error for flush.
func (s *csvStream) writeLine(cells ...string) { _ = s.out.Write(cells) }

// flush sends buffered output to the client.
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
func csvCell(value gjson.Result) string {
	text := shownText(value, ", ")
	if value.Type == gjson.False {
		text = value.Raw
	}
	text = Truncate(Plain(text), maxCSVCell)
	text = afterSeparator.ReplaceAllString(text, "$1'$2")
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, " \u00a0"))
	if strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", first) {
		return "'" + text
	}
	return text
}
