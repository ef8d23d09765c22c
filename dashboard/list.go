package dashboard

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
)

// readRows reads a list of the API, or its first rows.
func readRows[T any](v *visit, api string, query url.Values) (l wire.List[T], err error) {
	return l, v.get(api, query, &l)
}

// listPage is a page of a list of the API.
type listPage[T any] struct {
	Rows  []T
	First bool   // it is the first page
	Next  string // path of the next page; empty: there is none
}

// readList reads the page of the list at api that the person asks for. query are further parameters of the API, shown
// those of the page, which is at path.
func readList[T any](v *visit, api, path string, query, shown url.Values) (p listPage[T], err error) {
	asked, cursor := url.Values{"limit": {"50"}}, v.r.URL.Query().Get("cursor")
	maps.Copy(asked, query)
	if p.First = cursor == ""; !p.First {
		asked.Set("cursor", cursor)
	}
	rows, err := readRows[T](v, api, asked)
	if p.Rows = rows.Data; rows.NextCursor != "" {
		p.Next = withQuery(path, shown, "cursor", rows.NextCursor)
	}
	return p, err
}

// formList is a page of a list with a form beside it, such as that of a new thing.
type formList[T any] struct {
	listPage[T]
	Form *form
}

// listOf returns what shows the list at api on a page of that name, which is at path, with a form.
func listOf[T any](page, api, path string) func(*visit, *form) error {
	return func(v *visit, f *form) error {
		list, err := readList[T](v, api, path, nil, nil)
		if err != nil {
			return err
		}
		return v.page(page, formList[T]{list, f})
	}
}

// withNewForm returns the handler of a page with an empty form.
func withNewForm(page func(*visit, *form) error) func(*visit) error {
	return func(v *visit) error { return page(v, newForm(url.Values{}, "")) }
}

