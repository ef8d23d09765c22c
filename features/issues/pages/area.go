// Package pages has the pages of what fails at destinations, by cause.
package pages

import (
	"embed"
	"net/url"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/model"
	"github.com/eventrelay/relay/dashboard/ui"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{Pages: files, Routes: []ui.Route{
		{"GET", ui.IssuesPath, ui.Reader, list},
		{"GET", onePath, ui.Reader, ui.Show(read, show)},
		{"POST", onePath, ui.Writer, ui.Change(read, save)},
	}}
}

//go:embed pages
var files embed.FS

const (
	onePath = ui.IssuesPath + "/{issue}"
	oneAPI  = "/v1/issues/{issue}"
)

// issueData is an issue of the API.
type issueData struct{ wire.Issue }

var read = ui.ReadAt[issueData](oneAPI)

// What names the destination.
func (x *issueData) What() string { return model.NameOfIssue(&x.Issue) }

// Says is the cause in words.
func (x *issueData) Says() string { return model.CauseText(x.Cause) }

// Class is the colour of the status.
func (x *issueData) Class() string {
	return map[string]string{"open": "failed", "acknowledged": "retrying"}[x.Status]
}

// listData is a list of issues with one of the statuses; empty: all.
type listData struct {
	ui.ListPage[*issueData]
	Status string
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
	rows, err := ui.ReadList[*issueData](v, "/v1/issues", ui.IssuesPath, query, query)
	if err != nil {
		return err
	}
	return v.Page("issues", listData{rows, status})
}

// issuePage is the data of the page of one issue.
type issuePage struct {
	*issueData
	Form *ui.Form
}

var fields = ui.FieldTable{{ui.TextField, "status note"}, {ui.TrimmedField, "assignee"}}

func show(v *ui.Visit, x *issueData) error {
	return v.Page("issue", issuePage{x, ui.NewForm(fields.Values(x), "")})
}

func save(v *ui.Visit, f *ui.Form, x *issueData) error {
	return v.Ask("PATCH "+oneAPI, f, fields.Changes(f, fields.Values(x)), nil,
		func() error { return v.Page("issue", issuePage{x, f}) }, ui.Opens(v, ui.PageOf(x.ID), "Saved"))
}
