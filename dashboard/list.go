package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
)

// filteredList is a list of the API with its filters, all of which are in the page's URL, so that a link shows the same
// list to everybody.
type filteredList struct {
	// Filters has the values of the filter's fields, and the error of one that the API refuses.
	Filters *form
	// Filtered says that a filter is on, First that this is the first page.
	Filtered, First bool
	Next            string // path of the next page; empty: there is none
	CSV             string // path of the same list as CSV
	Unavailable     string // why the list could not be read
	ListPath        string // of the list without filters

	names []string
}

// listRows reads a page of the list at api into rows, a slice of its rows. names are the filters: parameters of the
// page and of the API. path is the page. A filter that the API refuses and a store that is unavailable are no error:
// the page says so.
func listRows[T any](v *visit, api, path string, names []string, rows *[]T) (*filteredList, error) {
	asked := v.r.URL.Query()
	l := &filteredList{First: asked.Get("cursor") == "", ListPath: path, names: names}
	query, shown := url.Values{"limit": {"50"}}, filtersOf(asked, names)
	for name, values := range shown {
		query[name], l.Filtered = values, true
	}
	if !l.First {
		query.Set("cursor", asked.Get("cursor"))
	}
	l.Filters = newForm(shown, "")
	var list struct {
		Data       []T    `json:"data"`
		NextCursor string `json:"next_cursor"`
	}
	err := v.get(api, query, &list)
	switch x, ok := errors.AsType[*apiError](err); {
	case ok && x.isUnavailable():
		l.Unavailable, v.status = sentence(x.Message), x.Status
	case ok && x.Status == http.StatusBadRequest && (x.Param == "cursor" || slices.Contains(names, x.Param)):
		v.status = l.Filters.setError(x)
	case err != nil:
		return nil, err
	}
	*rows = list.Data
	if list.NextCursor != "" {
		l.Next = l.With("cursor", list.NextCursor)
	}
	return l, nil
}

// jobList is a filteredList of jobs of endpoints, such as replays, with the choices of its filters.
type jobList struct {
	*filteredList
	endpointChoices
	States []option
}

// jobFilters are the filters of a jobList.
var jobFilters = []string{"state", "endpoint_id"}

// listJobs reads a page of the list /v1/NAME, which is shown at /app/NAME, into rows. states are the choices of the
// filter of states.
func listJobs[T any](v *visit, name string, states []string, rows *[]T) (l *jobList, err error) {
	l = &jobList{}
	if l.filteredList, err = listRows(v, "/v1/"+name, "/app/"+name, jobFilters, rows); err != nil {
		return nil, err
	}
	l.endpointChoices = v.endpointChoices(l.Filters.Value("endpoint_id"))
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

// endpointChoices returns the newest endpoints and chosen, the id of an endpoint or "", even if it was deleted: its
// events stay.
func (v *visit) endpointChoices(chosen string) (c endpointChoices) {
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

// With returns the path of the first page of the list with one filter set to another value, or with a cursor.
func (l *filteredList) With(name, value string) string {
	query := filtersOf(l.Filters.values, l.names)
	query.Set(name, value)
	return l.ListPath + "?" + query.Encode()
}

// FirstPath returns the path of the first page of the list with its filters.
func (l *filteredList) FirstPath() string {
	if !l.Filtered {
		return l.ListPath
	}
	return l.ListPath + "?" + filtersOf(l.Filters.values, l.names).Encode()
}
