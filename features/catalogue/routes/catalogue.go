// Package routes serves the catalogue of event types: its entries, their import from and export as an OpenAPI
// document, the types of recent events, and who else may see it.
package routes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/schema"
	"github.com/eventrelay/relay/pkg/web"
)

// Catalogue serves the catalogue.
type Catalogue struct {
	*frame.Core
	config *config.Control
	seen   frame.Recent[map[string]int]
}

// New builds the area.
func New(c *frame.Core, in *config.Control) *Catalogue {
	return &Catalogue{Core: c, config: in, seen: frame.Recent[map[string]int]{Now: c.Now}}
}

const (
	path     = "/v1/event_types"
	settings = "/v1/settings/catalogue"
	// sampled is how many of the newest events the types of recent events come from.
	sampled = 1000
	// maxTypeName is the length of the name of a type in bytes.
	maxTypeName = 128
)

// reserved are paths below that of the catalogue.
var reserved = []string{"openapi.json", "seen", "import"}

// Routes returns the routes of the area.
func (a *Catalogue) Routes() []frame.Route {
	return []frame.Route{
		// A repeat of the import changes nothing.
		{Path: path, Methods: frame.Methods{"GET": a.list, "POST": a.post}, Resumable: true},
		{Path: path + "/import", Methods: frame.Methods{"POST": a.importTypes}, Resumable: true},
		{Path: path + "/openapi.json", Methods: frame.Methods{"GET": a.export}},
		{Path: path + "/seen", Methods: frame.Methods{"GET": a.readSeen}},
		{Path: path + "/{event_type}", Methods: frame.Methods{"GET": a.read, "PUT": a.put, "PATCH": a.patch,
			"DELETE": a.remove}},
		{Path: settings, Methods: frame.Methods{"GET": a.readSettings, "PATCH": a.changeSettings}},
	}
}

// shown reports whether a caller may see a type.
func shown(x *config.EventType, by *config.Key) bool { return !x.Internal || by.Tenant == "" }

// inPath returns the type that the path names, or the 404.
func (a *Catalogue) inPath(r *http.Request, key *config.Key) (*config.EventType, error) {
	find := func(name string) (*config.EventType, entity.Presence) {
		return entity.Get[config.EventType](a.config, config.EventTypeID(key.Account, name))
	}
	x, err := frame.Find(r.Context(), a.Core, find, web.InfoOf(r).Vars["event_type"])
	if err != nil {
		return nil, err
	}
	if x == nil || !shown(x, key) {
		return nil, web.Missing("there is no such event type")
	}
	return x, nil
}

func (a *Catalogue) list(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	p, err := a.ConfigPage(r, frame.NewQuery(r, "event_types "+frame.ScopeOf(key)))
	if err != nil {
		return err
	}
	all, more := entity.List(a.config, key.Account, p.Before, p.Limit, func(x *config.EventType) bool {
		return shown(x, key)
	})
	return frame.WriteConfigPage(w, p, all, more, frame.ViewsOf(all, viewOf))
}

func viewOf(x *config.EventType) *EventType {
	v := &EventType{Object: "event_type", Name: x.Name, Description: x.Description, Group: x.Group,
		Deprecated: x.Deprecated, Internal: x.Internal, Schema: null, Example: null,
		Versions: []EventTypeVersion{}, CreatedAt: web.Time(x.CreatedAt), UpdatedAt: web.Time(x.UpdatedAt)}
	for _, s := range x.Versions {
		version := EventTypeVersion{Version: s.Version, Schema: s.Schema, Example: orNull(s.Example),
			CreatedAt: web.Time(s.CreatedAt)}
		v.Versions = append(v.Versions, version)
		v.Version, v.Schema, v.Example = &version.Version, version.Schema, version.Example
	}
	return v
}

var null = json.RawMessage("null")

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return null
	}
	return raw
}

func answer(w http.ResponseWriter, status int, x *config.EventType, warnings []frame.Warning) error {
	v := viewOf(x)
	v.Warnings = warnings
	return web.Answer(w, status, v)
}

func (a *Catalogue) read(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	x, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, x, nil)
}

