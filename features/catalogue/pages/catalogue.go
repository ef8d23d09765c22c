// Package pages has the pages of event types.
package pages

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/features/catalogue/routes"
	"github.com/eventrelay/relay/pkg/web"
)

// Area returns the pages of this package.
func Area() ui.Area {
	return ui.Area{Pages: files, Routes: []ui.Route{
		{"GET", listPath, ui.Reader, ui.WithNewForm(list)},
		{"POST", listPath, ui.Writer, ui.Submit(create)},
		{"POST", listPath + "/import", ui.Writer, ui.Submit(importTypes)},
		{"POST", "/app/settings/catalogue", ui.Writer, ui.Submit(publish)},
		{"GET", onePath, ui.Reader, ui.Show(read, show)},
		{"POST", onePath, ui.Writer, ui.Change(read, save)},
		{"POST", onePath + "/delete", ui.Writer, ui.Button("DELETE "+oneAPI, nil, listPath,
			"Deleted. Its events are no longer validated.")},
	}}
}

//go:embed pages
var files embed.FS

const (
	listPath = "/app/event-types"
	onePath  = listPath + "/{event_type}"
	oneAPI   = "/v1/event_types/{event_type}"
)

// typeData is an event type of the API.
type typeData struct{ routes.EventType }

var read = ui.ReadAt[typeData](oneAPI)

// Path is the page of the type.
func (x *typeData) Path() string { return pathOf(x.Name) }

func pathOf(name string) string { return listPath + "/" + url.PathEscape(name) }

// listData is a page of the catalogue.
type listData struct {
	ui.ListPage[*typeData]
	Form     *ui.Form
	Import   *ui.Form
	Unknown  []routes.EventTypeSeen // recent types that the catalogue does not have
	Settings routes.CatalogueSettings
	Publish  *ui.Form
}

// columns are those of the list.
var columns = []ui.Column[*typeData]{
	{Name: "Type", Compare: ui.By(func(x *typeData) string { return x.Name })},
	{Name: "Group", Compare: ui.By(func(x *typeData) string { return x.Group })},
	{Name: "Version", Class: "r", Compare: ui.By(func(x *typeData) int64 { return ui.Count(x.Version) })},
	{Name: "Changed", Compare: ui.By(func(x *typeData) int64 { return time.Time(x.UpdatedAt).UnixNano() })},
}

func list(v *ui.Visit, f *ui.Form) error { return showList(v, f, ui.NewForm(nil, "")) }

func showList(v *ui.Visit, f, imports *ui.Form) error {
	p := listData{Form: f, Import: imports}
	var err error
	if p.ListPage, err = ui.ReadList(v, "/v1/event_types", listPath, nil, nil, columns...); err != nil {
		return err
	}
	var seen routes.EventTypesSeen
	if _, err := v.TryGet("/v1/event_types/seen", nil, &seen); err != nil && !ui.IsUnavailable(err) {
		return err
	}
	p.Unknown = slices.DeleteFunc(seen.Types, func(x routes.EventTypeSeen) bool { return x.Known })
	if err := v.Get("/v1/settings/catalogue", nil, &p.Settings); err != nil {
		return err
	}
	p.Publish = ui.NewForm(publishFields.Values(p.Settings), "")
	return v.Page("event-types", p)
}

func create(v *ui.Visit, f *ui.Form) error {
	name := f.Value("name")
	return v.Ask("POST /v1/event_types", f, ui.Object{"name": name}, nil, func() error { return list(v, f) },
		ui.Opens(v, pathOf(name), "Created. Describe its data."))
}

// importTypes sends a document as it was typed: its members are for the API.
func importTypes(v *ui.Visit, f *ui.Form) error {
	var document map[string]json.RawMessage
	err := json.Unmarshal([]byte(f.Value("document")), &document)
	var out routes.EventTypesImported
	if err != nil || document == nil {
		err = &ui.APIError{Status: http.StatusBadRequest, ErrorView: web.ErrorView{Type: web.InvalidRequest,
			Message: "is not a JSON object", Param: "document"}}
	} else {
		body := ui.Object{}
		for name, value := range document {
			body[name] = value
		}
		err = v.Do("POST /v1/event_types/import", f, body, &out)
		if fault, ok := errors.AsType[*ui.APIError](err); ok && fault.Param != "" { // a place in the document
			fault.Message, fault.Param = fault.Param+" "+fault.Message, "document"
		}
	}
	return v.Answer(f, err, func() error { return showList(v, ui.NewForm(nil, ""), f) }, func() error {
		return v.Redirect(listPath, fmt.Sprintf("Imported: %d new, %d changed, %d as before", out.Created, out.Updated,
			out.Unchanged))
	})
}

var publishFields = ui.FieldTable{{ui.TextField, "title"}, {ui.Checkbox, "public"}}

func publish(v *ui.Visit, f *ui.Form) error {
	if err := v.Do("PATCH /v1/settings/catalogue", f, publishFields.All(f), nil); err != nil {
		return err
	}
	return v.Redirect(listPath, "Saved")
}

// typePage is the data of the page of one type.
type typePage struct {
	*typeData
	Form *ui.Form
}

var fields = ui.FieldTable{{ui.TextField, "description group"}, {ui.Checkbox, "deprecated internal"},
	{ui.JSONField, "schema example"}}

// values returns what the fields show. An object without members is shown, too.
func (x *typeData) values() url.Values {
	values := fields.Values(x)
	for name, raw := range map[string][]byte{"schema": x.Schema, "example": x.Example} {
		if values.Set(name, ui.Indented(raw)); string(raw) == "null" {
			values.Set(name, "")
		}
	}
	return values
}

func show(v *ui.Visit, x *typeData) error {
	return v.Page("event-type", typePage{x, ui.NewForm(x.values(), "")})
}

func save(v *ui.Visit, f *ui.Form, x *typeData) error {
	return v.Ask("PATCH "+oneAPI, f, fields.Changes(f, x.values()), nil,
		func() error { return v.Page("event-type", typePage{x, f}) }, ui.Opens(v, x.Path(), "Saved"))
}

// shownVersion is a version as people read it.
type shownVersion struct {
	Version   int
	Text      string
	CreatedAt web.Time
}

// Earlier are the versions before the newest, newest first.
func (x *typeData) Earlier() (all []shownVersion) {
	for _, e := range slices.Backward(x.Versions[:max(0, len(x.Versions)-1)]) {
		all = append(all, shownVersion{e.Version, ui.Indented(e.Schema), e.CreatedAt})
	}
	return all
}
