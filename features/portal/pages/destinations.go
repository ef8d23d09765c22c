package pages

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/web"
)

// maxEndpoints is how many endpoints of the tenant the portal shows: the newest.
const maxEndpoints = "100"

// endpointsOf reads the endpoints of the tenant.
func endpointsOf(v *ui.Visit) ([]*model.Endpoint, error) {
	list, err := ui.ReadRows[*model.Endpoint](v, "/v1/endpoints", url.Values{"limit": {maxEndpoints}})
	return list.Data, err
}

// destinationsPage is the data of the first page.
type destinationsPage struct {
	Endpoints   []*model.Endpoint
	Count       int // of all destinations
	Failures    []*model.EventRow
	Unavailable string // why failures could not be read
	measured    map[string]*measured
}

// Of is what was measured of a destination.
func (p *destinationsPage) Of(d model.Destination) *measured { return p.measured[d.ID] }

// measured is the state of a destination and what became of its requests of the last 24 hours.
type measured struct {
	State ui.Status
	Known bool // what follows was read
	Strip ui.Strip
	Rate  string // part of the requests that were delivered; empty: there were none
}

// maxMeasured is how many endpoints are asked for their requests.
const maxMeasured = 10

// measure measures the destinations of endpoints. The state of one that is active says whether its requests of the last
// hour fail, as far as that is known.
func measure(v *ui.Visit, endpoints ...*model.Endpoint) (map[string]*measured, error) {
	all, late := map[string]*measured{}, false
	for i, e := range endpoints {
		var t wire.EndpointTraffic
		if i < maxMeasured && len(e.Destinations) > 0 && !late {
			err := v.GetSoon("/v1/endpoints/"+url.PathEscape(e.ID)+"/traffic", url.Values{"range": {"24h"}}, &t)
			if late = err != nil; late && ui.StatusOf(err) == 0 {
				return nil, err
			}
		}
		for i := range e.Destinations {
			d := &e.Destinations[i]
			m := &measured{State: d.Status(), Known: t.Object != ""}
			traffic := &wire.DestinationTraffic{}
			for i := range t.Destinations {
				if t.Destinations[i].DestinationID == d.ID {
					traffic = &t.Destinations[i]
				}
			}
			m.add(v, d, traffic)
			all[d.ID] = m
		}
	}
	return all, nil
}

// add adds what became of the requests.
func (m *measured) add(v *ui.Visit, d *model.Destination, t *wire.DestinationTraffic) {
	l := v.Language()
	switch n := &t.LastHour; {
	case d.State != "active" || n.Failed == 0:
	case n.Delivered == 0:
		m.State = ui.Status{Word: l.T("failing: 0 of %s delivered", l.Number(n.Requests)), Mark: "failed", On: true}
	default:
		m.State = ui.Status{Word: l.T("%s of %s failed", l.Number(n.Failed), l.Number(n.Requests)), Mark: "retrying"}
	}
	m.Strip = model.HourStrip(d.Title(), model.HoursOf(t.Hours), v.Now())
	delivered, requests := int64(0), int64(0)
	for _, hour := range t.Hours {
		delivered, requests = delivered+hour.Delivered, requests+hour.Requests
	}
	m.Strip.Title = l.T("Last 24 hours: %s of %s requests failed", l.Number(requests-delivered), l.Number(requests))
	if requests > 0 {
		m.Rate = l.Percent(delivered, requests)
	}
}

// Path is the page of a destination.
func (destinationsPage) Path(e *model.Endpoint, d model.Destination) string {
	return pathOf(e.ID, d.ID)
}

func pathOf(endpoint, destination string) string {
	return ui.PortalPath + "/endpoints/" + url.PathEscape(endpoint) + "/destinations/" + url.PathEscape(destination)
}

// failures reads the newest events of which a delivery has failed.
func failures(v *ui.Visit, of url.Values) (rows []*model.EventRow, unavailable string, err error) {
	query := url.Values{"status": {"failed,retrying"}, "limit": {"5"}}
	maps.Copy(query, of)
	var list wire.List[*model.EventRow]
	unavailable, err = v.TryGet("/v1/events", query, &list)
	named(v, list.Data)
	return list.Data, unavailable, err
}

// named gives events the names of their destinations, for what those answered.
func named(v *ui.Visit, rows []*model.EventRow) {
	for _, e := range rows {
		e.SetNames(v)
	}
}

