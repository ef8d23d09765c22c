package ui

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// ReadRows reads a list of the API, or its first rows.
func ReadRows[T any](v *Visit, api string, query url.Values) (l wire.List[T], err error) {
	return l, v.Get(api, query, &l)
}

// ListPage is a page of a list of the API.
type ListPage[T any] struct {
	Rows  []T
	First bool   // it is the first page
	Next  string // path of the next page; empty: there is none
	Heads []Head // of its table, if it can be sorted
}

// Column is a column of a list. Without Compare the list is not sorted by it.
type Column[T any] struct {
	Name, Class string
	Compare     func(a, b T) int
}

// By compares rows by a value.
func By[T any, V cmp.Ordered](value func(T) V) func(a, b T) int {
	return func(a, b T) int { return cmp.Compare(value(a), value(b)) }
}

// Head is the head of a column, for the template "heads".
type Head struct {
	Name, Class string
	Path        string // of the page sorted by the column; empty: it cannot be
	Sort        string // ascending or descending; empty: it is not sorted by the column
}

// maxSorted is how many rows are sorted: the newest. It is as many as there are issues.
const maxSorted = 2000

// ReadList reads the page of the list at api that the person asks for. query are further parameters of the API, shown
// those of the page, which is at path. With columns ?sort= can sort a list that the API holds in memory: by the name of
// a column, after - descending.
func ReadList[T any](v *Visit, api, path string, query, shown url.Values, columns ...Column[T]) (p ListPage[T],
	err error) {
	sort := v.R.URL.Query().Get("sort")
	var by *Column[T]
	for i := range columns {
		c, h := &columns[i], Head{Name: columns[i].Name, Class: columns[i].Class}
		if c.Compare != nil {
			next := c.Name
			switch sort {
			case c.Name:
				by, h.Sort, next = c, "ascending", "-"+c.Name
			case "-" + c.Name:
				by, h.Sort = c, "descending"
			}
			h.Path = WithQuery(path, shown, "sort", next)
		}
		p.Heads = append(p.Heads, h)
	}
	if by != nil {
		return p, p.readSorted(v, api, query, func(a, b T) int {
			if sort[0] == '-' {
				a, b = b, a
			}
			return by.Compare(a, b)
		}, func(page string) string { return WithQuery(path, shown, "sort", sort, "page", page) })
	}
	asked, cursor := url.Values{"limit": {"50"}}, v.R.URL.Query().Get("cursor")
	maps.Copy(asked, query)
	if p.First = cursor == ""; !p.First {
		asked.Set("cursor", cursor)
	}
	rows, err := ReadRows[T](v, api, asked)
	if p.Rows = rows.Data; rows.NextCursor != "" {
		p.Next = WithQuery(path, shown, "cursor", rows.NextCursor)
	}
	return p, err
}

// readSorted reads the whole list, at most maxSorted rows, and sorts it.
func (p *ListPage[T]) readSorted(v *Visit, api string, query url.Values, compare func(a, b T) int,
	path func(page string) string) error {
	asked := url.Values{"limit": {"100"}}
	maps.Copy(asked, query)
	var all []T
	for len(all) < maxSorted {
		rows, err := ReadRows[T](v, api, asked)
		if err != nil {
			return err
		}
		if all = append(all, rows.Data...); rows.NextCursor == "" {
			break
		}
		asked.Set("cursor", rows.NextCursor)
	}
	slices.SortStableFunc(all, compare)
	rows, at := Paginate(v, "", all)
	if p.Rows, p.First = rows, at.First == 1; at.Next != "" {
		p.Next = path(strings.TrimPrefix(at.Next, "?page="))
	}
	return nil
}

// formList is a page of a list with a form beside it, such as the form of a new resource.
type formList[T any] struct {
	ListPage[T]
	Form *Form
}

// ListOf returns what shows the list at api on a page of that name, which is at path, with a form.
func ListOf[T any](page, api, path string) func(*Visit, *Form) error {
	return func(v *Visit, f *Form) error {
		list, err := ReadList[T](v, api, path, nil, nil)
		if err != nil {
			return err
		}
		return v.Page(page, formList[T]{list, f})
	}
}

// WithNewForm returns the handler of a page with an empty form.
func WithNewForm(page func(*Visit, *Form) error) func(*Visit) error {
	return func(v *Visit) error { return page(v, NewForm(url.Values{}, "")) }
}

