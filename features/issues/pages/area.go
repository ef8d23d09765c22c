// Package pages has the pages of what fails at destinations, by cause.
package pages

import (
	"embed"
	"net/url"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/dashboard/model"
)

// Area returns the pages of this package.
func Area() frame.Area {
	return frame.Area{Pages: files, Routes: []frame.Route{
		{"GET", frame.IssuesPath, frame.Reader, list},
		{"GET", onePath, frame.Reader, frame.Show(read, show)},
		{"POST", onePath, frame.Writer, frame.Change(read, save)},
	}}
}

//go:embed pages
var files embed.FS

const (
	onePath = frame.IssuesPath + "/{issue}"
	oneAPI  = "/v1/issues/{issue}"
)

// issueData is an issue of the API.
type issueData struct{ wire.Issue }

var read = frame.ReadAt[issueData](oneAPI)

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
	frame.ListPage[*issueData]
	Status string
}

// Statuses are the tabs of the list, and the choices of the form.
func (listData) Statuses() []frame.Option { return statuses }

func (issuePage) Statuses() []frame.Option { return statuses }

var statuses = []frame.Option{{Value: "open", Text: "Open"}, {Value: "acknowledged", Text: "Acknowledged"},
	{Value: "resolved", Text: "Resolved"}}

func list(v *frame.Visit) error {
	status := v.R.URL.Query().Get("status")
	query := url.Values{}
	if status != "" {
		query.Set("status", status)
	}
	rows, err := frame.ReadList[*issueData](v, "/v1/issues", frame.IssuesPath, query, query)
	if err != nil {
		return err
	}
	return v.Page("issues", listData{rows, status})
}

// issuePage is the data of the page of one issue.
type issuePage struct {
	*issueData
	Form *frame.Form
}

var fields = frame.FieldTable{{frame.TextField, "status note"}, {frame.TrimmedField, "assignee"}}

func show(v *frame.Visit, x *issueData) error {
	return v.Page("issue", issuePage{x, frame.NewForm(fields.Values(x), "")})
}

func save(v *frame.Visit, f *frame.Form, x *issueData) error {
	return v.Ask("PATCH "+oneAPI, f, fields.Changes(f, fields.Values(x)), nil,
		func() error { return v.Page("issue", issuePage{x, f}) }, frame.Opens(v, frame.PageOf(x.ID), "Saved"))
}
