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

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/features/catalogue/routes"
	"github.com/eventrelay/relay/pkg/web"
)

// Area returns the pages of this package.
func Area() frame.Area {
	return frame.Area{Pages: files, Routes: []frame.Route{
		{"GET", listPath, frame.Reader, frame.WithNewForm(list)},
		{"POST", listPath, frame.Writer, frame.Submit(create)},
		{"POST", listPath + "/import", frame.Writer, frame.Submit(importTypes)},
		{"POST", "/app/settings/catalogue", frame.Writer, frame.Submit(publish)},
		{"GET", onePath, frame.Reader, frame.Show(read, show)},
		{"POST", onePath, frame.Writer, frame.Change(read, save)},
		{"POST", onePath + "/delete", frame.Writer, frame.Button("DELETE "+oneAPI, nil, listPath,
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

var read = frame.ReadAt[typeData](oneAPI)

// Path is the page of the type.
func (x *typeData) Path() string { return pathOf(x.Name) }

func pathOf(name string) string { return listPath + "/" + url.PathEscape(name) }

// listData is a page of the catalogue.
type listData struct {
	frame.ListPage[*typeData]
	Form     *frame.Form
	Import   *frame.Form
	Unknown  []routes.EventTypeSeen // recent types that the catalogue does not have
	Settings routes.CatalogueSettings
	Publish  *frame.Form
}

func list(v *frame.Visit, f *frame.Form) error { return showList(v, f, frame.NewForm(nil, "")) }

func showList(v *frame.Visit, f, imports *frame.Form) error {
	p := listData{Form: f, Import: imports}
	var err error
	if p.ListPage, err = frame.ReadList[*typeData](v, "/v1/event_types", listPath, nil, nil); err != nil {
		return err
	}
	var seen routes.EventTypesSeen
	if _, err := v.TryGet("/v1/event_types/seen", nil, &seen); err != nil && !frame.IsUnavailable(err) {
		return err
	}
	p.Unknown = slices.DeleteFunc(seen.Types, func(x routes.EventTypeSeen) bool { return x.Known })
	if err := v.Get("/v1/settings/catalogue", nil, &p.Settings); err != nil {
		return err
	}
	p.Publish = frame.NewForm(publishFields.Values(p.Settings), "")
	return v.Page("event-types", p)
}

func create(v *frame.Visit, f *frame.Form) error {
	name := f.Value("name")
	return v.Ask("POST /v1/event_types", f, frame.Object{"name": name}, nil, func() error { return list(v, f) },
		frame.Opens(v, pathOf(name), "Created. Describe its data."))
}

// importTypes sends a document as it was typed: its members are for the API.
func importTypes(v *frame.Visit, f *frame.Form) error {
	var document map[string]json.RawMessage
	err := json.Unmarshal([]byte(f.Value("document")), &document)
	var out routes.EventTypesImported
	if err != nil || document == nil {
		err = &frame.APIError{Status: http.StatusBadRequest, ErrorView: web.ErrorView{Type: web.InvalidRequest,
			Message: "is not a JSON object", Param: "document"}}
	} else {
		body := frame.Object{}
		for name, value := range document {
			body[name] = value
		}
		err = v.Do("POST /v1/event_types/import", f, body, &out)
		if fault, ok := errors.AsType[*frame.APIError](err); ok && fault.Param != "" { // a place in the document
			fault.Message, fault.Param = fault.Param+" "+fault.Message, "document"
		}
	}
	return v.Answer(f, err, func() error { return showList(v, frame.NewForm(nil, ""), f) }, func() error {
		return v.Redirect(listPath, fmt.Sprintf("Imported: %d new, %d changed, %d as before", out.Created, out.Updated,
			out.Unchanged))
	})
}

var publishFields = frame.FieldTable{{frame.TextField, "title"}, {frame.Checkbox, "public"}}

func publish(v *frame.Visit, f *frame.Form) error {
	if err := v.Do("PATCH /v1/settings/catalogue", f, publishFields.All(f), nil); err != nil {
		return err
	}
	return v.Redirect(listPath, "Saved")
}

// typePage is the data of the page of one type.
type typePage struct {
	*typeData
	Form *frame.Form
}

var fields = frame.FieldTable{{frame.TextField, "description group"}, {frame.Checkbox, "deprecated internal"},
	{frame.JSONField, "schema example"}}

// values returns what the fields show. An object without members is shown, too.
func (x *typeData) values() url.Values {
	values := fields.Values(x)
	for name, raw := range map[string][]byte{"schema": x.Schema, "example": x.Example} {
		if values.Set(name, frame.Indented(raw)); string(raw) == "null" {
			values.Set(name, "")
		}
	}
	return values
}

func show(v *frame.Visit, x *typeData) error {
	return v.Page("event-type", typePage{x, frame.NewForm(x.values(), "")})
}

func save(v *frame.Visit, f *frame.Form, x *typeData) error {
	return v.Ask("PATCH "+oneAPI, f, fields.Changes(f, x.values()), nil,
		func() error { return v.Page("event-type", typePage{x, f}) }, frame.Opens(v, x.Path(), "Saved"))
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
		all = append(all, shownVersion{e.Version, frame.Indented(e.Schema), e.CreatedAt})
	}
	return all
}
