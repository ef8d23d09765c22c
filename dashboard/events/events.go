// Package events has the list of events and the page of one.
package events

import (
	"cmp"
	"embed"
	"html/template"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/event"
)

// chip is a filter that is on, with the page without it.
type chip struct{ Text, Path string }

// eventsPage is the data of the list of events.
type eventsPage struct {
	Events      []*model.EventRow
	Unavailable string   // why the list could not be read
	Form        *ui.Form // the filters
	ui.EndpointChoices
	Chips           []chip
	Live            string // path of this list, for the script; empty: it is not followed
	Follow, Pause   string // paths of this list, followed and not
	Next            string // path of the older events; empty: there are none
	CSV, Deliveries string // paths of the same list as CSV, and of its deliveries
	Replay          string // path of the form that replays the list; empty: a replay cannot select it
	Recover         string // path of the form that recovers what failed at the endpoint; empty: the list is not about that
	Endpoint        string // name of the only endpoint of the list
	First           bool   // this is the first page
	Search          bool   // texts in bodies and headers are searched
	// Partial says that the search has ended before it reached the end of its time; Scanned is how many events it has
	// read.
	Partial bool
	Scanned int
	// Warnings are about paths that probably name nothing.
	Warnings []wire.Warning
	BaseURL  string
	Tabs     []model.StatusCount // nil: the list is a search
	Ranges   []ui.MenuItem       // the time menu
	Range    string              // path of the current one
	Chart    *ui.BarChart        // of the newest events that match; nil: there is none
	Receipts bool                // an event of the page has a receipt
	More     bool                // a filter is on whose field is folded
	Newer    string              // path that counts what arrives while the page is open; empty: it is not counted
	Arrived  string              // how many events that is; empty: none
	Choices  listChoices
	Query    string // of the page
}

// newerParam is the newest event that a page has, in the path that counts what arrived since: "none" if it has none.
const newerParam = "newer"

// countNewer lets the script count what arrives while the page is open, and counts it if it asks. A search costs too
// much for that, and a list with an end gets nothing new.
func (p *eventsPage) countNewer(query, asked url.Values) {
	if !p.First || p.Live != "" || p.Search || p.Form.Error != "" || p.Form.Value("until") != "" {
		return
	}
	newest := asked.Get(newerParam)
	if newest != "" {
		at := slices.IndexFunc(p.Events, func(e *model.EventRow) bool { return e.ID == newest })
		switch {
		case at > 0:
			p.Arrived = ui.Number(int64(at))
		case at < 0 && p.Next != "":
			p.Arrived = "over " + ui.Number(int64(len(p.Events)))
		case at < 0 && len(p.Events) > 0:
			p.Arrived = ui.Number(int64(len(p.Events)))
		}
	} else if newest = "none"; len(p.Events) > 0 {
		newest = p.Events[0].ID
	}
	p.Newer = listPath(query, newerParam, newest)
}

// addCounts adds the tabs, the time menu and, unless the counts are late, the chart. Searches have neither tabs nor
// chart: what they would cost is not known before.
func (p *eventsPage) addCounts(v *ui.Visit, query url.Values) error {
	first := maps.Clone(query)
	first.Del("cursor")
	for _, x := range event.TrafficRanges {
		p.Ranges = append(p.Ranges, ui.MenuItem{Path: with(first, "since", x.Name), Name: model.RangeText(x)})
	}
	p.Ranges = append(p.Ranges, ui.MenuItem{Path: with(first, "since", ""), Name: "any time"})
	p.Range = listPath(first)
	if p.Search || p.Live != "" || p.Form.Error != "" {
		return nil
	}
	all := maps.Clone(first)
	all.Del("status")
	all.Del("limit")
	n, err := model.CountEvents(v, all)
	if err != nil {
		return err
	}
	if n == nil { // the counts are late; the tabs stay
		n = &model.EventCounts{}
	}
	p.Tabs = []model.StatusCount{{Name: "All", Path: with(first, "status", ""), Current: first.Get("status") == ""}}
	for _, s := range n.ByStatus() {
		s.Path, s.Current = with(first, "status", s.Name), first.Get("status") == s.Name
		p.Tabs = append(p.Tabs, s)
	}
	p.Chart = n.Chart(all, p.Form.Value("status"))
	return nil
}

// with returns the list with another value of a parameter; empty: without it.
func with(query url.Values, name, value string) string {
	query = maps.Clone(query)
	if query.Set(name, value); value == "" {
		query.Del(name)
	}
	if name == "since" {
		query.Del("until")
	}
	return listPath(query)
}

