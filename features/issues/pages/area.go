// Package pages has the pages of what fails at destinations, by cause.
package pages

import (
	"embed"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{Pages: files, Routes: []ui.Route{
		{"GET", ui.IssuesPath, ui.Reader, list},
		{"POST", ui.IssuesPath, ui.Writer, ui.Submit(changeTicked)},
		{"GET", onePath, ui.Reader, ui.Show(read, show)},
		{"POST", onePath, ui.Writer, ui.Change(read, save)},
		{"POST", onePath + "/resolve", ui.Writer,
			ui.Button("PATCH "+oneAPI, ui.Object{"status": "resolved"}, onePath, "Resolved")},
	}}
}

//go:embed pages
var files embed.FS

const (
	onePath = ui.IssuesPath + "/{issue}"
	oneAPI  = "/v1/issues/{issue}"
)

// issueData is an issue of the API.
type issueData struct {
	wire.Issue
	What string `json:"-"` // names the destination
}

func read(v *ui.Visit) (*issueData, error) {
	x, err := ui.ReadAt[issueData](oneAPI)(v)
	x.What = model.NameOfIssue(v, &x.Issue)
	return x, err
}

// Says is the cause in words, and whether the destination works again.
func (x *issueData) Says() string {
	if x.WorksAgainAt.IsZero() {
		return model.CauseText(x.Cause)
	}
	return model.CauseText(x.Cause) + "; " + model.WorksAgainText(&x.Issue)
}

// Class is the colour of the status.
func (x *issueData) Class() string {
	return map[string]string{"open": "failed", "acknowledged": "retrying"}[x.Status]
}

// listData is a list of issues with one of the statuses; empty: all.
type listData struct {
	ui.ListPage[*issueData]
	Status string
	Query  string // of the page
}

// columns are those of the list.
func columns(v *ui.Visit) []ui.Column[*issueData] {
	name := func(x *issueData) string { return model.NameOfIssue(v, &x.Issue) }
	return []ui.Column[*issueData]{
		{Name: "Destination", Compare: ui.By(name)}, {Name: "Cause", Compare: ui.By((*issueData).Says)},
		{Name: "Status", Compare: ui.By(func(x *issueData) string { return x.Status })},
		{Name: "Failures", Class: "r", Compare: ui.By(func(x *issueData) int64 { return ui.Count(x.Count) })},
		{Name: "First", Compare: ui.By(func(x *issueData) int64 { return time.Time(x.FirstSeenAt).UnixNano() })},
		{Name: "Last", Compare: ui.By(func(x *issueData) int64 { return time.Time(x.LastSeenAt).UnixNano() })},
		{Name: "Assignee", Compare: ui.By(func(x *issueData) string { return x.Assignee })},
	}
}

// changeTicked gives the ticked issues another status.
func changeTicked(v *ui.Visit, f *ui.Form) error {
	status := f.Value("status")
	n, refused, err := v.EachTicked(f, func(id string, one *ui.Form) error {
		return v.Do("PATCH /v1/issues/"+id, one, ui.Object{"status": status}, nil)
	})
	if err != nil {
		return err
	}
	return v.BackToList(f, ui.IssuesPath, ui.Capital(status)+" "+ui.Plural(n, "issue", "issues")+"."+refused)
}

// Statuses are the tabs of the list, and the choices of the form.
func (listData) Statuses() []ui.Option { return statuses }

func (issuePage) Statuses() []ui.Option { return statuses }

var statuses = []ui.Option{{Value: "open", Text: "Open"}, {Value: "acknowledged", Text: "Acknowledged"},
	{Value: "resolved", Text: "Resolved"}}

func list(v *ui.Visit) error {
	status := v.R.URL.Query().Get("status")
	query := url.Values{}
	if status != "" {
		query.Set("status", status)
	}
	rows, err := ui.ReadList(v, "/v1/issues", ui.IssuesPath, query, query, columns(v)...)
	if err != nil {
		return err
	}
	for _, x := range rows.Rows {
		x.What = model.NameOfIssue(v, &x.Issue)
	}
	return v.Page("issues", listData{rows, status, v.R.URL.RawQuery})
}

// issuePage is the data of the page of one issue.
type issuePage struct {
	*issueData
	Form     *ui.Form
	Failing  []*model.EventRow // the newest events that are failed or retrying at the destination
	ShowPath string            // list of them
	// Unavailable is why they could not be read.
	Unavailable string
	Recover     string         // form that recovers what failed; empty: nothing has
	Chart       *ui.BarChart   // events of the destination since the first failure; nil: none
	Newest      *model.Attempt // the newest that failed; nil: not known
}

var fields = ui.FieldTable{{ui.TextField, "status note"}, {ui.TrimmedField, "assignee"}}

func show(v *ui.Visit, x *issueData) error {
	return showForm(v, x, ui.NewForm(fields.Values(x), ""))
}

// shownFailing is how many events the page of an issue shows.
const shownFailing = 8

func showForm(v *ui.Visit, x *issueData, f *ui.Form) error {
	about := url.Values{"endpoint_id": {x.EndpointID}, "destination_id": {x.DestinationID}}
	p := issuePage{issueData: x, Form: f, ShowPath: ui.WithQuery(ui.EventsPath, about, "status", "failed,retrying")}
	if ui.Count(x.FailedEvents) > 0 && x.EndpointName != nil {
		p.Recover = model.RecoverIssuePath(&x.Issue)
	}
	since := maps.Clone(about)
	since.Set("since", time.Time(x.FirstSeenAt).UTC().Format(time.RFC3339))
	n, err := model.CountEvents(v, since)
	if err != nil {
		return err
	}
	if n != nil {
		p.Chart = n.Chart(since, "")
	}
	about.Set("status", "failed,retrying")
	about.Set("limit", strconv.Itoa(shownFailing))
	var rows wire.List[wire.EventRow]
	if p.Unavailable, err = v.TryGet("/v1/events", about, &rows); err != nil {
		return err
	}
	p.Failing = model.EventRows(rows.Data)
	for _, e := range p.Failing {
		e.SetNames(v)
	}
	if p.Newest, err = newest(v, x); err != nil {
		return err
	}
	return v.Page("issue", p)
}

// newest returns the last request of the newest event of an issue that failed; nil if it cannot be read.
func newest(v *ui.Visit, x *issueData) (*model.Attempt, error) {
	var e struct{ Attempts []*model.Attempt }
	if len(x.Events) == 0 {
		return nil, nil
	}
	if err := v.GetSoon(ui.APIOf(x.Events[0]), nil, &e); err != nil {
		if ui.StatusOf(err) != 0 { // it has expired, or the store is late
			err = nil
		}
		return nil, err
	}
	for _, a := range slices.Backward(e.Attempts) {
		if a.DestinationID == x.DestinationID && !a.OK() {
			a.Open = true
			return a, nil
		}
	}
	return nil, nil
}

func save(v *ui.Visit, f *ui.Form, x *issueData) error {
	return v.Ask("PATCH "+oneAPI, f, fields.Changes(f, fields.Values(x)), nil,
		func() error { return showForm(v, x, f) }, ui.Opens(v, ui.PageOf(x.ID), "Saved"))
}