// withQuery returns a path with parameters and further ones, which are names and values.
func withQuery(path string, parameters url.Values, more ...string) string {
	query := url.Values{}
	maps.Copy(query, parameters)
	for i := 0; i < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// filteredList is a list of the API with its filters, all of which are in the page's URL, so that a link shows the same
// list to everybody.
type filteredList[T any] struct {
	listPage[T]
	// Filters has the values of the filter's fields, and the error of one that the API refuses.
	Filters     *form
	Filtered    bool   // a filter is on
	CSV         string // path of the same list as CSV
	Unavailable string // why the list could not be read
	ListPath    string // of the list without filters

	names []string
}

// listRows reads a page of the list at api. names are the filters: parameters of the page, which is at path, and of the
// API.
func listRows[T any](v *visit, api, path string, names []string) (*filteredList[T], error) {
	shown := filtersOf(v.r.URL.Query(), names)
	return listFiltered[T](v, api, path, names, shown, shown)
}

// listFiltered is listRows with filters whose values in the page's URL, shown, are others than those of the API. A
// filter that the API refuses and a store that is unavailable are no error: the page says so.
func listFiltered[T any](v *visit, api, path string, names []string, query, shown url.Values) (*filteredList[T],
	error) {
	l := &filteredList[T]{Filters: newForm(shown, ""), Filtered: len(shown) > 0, ListPath: path, names: names}
	var err error
	l.listPage, err = readList[T](v, api, path, query, shown)
	switch x, refused := badRequest(err); {
	case isUnavailable(err):
		l.Unavailable, v.status = messageOf(err), statusOf(err)
	case refused && (x.Param == "cursor" || slices.Contains(names, x.Param)):
		v.status = l.Filters.setError(x)
	case err != nil:
		return nil, err
	}
	return l, nil
}

// jobList is a filteredList of jobs of endpoints, such as replays, with the choices of its filters.
type jobList[T any] struct {
	*filteredList[T]
	endpointChoices
	States []option
}

// jobFilters are the filters of a jobList.
var jobFilters = []string{"state", "endpoint_id"}

// listJobs reads a page of the list /v1/NAME, which is shown at /app/NAME. states are the choices of the filter of
// states.
func listJobs[T any](v *visit, name string, states []string) (l *jobList[T], err error) {
	l = &jobList[T]{}
	if l.filteredList, err = listRows[T](v, "/v1/"+name, "/app/"+name, jobFilters); err != nil {
		return nil, err
	}
	l.endpointChoices = newEndpointChoices(v, l.Filters.Value("endpoint_id"))
	l.CSV = csvLink(name, l.Filters.values)
	for _, s := range states {
		l.States = append(l.States, option{Value: s, Text: strings.ReplaceAll(s, "_", " ")})
	}
	return l, nil
}

// endpointChoices are the endpoints that a form offers.
type endpointChoices struct {
	Endpoints []option
	TooMany   bool // endpoints are chosen by their id, because there are more than a choice can show
}

// maxEndpointChoices is how many endpoints a choice shows.
const maxEndpointChoices = 100

// newEndpointChoices returns the newest endpoints and chosen, the id of an endpoint or "", even if it was deleted: its
// events stay.
func newEndpointChoices(v *visit, chosen string) (c endpointChoices) {
	page, more := v.deps.Endpoints.Endpoints(v.person.Account, 0, maxEndpointChoices)
	for _, e := range page {
		c.Endpoints = append(c.Endpoints, option{Value: e.ID, Text: e.Name})
	}
	if c.TooMany = more; chosen != "" && !more && v.endpointName(chosen) == "" {
		c.Endpoints = append(c.Endpoints, option{Value: chosen, Text: chosen})
	}
	return c
}

// endpointOf returns an endpoint of the person's account as it is stored; nil if there is none.
func endpointOf(v *visit, id string) *config.Endpoint {
	if e, _ := v.deps.Endpoints.Endpoint(id); e != nil && e.Account == v.person.Account {
		return e
	}
	return nil
}

// endpointName returns the name of an endpoint; empty if it was deleted.
func (v *visit) endpointName(id string) string {
	if e := endpointOf(v, id); e != nil {
		return e.Name
	}
	return ""
}

// filtersOf returns the filters that a query has, without the spaces around them.
func filtersOf(asked url.Values, names []string) url.Values {
	out := url.Values{}
	for _, name := range names {
		if text := strings.TrimSpace(asked.Get(name)); text != "" {
			out.Set(name, text)
		}
	}
	return out
}

// With returns the path of the first page of the list with one filter set to another value.
func (l *filteredList[T]) With(name string, value any) string {
	return withQuery(l.ListPath, filtersOf(l.Filters.values, l.names), name, textOf(value))
}

// FirstPath returns the path of the first page of the list with its filters.
func (l *filteredList[T]) FirstPath() string {
	return withQuery(l.ListPath, filtersOf(l.Filters.values, l.names))
}

// maxRows is how many rows a page of a list shows whose things are in memory.
const maxRows = 50

// pager is where a page stands in its list, for the template "pager".
type pager struct {
	First, Last, Total int64  // number of the first and the last row of the page, and of all
	Previous, Next     string // paths of the pages before and after; empty: there is none
}

// paginate returns the rows of the page that ?page= names, of the list at path. What names no page is the first one,
// and what lies behind the end the last.
func paginate[T any](v *visit, path string, rows []T) ([]T, pager) {
	pages := max(1, (len(rows)+maxRows-1)/maxRows)
	page := 1
	if n, err := strconv.Atoi(v.r.URL.Query().Get("page")); err == nil {
		page = max(1, min(n, pages))
	}
	from, to := (page-1)*maxRows, min(page*maxRows, len(rows))
	p := pager{First: int64(from + 1), Last: int64(to), Total: int64(len(rows))}
	if page > 1 {
		p.Previous = path + "?page=" + strconv.Itoa(page-1)
	}
	if page < pages {
		p.Next = path + "?page=" + strconv.Itoa(page+1)
	}
	return rows[from:to], p
}