// listDestinations shows the destinations of all endpoints of the tenant, and what has failed last.
func listDestinations(v *ui.Visit) error {
	all, err := endpointsOf(v)
	if err != nil {
		return err
	}
	p := &destinationsPage{Endpoints: all}
	for _, e := range all {
		p.Count += len(e.Destinations)
	}
	if p.Failures, p.Unavailable, err = failures(v, nil); err != nil {
		return err
	}
	if p.measured, err = measure(v, all...); err != nil {
		return err
	}
	return v.Page("portal", p)
}

// place is a destination with its endpoint.
type place struct {
	e *model.Endpoint
	d *model.Destination
}

// read reads the destination in the path.
func read(v *ui.Visit) (place, error) {
	e := &model.Endpoint{}
	if err := v.Get("/v1/endpoints/{endpoint}", nil, e); err != nil {
		return place{}, err
	}
	if d := e.Destination(v.Vars["destination"]); d != nil {
		return place{e, d}, nil
	}
	return place{}, web.Missing("There is no such destination any more.")
}

// destinationPage is the data of the page of a destination.
type destinationPage struct {
	Form        *ui.Form
	Endpoint    *model.Endpoint
	Destination *model.Destination // nil: a new one
	Endpoints   []ui.Option        // to choose from, if there are several
	Types       []ui.Option        // of the catalogue
	Failures    []*model.EventRow
	Measured    *measured
	Failed      string // how many events failed for good there; empty: none
	Secret      string // shown now
	Fresh       bool   // Secret was just made
	Hidden      bool   // a secret was made by the same form before
}

// Self is the path of the page.
func (p *destinationPage) Self() string { return pathOf(p.Endpoint.ID, p.Destination.ID) }

// fields of a destination in the portal.
var fields = ui.FieldTable{{ui.OptionalText, "name"}, {ui.TrimmedField, "url"}, {ui.Checkbox, "enabled"},
	{ui.LineField, "filter.types"}}

// valuesOf returns what the fields show. The types that the page offers as boxes are values of the field type, the
// others lines of more.
func valuesOf(d *model.Destination, offered []ui.Option) url.Values {
	values, more := fields.Values(d), []string{}
	for _, text := range ui.AsLines(values.Get("filter.types")) {
		if slices.ContainsFunc(offered, func(o ui.Option) bool { return o.Value == text }) {
			values.Add("type", text)
		} else {
			more = append(more, text)
		}
	}
	values.Set("filter.types", strings.Join(more, "\n"))
	return values
}

// typesOffered are the types of the catalogue in the order of their names, which needs no store.
func typesOffered(v *ui.Visit) []ui.Option {
	names := slices.DeleteFunc(v.EventTypes(), isSample)
	slices.Sort(names)
	return ui.PlainOptions(names...)
}

// bodyOf returns the members of a destination that a form sets.
func bodyOf(f *ui.Form, d *model.Destination) map[string]any {
	body := ui.FieldTable{{ui.OptionalText, "name"}, {ui.TrimmedField, "url"}, {ui.Checkbox, "enabled"}}.All(f)
	types := slices.Concat(f.Values["type"], ui.AsLines(f.Value("filter.types")))
	body["filter"] = ui.Object{"types": types}
	if len(types) == 0 && (d == nil || !d.Filter.HasConditions()) { // other conditions are set by the owner of the account
		body["filter"] = nil
	}
	return body
}

// newPage returns the data of the page of a new destination.
func newPage(v *ui.Visit) (*destinationPage, error) {
	all, err := endpointsOf(v)
	if err != nil {
		return nil, err
	}
	p := &destinationPage{Types: typesOffered(v)}
	for _, e := range all {
		p.Endpoints = append(p.Endpoints, ui.Option{Value: e.ID, Text: e.Name})
	}
	return p, nil
}

func newForm(v *ui.Visit) error {
	p, err := newPage(v)
	if err != nil {
		return err
	}
	p.Form = ui.NewForm(url.Values{"enabled": {"true"}, "endpoint": v.R.URL.Query()["endpoint"]}, "")
	return v.Page("portal-destination", p)
}

// create adds a destination and shows its signing secret, once.
func create(v *ui.Visit, f *ui.Form) error {
	p, err := newPage(v)
	if err != nil {
		return err
	}
	p.Form = f
	endpoint := f.Value("endpoint")
	if !slices.ContainsFunc(p.Endpoints, func(o ui.Option) bool { return o.Value == endpoint }) {
		return web.Missing("There is no such endpoint any more.")
	}
	v.Vars["endpoint"] = url.PathEscape(endpoint)
	d := &model.Destination{}
	return v.Ask("POST /v1/endpoints/{endpoint}/destinations", f, bodyOf(f, nil), d,
		func() error { return v.Page("portal-destination", p) }, func() error {
			v.Vars["destination"] = url.PathEscape(d.ID)
			return showMade(v, d)
		})
}