// WithQuery returns a path with parameters and further ones, which are names and values.
func WithQuery(path string, parameters url.Values, more ...string) string {
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

// FilteredList is a list of the API with its filters, all of which are in the page's URL, so that a link shows the same
// list to everybody.
type FilteredList[T any] struct {
	ListPage[T]
	// Filters has the values of the filter's fields, and the error of one that the API refuses.
	Filters     *Form
	Filtered    bool   // a filter is on
	CSV         string // path of the same list as CSV
	Unavailable string // why the list could not be read
	ListPath    string // of the list without filters

	names []string
}

// ListRows reads a page of the list at api. names are the filters: parameters of the page, which is at path, and of the
// API.
func ListRows[T any](v *Visit, api, path string, names []string, columns ...Column[T]) (*FilteredList[T], error) {
	shown := FiltersOf(v.R.URL.Query(), names)
	return ListFiltered(v, api, path, names, shown, shown, columns...)
}

// ListFiltered is ListRows with filters whose values in the page's URL, shown, differ from those of the API. A filter
// that the API refuses and an unavailable store are not errors: the page shows them.
func ListFiltered[T any](v *Visit, api, path string, names []string, query, shown url.Values, columns ...Column[T]) (
	*FilteredList[T], error) {
	l := &FilteredList[T]{Filters: NewForm(shown, ""), Filtered: len(shown) > 0, ListPath: path, names: names}
	var err error
	l.ListPage, err = ReadList(v, api, path, query, shown, columns...)
	switch x, refused := BadRequest(err); {
	case IsUnavailable(err):
		l.Unavailable, v.Status = MessageOf(err), StatusOf(err)
	case refused && (x.Param == "cursor" || slices.Contains(names, x.Param)):
		v.Status = l.Filters.SetError(x)
	case err != nil:
		return nil, err
	}
	return l, nil
}

// EndpointChoices are the endpoints that a form offers.
type EndpointChoices struct {
	Endpoints    []Option
	Destinations []Option // of these endpoints
	TooMany      bool     // both are chosen by their ids, because there are more endpoints than a choice can show
}

// maxEndpointChoices is how many endpoints a choice shows.
const maxEndpointChoices = 100

// NewEndpointChoices returns the newest endpoints and chosen, the id of an endpoint or "", even if it was deleted: its
// events stay.
func NewEndpointChoices(v *Visit, chosen string) (c EndpointChoices) {
	page, more := v.Deps.Control.Endpoints(v.Person.Account, 0, maxEndpointChoices)
	for _, e := range page {
		c.Endpoints = append(c.Endpoints, Option{Value: e.ID, Text: e.Name})
		for i := range e.Destinations {
			d := &e.Destinations[i]
			c.Destinations = append(c.Destinations, Option{Value: d.ID, Text: e.Name + " → " + NameOfDestination(d)})
		}
	}
	if c.TooMany = more; chosen != "" && !more && v.EndpointName(chosen) == "" {
		c.Endpoints = append(c.Endpoints, Option{Value: chosen, Text: chosen})
	}
	return c
}

// NameOfDestination is the destination's name, without one the host of its URL: the rest of that may be a secret.
func NameOfDestination(d *config.Destination) string {
	u, err := url.Parse(d.URL)
	if name := TextOf(d.Name); name != "" || err != nil {
		return name
	}
	return u.Host
}

// ActorChoices are the people and API keys of the account, for a filter of who did something.
func (v *Visit) ActorChoices() (all []Option) {
	for _, u := range v.Deps.Control.Users() {
		all = append(all, Option{Value: u.ID, Text: u.Email})
	}
	for _, k := range v.Deps.Control.Keys(v.Person.Account) {
		all = append(all, Option{Value: k.ID, Text: k.Name})
	}
	return append(all[:min(len(all), maxEndpointChoices)], Option{Value: "operator", Text: "operator"})
}

// EndpointOf returns an endpoint of the person's account, or tenant, as it is stored; nil if there is none.
func EndpointOf(v *Visit, id string) *config.Endpoint {
	e, _ := v.Deps.Control.Endpoint(id)
	if e == nil || e.Account != v.Person.Account || v.Portal != nil && e.Tenant != v.Portal.Tenant {
		return nil
	}
	return e
}

// EndpointName returns the name of an endpoint; empty if it was deleted.
func (v *Visit) EndpointName(id string) string {
	if e := EndpointOf(v, id); e != nil {
		return e.Name
	}
	return ""
}

// FiltersOf returns the filters that a query has, without the spaces around them.
func FiltersOf(asked url.Values, names []string) url.Values {
	out := url.Values{}
	for _, name := range names {
		if text := strings.TrimSpace(asked.Get(name)); text != "" {
			out.Set(name, text)
		}
	}
	return out
}

// With returns the path of the first page of the list with one filter set to another value.
func (l *FilteredList[T]) With(name string, value any) string {
	return WithQuery(l.ListPath, FiltersOf(l.Filters.Values, l.names), name, TextOf(value))
}

// FirstPath returns the path of the first page of the list with its filters.
func (l *FilteredList[T]) FirstPath() string {
	return WithQuery(l.ListPath, FiltersOf(l.Filters.Values, l.names))
}

// maxRows is the number of rows on a page of a list that is in memory.
const maxRows = 50

// Pager is where a page stands in its list, for the template "pager".
type Pager struct {
	First, Last, Total int64  // number of the first and the last row of the page, and of all
	Previous, Next     string // paths of the pages before and after; empty: there is none
}

// Paginate returns the rows of the page that ?page= names, of the list at path. An invalid number
// means the first page, a number beyond the end the last.
func Paginate[T any](v *Visit, path string, rows []T) ([]T, Pager) {
	pages := max(1, (len(rows)+maxRows-1)/maxRows)
	page := 1
	if n, err := strconv.Atoi(v.R.URL.Query().Get("page")); err == nil {
		page = max(1, min(n, pages))
	}
	from, to := (page-1)*maxRows, min(page*maxRows, len(rows))
	p := Pager{First: int64(from + 1), Last: int64(to), Total: int64(len(rows))}
	if page > 1 {
		p.Previous = path + "?page=" + strconv.Itoa(page-1)
	}
	if page < pages {
		p.Next = path + "?page=" + strconv.Itoa(page+1)
	}
	return rows[from:to], p
}

// NameOf returns the email address of a person or the name of a key, or the id itself, of a person who was removed.
func (v *Visit) NameOf(actor string) string {
	switch {
	case strings.HasPrefix(actor, "usr_"):
		for _, u := range v.Deps.Control.Users() {
			if u.ID == actor {
				return u.Email
			}
		}
	case strings.HasPrefix(actor, "key_"):
		if v.keyNames == nil { // once for all rows of a page
			v.keyNames = map[string]string{}
			for _, k := range v.Deps.Control.Keys(v.Person.Account) {
				v.keyNames[k.ID] = k.Name
			}
		}
		return cmp.Or(v.keyNames[actor], actor)
	}
	return actor
}

// NameOfAny is NameOf for an actor that the API may not know.
func (v *Visit) NameOfAny(actor *string) *string {
	if actor == nil {
		return nil
	}
	name := v.NameOf(*actor)
	return &name
}

// maxTicked bounds the rows that a form can tick: those of a page.
const maxTicked = 100

// Ticked are the rows of a list that a form has ticked.
func (f *Form) Ticked() ([]string, error) {
	if rows := f.Values["row"]; len(rows) > 0 && len(rows) <= maxTicked {
		return rows, nil
	}
	return nil, web.Invalid("", "Nothing was done: tick one to %d rows.", maxTicked)
}

// EachTicked calls do for each row that a form has ticked, by its id, with a form for the call: a nonce of its own, the
// same if the form is sent again. It returns how many calls succeeded, and as a sentence how many rows were refused.
func (v *Visit) EachTicked(f *Form, do func(id string, one *Form) error) (done int, refused string, err error) {
	rows, err := f.Ticked()
	if err != nil {
		return 0, "", err
	}
	failed := 0
	for _, id := range rows {
		sum := sha256.Sum256([]byte(f.Nonce + " " + id))
		switch err = do(url.PathEscape(id), &Form{Nonce: base64.RawURLEncoding.EncodeToString(sum[:16])}); {
		case err == nil:
			done++
		case StatusOf(err) == 0 || done+failed == 0 && len(rows) == 1:
			return done, "", err
		default:
			if failed++; failed == 1 {
				refused = MessageOf(err)
			}
		}
	}
	if failed > 0 {
		refused = " " + Plural(failed, "row was", "rows were") + " refused: " + refused
	}
	return done, refused, nil
}

// BackToList opens the list at path with the query that a form of its page has, and shows a message.
func (v *Visit) BackToList(f *Form, path, message string) error {
	query, err := url.ParseQuery(f.Value("query"))
	if err != nil {
		query = nil
	}
	return v.Redirect(WithQuery(path, query), message)
}