// change is what a request says of a type.
type change struct {
	frame.Input
	name            string
	body            []byte
	schema, example json.RawMessage // canonical; nil: not given, or null
	keepsExample    bool            // the request does not name it
}

// readChange reads the parts of a request that do not depend on the type that there is.
func (a *Catalogue) readChange(r *http.Request) (*change, error) {
	body, err := a.Body(r)
	if err != nil {
		return nil, err
	}
	c := &change{body: body}
	o := c.NewObject("", body)
	o.Text("name", 1, maxTypeName, &c.name)
	value := func(name string, most int) json.RawMessage {
		raw, ok := o.Raw(name)
		if !ok || o.IsNull(name) {
			return nil
		}
		text, err := schema.Canonical(raw)
		if err != nil || len(text) > most {
			o.Fail(name, "must be JSON of at most %d KiB", most>>10)
		}
		return text
	}
	if c.schema = value("schema", schema.MaxBytes); c.schema != nil && c.Err == nil {
		if _, err := schema.Compile(c.schema); err != nil {
			o.Fail("schema", "%s", err)
		}
	}
	_, given := o.Raw("example")
	c.example, c.keepsExample = value("example", config.MaxEventExample), !given
	a.merge(&c.Input, body, &config.EventType{})
	return c, c.Err
}

// merge reads the other members into a type.
func (a *Catalogue) merge(in *frame.Input, body []byte, x *config.EventType) {
	o := in.NewObject("", body)
	v := viewOf(x)
	for _, own := range []string{"name", "schema", "example"} {
		o.Raw(own)
	}
	o.Decode(v)
	o.WarnUnknown()
	x.Description, x.Group, x.Deprecated, x.Internal = v.Description, v.Group, v.Deprecated, v.Internal
}

// apply changes a type as a request says.
func (a *Catalogue) apply(c *change, x *config.EventType) error {
	in := &frame.Input{}
	a.merge(in, c.body, x)
	c.Warnings = in.Warnings
	example := c.example
	if newest := x.Newest(); newest != nil && c.keepsExample &&
		(c.schema == nil || bytes.Equal(c.schema, newest.Schema)) {
		example = newest.Example
	}
	if c.schema != nil || example != nil || x.Newest() != nil {
		x.SetSchema(c.schema, example, a.Now())
	}
	return in.Err
}

func (a *Catalogue) post(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	c, err := a.readChange(r)
	if err != nil {
		return err
	}
	if fault := checkName(c.name); fault != "" {
		return web.Invalid("name", "%s", fault)
	}
	x := &config.EventType{Meta: a.NewMeta(r, "", key), Name: c.name, CreatedBy: frame.RotatedBy(r)}
	x.ID = config.EventTypeID(key.Account, x.Name)
	if err := a.apply(c, x); err != nil {
		return err
	}
	created, err := entity.Create(r.Context(), a.config, x)
	if errors.Is(err, config.ErrConflict) {
		if created = a.config.EventType(key.Account, c.name); created != nil && x.CreatedBy != "" &&
			created.CreatedBy == x.CreatedBy {
			return answer(w, http.StatusCreated, created, c.Warnings)
		}
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: "name",
			Message: "is in the catalogue already; change it with PATCH"}
	}
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, created, c.Warnings)
}

// put creates or replaces a type. Its versions stay.
func (a *Catalogue) put(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	name := web.InfoOf(r).Vars["event_type"]
	c, err := a.readChange(r)
	if err != nil {
		return err
	}
	if fault := checkName(name); fault != "" {
		return web.Invalid("event_type", "%s", fault)
	}
	if err := c.checkName(name); err != nil {
		return err
	}
	x, _, err := a.config.PutEventType(r.Context(), key.Account, name, func(x *config.EventType) error {
		x.Description, x.Group, x.Deprecated, x.Internal = "", "", false, false
		return a.apply(c, x)
	})
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, x, c.Warnings)
}

func (c *change) checkName(name string) error {
	if c.name != "" && c.name != name {
		return web.Invalid("name", "cannot be changed; create another type")
	}
	return nil
}

func (a *Catalogue) patch(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	x, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	c, err := a.readChange(r)
	if err != nil {
		return err
	}
	if err := c.checkName(x.Name); err != nil {
		return err
	}
	x, err = entity.Update(r.Context(), a.config, x.ID, func(x *config.EventType) error { return a.apply(c, x) })
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, x, c.Warnings)
}

