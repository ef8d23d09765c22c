package dashboard

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/event"
)

const eventsPath = "/app/events"

// eventRow is an event in a list, as the API says it.
type eventRow struct {
	wire.EventRow
	EndpointName string `json:"-"` // empty: the endpoint was deleted, or could not be read
}

// eventRows returns rows of an answer, without the names of their endpoints.
func eventRows(of []wire.EventRow) []*eventRow {
	rows := make([]*eventRow, len(of))
	for i := range of {
		rows[i] = &eventRow{EventRow: of[i]}
	}
	return rows
}

func (e *eventRow) why() (string, wire.Why) { return e.Why, e.WhyDetails }

// Captured reports whether the event was stored and had no destination to go to.
func (e *eventRow) Captured() bool { return isCaptured(&e.EventBase, len(e.Deliveries)) }

// Held reports whether the event waits at every destination where it is open.
func (e *eventRow) Held() bool { return isHeld(&e.EventBase, e.states()) }

func (e *eventRow) states() []event.Status {
	all := make([]event.Status, len(e.Deliveries))
	for i, d := range e.Deliveries {
		all[i] = d.Status
	}
	return all
}

// isCaptured reports whether an event with that many deliveries was stored and had no destination to go to.
func isCaptured(e *wire.EventBase, deliveries int) bool {
	return deliveries == 0 && e.Status == event.Skipped && textOf(e.Reason) == string(event.NoDestination)
}

// isHeld reports whether an event waits at every destination where it is open, from the states of its deliveries.
func isHeld(e *wire.EventBase, at []event.Status) bool {
	return e.Status == event.Pending && slices.Contains(at, event.Held) &&
		!slices.Contains(at, event.Pending) && !slices.Contains(at, event.Retrying)
}

// Marks are the states of the event at its destinations.
func (e *eventRow) Marks() marks {
	all := make([]status, len(e.Deliveries))
	for i, d := range e.Deliveries {
		all[i] = newStatus(string(d.Status))
	}
	return newMarks(all)
}

// chip is a filter that is on, with the page without it.
type chip struct{ Text, Path string }

// eventsPage is the data of the list of events.
type eventsPage struct {
	Events      []*eventRow
	Unavailable string // why the list could not be read
	Form        *form  // the filters
	endpointChoices
	Chips           []chip
	Live            string // path of this list, for the script; empty: it is not followed
	Follow, Pause   string // paths of this list, followed and not
	Next            string // path of the older events; empty: there are none
	CSV, Deliveries string // paths of the same list as CSV, and of its deliveries
	Replay          string // path of the form that replays the list; empty: a replay cannot select it
	First           bool   // this is the first page
	Search          bool   // texts in bodies and headers are searched
	// Partial says that the search has ended before it reached the end of its time; Scanned is how many events it has
	// read.
	Partial bool
	Scanned int
	// Warnings are about paths that probably name nothing.
	Warnings []wire.Warning
	BaseURL  string
}

// Marks are the states that an event can have at a destination.
func (p *eventsPage) Marks() []string { return statuses }

// Hidden are the filters that are on and have no field.
func (p *eventsPage) Hidden() (names []string) {
	for _, name := range []string{"destination_id", "run_id"} {
		if p.Form.Value(name) != "" {
			names = append(names, name)
		}
	}
	return names
}

// Last is the oldest event of the page; nil if there is none.
func (p *eventsPage) Last() *eventRow {
	if len(p.Events) == 0 {
		return nil
	}
	return p.Events[len(p.Events)-1]
}

// filters are the parameters of the API that the page passes on.
func filters() []string {
	names := []string{"since", "until", "q"}
	for _, f := range event.Filters {
		names = append(names, f.Name)
	}
	return names
}

// filterChoices are the values of a filter of the API.
func filterChoices(name string) []option {
	i := slices.IndexFunc(event.Filters, func(f event.Filter) bool { return f.Name == name })
	return plainOptions(event.Filters[i].AllowedValues...)
}

// searchPrefixes are the filters whose names have the path in a body or the name of a header: body[order.id]=42.
var searchPrefixes = []string{"body", "header"}

// listEvents shows the events that match the filters in the query, newest first.
func listEvents(v *visit) error {
	asked := v.r.URL.Query()
	if findByID(v, asked.Get("q")) {
		return nil
	}
	query, shown := eventsQuery(asked)
	p := &eventsPage{
		Form: newForm(shown, ""), First: query.Get("cursor") == "",
		Search: query.Get("q") != "" || searchIn(query), BaseURL: v.cfg.BaseURL,
	}
	if err := readEvents(v, query, p); err != nil {
		return err
	}
	setListLinks(v, query, asked.Get("tail") == "1", p)
	return v.page("events", p)
}

var eventID = regexp.MustCompile(`^evt_[0-9a-zA-Z]{26}$`)

// findByID opens the page of an event if the search is for its id.
func findByID(v *visit, q string) bool {
	q = strings.TrimSpace(q)
	if !eventID.MatchString(q) {
		return false
	}
	v.sendTo(eventsPath + "/" + q)
	return true
}

// eventsQuery returns the query of the API, and the values of the form's fields. The form has the path and the value of
// a search in separate fields: body_path and body_value, header_path and header_value.
func eventsQuery(asked url.Values) (query, shown url.Values) {
	query = url.Values{"limit": {"50"}}
	shown = filtersOf(asked, filters())
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
func readEvents(v *visit, query url.Values, p *eventsPage) error {
	var list wire.EventSearch
	err := v.get("/v1/events", query, &list)
	switch e, refused := badRequest(err); {
	case isUnavailable(err):
		p.Unavailable, v.status = messageOf(err), statusOf(err)
	case refused:
		for _, prefix := range searchPrefixes {
			if strings.HasPrefix(e.Param, prefix+"[") {
				e.Param = prefix + "_path"
			}
		}
		v.status = p.Form.setError(e)
	case err != nil:
		return err
	}
	p.Events, p.Partial, p.Scanned, p.Warnings = eventRows(list.Data), list.Partial, list.Scanned, list.Warnings
	if list.NextCursor != "" {
		p.Next = listPath(query, "cursor", list.NextCursor)
	}
	p.endpointChoices = newEndpointChoices(v, p.Form.Value("endpoint_id"))
	for _, e := range p.Events {
		e.EndpointName = v.endpointName(e.EndpointID)
	}
	return nil
}

// setListLinks sets the paths that lead from the list to others. Only the first page can be followed: later ones do not
// change.
func setListLinks(v *visit, query url.Values, tail bool, p *eventsPage) {
	first := maps.Clone(query)
	first.Del("cursor")
	p.Pause = listPath(first)
	filter := strings.TrimPrefix(p.Pause, eventsPath)
	p.CSV, p.Deliveries = csvLink("events", nil)+filter, csvLink("deliveries", nil)+filter
	p.Follow = listPath(first, "tail", "1")
	if p.First {
		p.Replay = replayLink(first, p.Last())
	}
	if tail && p.First && p.Form.Error == "" { // also while the store is unavailable, which ends
		p.Live, v.selfReloading = p.Follow, true
	}
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if name == "limit" {
			continue
		}
		label := strings.TrimSuffix(name, "_id")
		if name == "q" {
			label = "text"
		}
		without, text := maps.Clone(first), label+" "+first.Get(name)
		without.Del(name)
		p.Chips = append(p.Chips, chip{Text: truncate(text, 60), Path: listPath(without)})
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
	return withQuery(eventsPath, page, more...)
}