// Marks are the states that an event can have at a destination.
func (p *eventsPage) Marks() []string { return ui.Statuses }

// Hidden are the filters that are on and have no field.
func (p *eventsPage) Hidden() (names []string) {
	for _, name := range []string{"destination_id", "run_id", "tenant"} {
		if p.Form.Value(name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// Last is the oldest event of the page; nil if there is none.
func (p *eventsPage) Last() *model.EventRow {
	if len(p.Events) == 0 {
		return nil
	}
	return p.Events[len(p.Events)-1]
}

// filters are the parameters of the API that the page passes on.
func filters() []string {
	names := []string{"since", "until", "q", "tenant"}
	for _, f := range event.Filters {
		names = append(names, f.Name)
	}
	return names
}

// searchPrefixes are the filters whose names have the path in a body or the name of a header: body[order.id]=42.
var searchPrefixes = []string{"body", "header"}

// listEvents shows the events that match the filters in the query, newest first.
func listEvents(v *ui.Visit) error {
	asked := v.R.URL.Query()
	if findByID(v, asked.Get("q")) {
		return nil
	}
	query, shown := eventsQuery(asked)
	incomplete := ""
	for _, prefix := range searchPrefixes {
		if shown.Get(prefix+"_path") != "" && shown.Get(prefix+"_value") == "" {
			incomplete = prefix + "_value"
		}
	}
	p := &eventsPage{
		Form: ui.NewForm(shown, ""), First: query.Get("cursor") == "",
		Search: query.Get("q") != "" || searchIn(query), BaseURL: v.Config.BaseURL, Query: v.R.URL.RawQuery,
	}
	var err error
	if p.Choices, err = readChoices(v); err != nil {
		return err
	}
	if incomplete != "" {
		p.EndpointChoices = ui.NewEndpointChoices(v, p.Form.Value("endpoint_id"))
		e, _ := ui.BadRequest(ui.Fault(incomplete, "is required: enter the value to look for"))
		v.Status = p.Form.SetError(e)
	} else if err := readEvents(v, query, p); err != nil {
		return err
	}
	setListLinks(v, query, asked.Get("tail") == "1", p)
	p.countNewer(query, asked)
	p.Receipts = slices.ContainsFunc(p.Events, func(e *model.EventRow) bool { return e.Processing != "none" })
	p.More = slices.ContainsFunc(foldedFilters, func(name string) bool { return p.Form.Value(name) != "" })
	if p.First && v.Part() == "" {
		if err := p.addCounts(v, query); err != nil {
			return err
		}
	}
	return v.Page("events", p)
}

// foldedFilters have their fields behind More filters.
var foldedFilters = []string{"processing", "source", "until", "body_path", "header_path"}

var eventID = regexp.MustCompile(`^evt_[0-9a-zA-Z]{26}$`)

// findByID opens the page of an event if the search is for its id.
func findByID(v *ui.Visit, search string) bool {
	search = strings.TrimSpace(search)
	if !eventID.MatchString(search) {
		return false
	}
	v.SendTo(ui.EventsPath + "/" + search)
	return true
}

// eventsQuery returns the query of the API, and the values of the form's fields. The form has the path and the value of
// a search in separate fields: body_path and body_value, header_path and header_value.
func eventsQuery(asked url.Values) (query, shown url.Values) {
	query = url.Values{"limit": {"50"}}
	shown = ui.FiltersOf(asked, filters())
	maps.Copy(query, shown)
	for _, prefix := range searchPrefixes {
		path, value := strings.TrimSpace(asked.Get(prefix+"_path")), asked.Get(prefix+"_value")
		if path != "" {
			query.Set(prefix+"["+path+"]", value)
			shown.Set(prefix+"_path", path)
			shown.Set(prefix+"_value", value)
		}
	}
	if cursor := asked.Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	return query, shown
}

// csvQuery is the query of the list as CSV.
func csvQuery(asked url.Values) url.Values {
	query, _ := eventsQuery(asked)
	query.Del("cursor")
	return query
}

// searchIn reports whether a query has a filter by a body or a header.
func searchIn(query url.Values) bool {
	for name := range query {
		if strings.HasSuffix(name, "]") {
			return true
		}
	}
	return false
}

// readEvents reads the events and the endpoints into p. A filter that the API refuses is an error at its field.
func readEvents(v *ui.Visit, query url.Values, p *eventsPage) error {
	var list wire.EventSearch
	err := v.Get("/v1/events", query, &list)
	switch e, refused := ui.BadRequest(err); {
	case ui.IsUnavailable(err):
		p.Unavailable, v.Status = ui.MessageOf(err), ui.StatusOf(err)
	case refused:
		for _, prefix := range searchPrefixes {
			if strings.HasPrefix(e.Param, prefix+"[") {
				e.Param = prefix + "_path"
			}
		}
		v.Status = p.Form.SetError(e)
	case err != nil:
		return err
	}
	p.Events, p.Partial, p.Scanned, p.Warnings = model.EventRows(list.Data), list.Partial, list.Scanned, list.Warnings
	if list.NextCursor != "" {
		p.Next = listPath(query, "cursor", list.NextCursor)
	}
	p.EndpointChoices = ui.NewEndpointChoices(v, p.Form.Value("endpoint_id"))
	for _, e := range p.Events {
		e.SetNames(v)
	}
	return nil
}

// setListLinks sets the paths that lead from the list to others. Only the first page can be followed: later ones do not
// change.
func setListLinks(v *ui.Visit, query url.Values, tail bool, p *eventsPage) {
	first := maps.Clone(query)
	first.Del("cursor")
	p.Pause = listPath(first)
	filter := strings.TrimPrefix(p.Pause, ui.EventsPath)
	p.CSV, p.Deliveries = ui.CSVLink("events", nil)+filter, ui.CSVLink("deliveries", nil)+filter
	p.Follow = listPath(first, "tail", "1")
	if p.First {
		p.Replay = model.ReplayLink(first, p.Last())
	}
	if endpoint := first.Get("endpoint_id"); endpoint != "" && !strings.Contains(endpoint, ",") {
		p.Endpoint = v.EndpointName(endpoint)
		if oldest := p.Last(); first.Get("status") == "failed" && oldest != nil {
			since := cmp.Or(first.Get("since"), time.Time(oldest.ReceivedAt).UTC().Truncate(time.Second).Format(time.RFC3339))
			p.Recover = ui.WithQuery(ui.NewRecoveryPath, nil, "endpoint_id", endpoint, "since", since)
		}
	}
	if tail && p.First && p.Form.Error == "" { // also while the store is unavailable, which ends
		p.Live, v.SelfReloading = p.Follow, true
	}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if name == "limit" {
			continue
		}
		label := strings.TrimSuffix(name, "_id")
		if name == "q" {
			label = "text"
		}
		value := first.Get(name)
		for _, x := range slices.Concat(p.Endpoints, p.Destinations) {
			if x.Value == value {
				value = x.Text
			}
		}
		without, text := maps.Clone(first), label+" "+value
		without.Del(name)
		p.Chips = append(p.Chips, chip{Text: ui.Truncate(text, 60), Path: listPath(without)})
	}
}

// listPath returns the path of the list for a query of the API and further parameters of the page.
func listPath(query url.Values, more ...string) string {
	page := url.Values{}
	for name, values := range query {
		prefix, path, search := strings.Cut(strings.TrimSuffix(name, "]"), "[")
		switch {
		case name == "limit":
		case search:
			page.Set(prefix+"_path", path)
			page.Set(prefix+"_value", values[0])
		default:
			page[name] = values
		}
	}
	return ui.WithQuery(ui.EventsPath, page, more...)
}

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{
		Pages: files,
		Routes: []ui.Route{
			{"GET", ui.EventsPath, ui.Reader, listEvents},
			{"POST", ui.EventsPath + "/replay", ui.Writer, ui.Submit(replayTicked)},
			{"POST", ui.EventsPath + "/erase", ui.Writer, ui.Submit(eraseTicked)},
			{"POST", ui.EventsPath + "/choices", ui.Reader, ui.Submit(saveChoices)},
			{"GET", ui.EventPath, ui.Reader, showEvent},
			{"GET", ui.EventPath + "/attempts", ui.Reader, listAttempts},
			{"GET", ui.EventPath + "/body", ui.Reader, downloadBody},
			{"POST", ui.EventPath + "/replay", ui.Writer, ui.Submit(replayEvent)},
			{"POST", ui.EventPath + "/erase", ui.Writer, erasePayload},
		},
		Lists: map[string]ui.CSVList{
			"events": {API: "/v1/events", Query: csvQuery, Columns: "id received_at endpoint_id type status reason why " +
				"source verification processing size_bytes"},
			"deliveries": {API: "/v1/events", Query: csvQuery, Each: "deliveries", Columns: "id received_at endpoint_id " +
				"type deliveries.destination_id deliveries.status deliveries.reason"},
		},
		Functions: func(*ui.Dashboard) template.FuncMap {
			return template.FuncMap{"failure": failureText, "details": detailsText, "http": httpStatus}
		},
	}
}

//go:embed pages
var files embed.FS