func (a *Catalogue) remove(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	x, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	if err := entity.Delete[config.EventType](r.Context(), a.config, x.ID); err != nil {
		return err
	}
	return frame.WriteDeleted(w, x.Name, "event_type")
}

// importTypes creates or replaces the types of an OpenAPI document. Nothing is written if any of them is invalid.
func (a *Catalogue) importTypes(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	if in.NewObject("", body); in.Err != nil {
		return in.Err
	}
	all, err := readDocument(body)
	if err != nil {
		return err
	}
	out := EventTypesImported{Object: "event_types_imported"}
	for i := range all {
		before := a.config.EventType(key.Account, all[i].of.Name)
		x, created, err := a.config.PutEventType(r.Context(), key.Account, all[i].of.Name, func(x *config.EventType) error {
			a.take(&all[i], x)
			return nil
		})
		switch {
		case err != nil:
			return fmt.Errorf("import %s: %w", all[i].of.Name, err)
		case created:
			out.Created++
		case before != nil && x.Rev == before.Rev:
			out.Unchanged++
		default:
			out.Updated++
		}
	}
	return web.Answer(w, http.StatusOK, out)
}

// take makes a type that of a document.
func (a *Catalogue) take(of *imported, x *config.EventType) {
	x.Description, x.Group, x.Deprecated = of.of.Description, of.of.Group, of.of.Deprecated
	switch {
	case of.own:
		x.Internal, x.Versions = of.of.Internal, of.versions
	case len(of.versions) > 0:
		x.SetSchema(of.versions[0].Schema, of.versions[0].Example, a.Now())
	}
}

func (a *Catalogue) export(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	text, err := documentOf(a.config.EventTypes(key.Account), title(a.config.Settings()), key.Tenant != "")
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, json.RawMessage(text))
}

// readSeen answers with the types of recent events.
func (a *Catalogue) readSeen(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "seen")
	q.RefuseUnknown()
	if q.Err != nil {
		return q.Err
	}
	counts, err := a.seen.Get(r.Context(), key.Account, func(ctx context.Context) (map[string]int, error) {
		page, err := a.Events.Events(ctx, event.Query{Account: key.Account, Limit: sampled})
		counts := map[string]int{}
		for _, row := range page.Rows {
			counts[row.Type]++
		}
		delete(counts, "")
		return counts, err
	})
	if err != nil {
		return err
	}
	out := EventTypesSeen{Object: "event_types_seen", Types: []EventTypeSeen{}}
	for name, n := range counts {
		out.Types = append(out.Types, EventTypeSeen{Name: name, Events: n,
			Known: a.config.EventType(key.Account, name) != nil})
	}
	slices.SortFunc(out.Types, func(a, b EventTypeSeen) int { return strings.Compare(a.Name, b.Name) })
	return web.Answer(w, http.StatusOK, out)
}

func title(s *config.Settings) string {
	if s.Catalogue.Title == "" {
		return "Webhooks"
	}
	return s.Catalogue.Title
}

func settingsView(s *config.Settings, warnings []frame.Warning) *CatalogueSettings {
	return &CatalogueSettings{Object: "catalogue_settings", Public: s.Catalogue.Public, Title: title(s),
		Warnings: warnings}
}

func (a *Catalogue) readSettings(w http.ResponseWriter, r *http.Request, _ *config.Key) error {
	a.CatchUp(r.Context())
	return web.Answer(w, http.StatusOK, settingsView(a.config.Settings(), nil))
}

func (a *Catalogue) changeSettings(w http.ResponseWriter, r *http.Request, _ *config.Key) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	var in *frame.Input
	s, err := a.config.UpdateCatalogue(r.Context(), func(c *config.Catalogue) error {
		in = &frame.Input{}
		o, x := in.NewObject("", body), &CatalogueSettings{Public: c.Public, Title: c.Title}
		o.Decode(x)
		o.WarnUnknown()
		c.Public, c.Title = x.Public, x.Title
		return in.Err
	})
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, settingsView(s, in.Warnings))
}
