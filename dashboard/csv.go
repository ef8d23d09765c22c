package dashboard

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

// csvList is a list that can be downloaded: which call of the API has it, with which filters, and what a row is. The
// columns are members of a row of the API, such as actor.id.
type csvList struct {
	api     string // path of the API; {id} stands for the parameter id of the page
	filters []string
	columns []string
	// each is a list in a row, such as deliveries: the file then has a line for each of its elements, whose columns
	// begin with its name.
	each string
}

// csvLists are the lists by the name in their path.
var csvLists = map[string]csvList{
	"events": {api: "/v1/events", filters: filters(), columns: strings.Fields("id received_at endpoint_id type status " +
		"reason why source verification processing size_bytes")},
	"deliveries": {api: "/v1/events", filters: filters(), each: "deliveries", columns: strings.Fields("id received_at " +
		"endpoint_id type deliveries.destination_id deliveries.status deliveries.reason")},
	"findings": {api: "/v1/findings", filters: strings.Fields("status severity source since"), columns: strings.Fields(
		"id name rule severity status masked first_seen last_seen occurrences environment release test unverified")},
	"audit": {api: "/v1/audit", filters: auditFilters, columns: strings.Fields("id at actor.type actor.id actor.name " +
		"action entity.type entity.id changes remote_ip request_id use.count use.last_at use.node related_id")},
	"replays": {api: "/v1/replays", filters: jobFilters, columns: strings.Fields("run_id state since until " +
		"events queued delivered failed skipped created_at created_by")},
	"recoveries": {api: "/v1/recoveries", filters: jobFilters, columns: strings.Fields("id endpoint_id " +
		"destination_id state since until total pending queued delivered failed skipped stop_reason rate_per_second " +
		"created_at finished_at created_by")},
	"recovery-items": {api: "/v1/recoveries/{id}/items", filters: []string{"state"}, columns: strings.Fields("id " +
		"recovery_id event_id event_type destination_id state skipped_reason canary attempts last_response_status " +
		"last_error_code updated_at")},
	"alerts": {api: "/v1/alerts/history", filters: alertFilters, columns: strings.Fields("id rule state endpoint_id " +
		"destination_id recovery_id value threshold fired_at resolved_at")},
	"usage-days": {api: "/v1/usage", filters: periodFilter, each: "daily", columns: strings.Fields("daily.date " +
		"daily.received daily.sent daily.findings daily.total daily.bytes")},
	"usage-30-days": {api: "/v1/usage/daily", each: "daily", columns: strings.Fields("daily.date daily.received " +
		"daily.sent daily.findings daily.total daily.bytes")},
	"usage-endpoints": {api: "/v1/usage", filters: periodFilter, each: "by_endpoint", columns: strings.Fields(
		"by_endpoint.endpoint_id by_endpoint.received by_endpoint.sent by_endpoint.total by_endpoint.bytes")},
}

// csvLink is the path of a list as CSV with its filters.
func csvLink(name string, query url.Values) string { return withQuery(csvPath+"/"+name, query) }

// downloadCSV streams a list with the filters in the query as CSV. If a page after the first cannot be read, the
// connection is closed, so that nobody takes the beginning for the whole.
func downloadCSV(v *visit) error {
	name, asked := v.vars["list"], v.r.URL.Query()
	list, ok := csvLists[name]
	if !ok {
		return web.Missing("There is no such list.")
	}
	s := &csvStream{csvList: list, v: v, until: v.deps.Now().Add(maxCSVTime), query: filtersOf(asked, list.filters)}
	s.api = strings.ReplaceAll(list.api, "{id}", url.PathEscape(asked.Get("id")))
	if list.api == "/v1/events" {
		s.query, _ = eventsQuery(asked)
		s.query.Del("cursor")
	}
	if list.each == "" || list.api == "/v1/events" {
		s.query.Set("limit", strconv.Itoa(csvPage))
	}
	rows, cursor, err := s.read("")
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	s.out = csv.NewWriter(v.w)
	return s.writeAll(rows, cursor)
}

// csvStream is one download.
type csvStream struct {
	csvList
	v       *visit
	api     string
	query   url.Values
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
		if strings.HasPrefix(s.api, "/v1/usage") {
			err = s.v.get(s.api, s.query, &whole)
			page.Data = []map[string]any{whole}
		} else {
			err = s.v.get(s.api, query, &page)
		}
		x, ok := errors.AsType[*apiError](err)
		if !ok || x.Status != http.StatusTooManyRequests || cursor == "" || !s.v.deps.Now().Before(s.until) {
			return page.Data, page.NextCursor, err
		}
		wait := time.NewTimer(min(max(x.RetryAfter, time.Second), maxCSVWait))
		select {
		case <-wait.C:
		case <-s.v.r.Context().Done():
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
		if !whole || pages == maxCSVPages || !s.v.deps.Now().Before(s.until) {
			last := make([]string, len(s.columns))
			last[0] = "There are more rows: a file has at most " + number(maxCSVRows) + ", and is made within " +
				durationText(maxCSVTime.Seconds()) + ". Narrow the filter."
			s.writeLine(last...)
			return s.flush()
		}
		err := s.flush()
		if err == nil {
			_, err = s.v.checkSession()
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
		if s.each != "" {
			lines, _ = row[s.each].([]any)
		}
		for _, line := range lines {
			if s.written == maxCSVRows {
				return false
			}
			if s.each != "" {
				row[s.each] = line
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
	_ = http.NewResponseController(s.v.w).Flush() // without it the last part is sent at the end
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
	text := truncate(plain(textOfJSON(value)), maxCSVCell)
	text = afterSeparator.ReplaceAllString(text, "$1'$2")
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, " \u00a0"))
	if strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", first) {
		return "'" + text
	}
	return text
}