// showMade shows a destination with the signing secret that was just made.
func showMade(v *ui.Visit, made *model.Destination) error {
	at, err := read(v)
	if err != nil {
		return err
	}
	p, err := pageOf(v, at)
	if err != nil {
		return err
	}
	p.Secret, p.Fresh, p.Hidden = made.Signing.Secret, true, v.Replayed && made.Signing.PublicKey == nil
	if v.Replayed {
		p.Secret = ""
	}
	return v.Page("portal-destination", p)
}

func pageOf(v *ui.Visit, at place) (*destinationPage, error) {
	p := &destinationPage{Endpoint: at.e, Destination: at.d, Types: typesOffered(v)}
	p.Form = ui.EditForm(valuesOf(at.d, p.Types))
	about := url.Values{"endpoint_id": {at.e.ID}, "destination_id": {at.d.ID}}
	var err error
	if p.Failures, _, err = failures(v, about); err != nil {
		return nil, err
	}
	of, err := measure(v, at.e)
	if err != nil {
		return nil, err
	}
	p.Measured = of[at.d.ID]
	about.Set("status", "failed")
	about.Set("since", "7d")
	n, err := model.CountEvents(v, about)
	switch {
	case n == nil || !n.More && n.Statuses.Failed == 0:
	case n.More:
		p.Failed = v.T("Many events failed for good.")
	default:
		p.Failed = v.Language().Count(n.Statuses.Failed, "1 event failed for good.", "%s events failed for good.")
	}
	return p, err
}

// sendAgain sends the events that failed for good to the destination again, at its pace.
func sendAgain(v *ui.Visit, f *ui.Form, at place) error {
	err := v.Do("POST /v1/replays", f, ui.Object{"endpoint_id": at.e.ID, "destination_id": []string{at.d.ID},
		"status": []string{"failed"}, "only_undelivered": true,
		"since": v.Now().Add(-againSince).UTC().Format(time.RFC3339)}, nil)
	if x, refused := ui.BadRequest(err); refused {
		return v.Redirect(pathOf(at.e.ID, at.d.ID), v.T("Nothing was sent:")+" "+x.Message)
	}
	if err != nil {
		return err
	}
	return v.Redirect(pathOf(at.e.ID, at.d.ID), "They are sent again, one after the other.")
}

// againSince is how old events may be that are sent again.
const againSince = 7 * 24 * time.Hour

func show(v *ui.Visit, at place) error {
	p, err := pageOf(v, at)
	if err != nil {
		return err
	}
	return v.Page("portal-destination", p)
}

// save saves the settings of a destination.
func save(v *ui.Visit, f *ui.Form, at place) error {
	p, err := pageOf(v, at)
	if err != nil {
		return err
	}
	p.Form = f
	return v.Ask("PATCH "+destinationAPI, f, bodyOf(f, at.d), nil,
		func() error { return v.Page("portal-destination", p) }, ui.Opens(v, p.Self(), "Saved"))
}

// showSecret shows the signing secret again. The audit log has it before the person has.
func showSecret(v *ui.Visit, _ *ui.Form, at place) error {
	secret, err := v.Deps.Control.PortalSecret(v.R.Context(), v.Portal.PortalSession, at.e.ID, at.d.ID)
	if err != nil {
		return err
	}
	p, err := pageOf(v, at)
	if err != nil {
		return err
	}
	p.Secret = secret
	return v.Page("portal-destination", p)
}

// rotateSecret gives the destination another secret and shows it. Both sign for a day.
func rotateSecret(v *ui.Visit, f *ui.Form, at place) error {
	const day = 86400
	after := &model.Destination{}
	body := ui.Object{"overlap_seconds": day}
	if f.Value("overlap") == "none" {
		body["overlap_seconds"] = 0
	}
	if err := v.Do("POST "+destinationAPI+"/rotate_secret", f, body, after); err != nil {
		return err
	}
	return showMade(v, after)
}

// sendTest sends a test event to the destination alone.
func sendTest(v *ui.Visit, f *ui.Form, at place) error {
	var sent struct{ ID string }
	err := v.Do("POST /v1/endpoints/{endpoint}/test", f, ui.Object{"destination_id": at.d.ID}, &sent)
	if x, refused := ui.BadRequest(err); refused {
		return v.Redirect(pathOf(at.e.ID, at.d.ID), v.T("Nothing was sent:")+" "+x.Message)
	}
	if err != nil {
		return err
	}
	return v.Redirect(eventsPath+"/"+url.PathEscape(sent.ID), "Sent. Its attempt appears here in a moment.")
}
