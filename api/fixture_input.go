package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/fixture"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// fixtureInput has the members of a request; nil: absent.
type fixtureInput struct {
	event     string
	name      *string
	body      json.RawMessage // compact
	keep      []string
	status    *int
	required  []fixture.Required
	expiresAt *time.Time
	version   *int
	warnings  []warning
}

// readFixtureInput reads the members that POST and PATCH share.
func readFixtureInput(body []byte) (*fixtureInput, *input) {
	in, x := &input{}, &fixtureInput{}
	o := in.newObject("", body)
	o.text("event_id", 1, maxName, &x.event)
	if _, ok := o.raw("name"); ok {
		x.name = new(string)
		o.text("name", 1, fixture.MaxName, x.name)
		o.failWith(fixture.CheckName(*x.name))
	}
	if raw, ok := o.raw("body"); ok {
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			o.fail("body", "must be JSON")
		}
		x.body = compact.Bytes()
		o.failWith(fixture.CheckBody(x.body))
	}
	x.keep = o.pointers("keep", fixture.MaxRedactions)
	if _, ok := o.raw("expected_status"); ok {
		x.status = new(int)
		if o.integer("expected_status", 100, 599, x.status); *x.status/100 == 1 || *x.status/100 == 3 {
			o.in.warn("expected_status", "never passes: the runner follows no redirect and fails with each 3xx, and a 1xx is "+
				"no final answer")
		}
	}
	x.required = o.requiredFields("required")
	if _, ok := o.raw("expires_at"); ok {
		text := ""
		o.text("expires_at", 1, maxName, &text)
		at, ok := parseTime(text)
		if !ok {
			o.fail("expires_at", "must be a time such as 2026-08-21T22:24:36Z")
		}
		x.expiresAt = &at
	}
	if _, ok := o.raw("version"); ok {
		x.version = new(int)
		o.integer("version", 1, 1<<53, x.version)
	}
	o.readOnly("id", "object", "source_event_id", "endpoint_id", "event_type", "method", "redactions", "size_bytes",
		"removed", "edited", "created_by", "created_at", "updated_at", "warnings")
	o.warnUnknown()
	x.warnings = in.warnings
	return x, in
}

// failWith reports a fault of package fixture.
func (o *object) failWith(err error) {
	if e, ok := errors.AsType[*fixture.Error](err); ok {
		o.fail(e.Param, "%s", e.Message)
	}
}

// pointers reads an array of pointers, sorted and each once; nil if it is absent.
func (o *object) pointers(name string, limit int) []string {
	if _, ok := o.raw(name); !ok {
		return nil
	}
	all := []string{}
	for i, raw := range o.array(name, limit) {
		if kindOf(raw) != kindString {
			o.fail(indexed(name, i), "must be the pointer of a redacted value, as redactions has it")
			return all
		}
		pointer, _ := web.DecodeString(raw) // it was validated
		all = append(all, pointer)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// requiredFields reads what the answer to a fixture must have; nil if it is absent.
func (o *object) requiredFields(name string) []fixture.Required {
	if _, ok := o.raw(name); !ok {
		return nil
	}
	all := []fixture.Required{}
	for i, raw := range o.array(name, fixture.MaxRequired) {
		at := indexed(name, i)
		if kindOf(raw) != kindObject {
			o.fail(at, "must be an object such as {\"pointer\":\"/ok\",\"equals\":true}")
			return all
		}
		field := o.in.newObject(o.param(at), raw)
		var x fixture.Required
		if _, ok := field.raw("pointer"); !ok {
			field.fail("pointer", "is required: a JSON Pointer, such as /data/id")
		}
		field.text("pointer", 0, fixture.MaxPointer, &x.Pointer)
		if !field.isNull("type") {
			field.enum("type", &x.Type, fixture.Types()...)
		}
		if equals, ok := field.raw("equals"); ok {
			x.Equals = slices.Clone(equals)
		}
		field.warnUnknown()
		all = append(all, x)
	}
	o.failWith((&fixture.Expect{Status: fixture.DefaultStatus, Required: all}).Check())
	return all
}

// errNoSourceEvent is the error of an event_id that names no event.
func errNoSourceEvent() error {
	return &web.Error{Status: http.StatusNotFound, Type: web.NotFound, Param: "event_id",
		Message: "there is no such event, or its retention has ended"}
}

// sourceEvent reads the event that a fixture is made of. param is the member that asks for it.
func (a *fixtures) sourceEvent(ctx context.Context, key *config.Key, name, param string) (*event.Event, error) {
	d, err := id.Parse(id.Event, name)
	if err != nil || !a.now().Before(a.expiry(d)) {
		err = event.ErrNotFound
	}
	var detail *event.Detail
	if err == nil {
		detail, err = a.events.events.Event(ctx, key.Account, d)
	}
	switch {
	case errors.Is(err, event.ErrNotFound) && param == "event_id":
		return nil, errNoSourceEvent()
	case errors.Is(err, event.ErrNotFound):
		return nil, web.WrongState(param, "cannot be changed: the retention of the event has ended; make another fixture")
	case err != nil:
		return nil, err
	case !a.events.erasures.ErasedAt(d).IsZero():
		return nil, web.WrongState(param, "is impossible: the payload of the event was erased; choose another event")
	}
	return detail.Event, nil
}

// sanitise makes the body of a content from an event. param is the member that asks for it.
func (a *fixtures) sanitise(content *fixture.Content, ev *event.Event, param string) error {
	err := content.Apply(a.sanitiser, ev.Body, ev.Type)
	e, ok := errors.AsType[*fixture.Error](err)
	switch {
	case !ok:
		return err
	case e.Param == "body":
		return web.WrongState(param, "names an event that cannot be a fixture: its body %s", e.Message)
	}
	return web.Invalid(e.Param, "%s", e.Message)
}

// setContent packs the content of a fixture.
func setContent(f *config.Fixture, content *fixture.Content) error {
	packed, err := content.Pack()
	if e, ok := errors.AsType[*fixture.Error](err); ok {
		return web.Invalid(e.Param, "%s", e.Message)
	}
	removed := map[string]bool{}
	for _, r := range content.Redactions {
		if !slices.Contains(content.Keep, r.Pointer) {
			removed[r.Pointer] = true
		}
	}
	f.Content, f.Size, f.Removed = packed, len(content.Body), len(removed)
	return err
}

func (a *fixtures) createFixture(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.body(r)
	if err != nil {
		return err
	}
	x, in := readFixtureInput(body)
	if x.event == "" {
		in.fail("event_id", "is required: the id of the event that becomes a fixture")
		return in.err
	}
	ev, err := a.sourceEvent(r.Context(), key, x.event, "event_id")
	switch {
	case err != nil: // an event that does not exist comes before faults of other members
		return err
	case in.err != nil:
		return in.err
	case x.body != nil && len(x.keep) > 0:
		return errBodyAndKeep()
	}
	end, err := a.startSanitising(r.Context())
	if err != nil {
		return err
	}
	f, err := a.newFixture(r, key, ev, x)
	end()
	if err != nil {
		return err
	}
	created, err := a.once(r.Context(), f)
	if err != nil {
		return err
	}
	return answerFixture(w, http.StatusCreated, created, x.warnings)
}

func errBodyAndKeep() error {
	return web.Invalid("keep", "cannot be combined with body; keep copies members of the event's body, body replaces it")
}

func answerFixture(w http.ResponseWriter, status int, f *config.Fixture, warnings []warning) error {
	v, err := fixtureViewOf(f, warnings)
	if err != nil {
		return err
	}
	web.WriteJSON(w, status, v)
	return nil
}

// fixtureName returns the name that a request gives, or else the type of the event, sanitised.
func (a *fixtures) fixtureName(x *fixtureInput, ev *event.Event) string {
	if x.name != nil {
		return *x.name
	}
	name := []rune(strings.Join(strings.Fields(web.SanitizeLine(a.sanitiser.Type(ev.Type))), " "))
	if len(name) == 0 {
		return "Fixture"
	}
	return strings.TrimSpace(string(name[:min(len(name), fixture.MaxName)]))
}

// newFixture returns the fixture of an event that a request asks for.
func (a *fixtures) newFixture(r *http.Request, key *config.Key, ev *event.Event, x *fixtureInput) (
	*config.Fixture, error) {
	now := a.requestTime(r)
	f := &config.Fixture{
		Meta: config.Meta{ID: newID(r, id.Fixture), Account: key.Account, CreatedAt: now}, Name: a.fixtureName(x, ev),
		Event: ev.ID.Text(id.Event), Endpoint: ev.Endpoint, Type: a.sanitiser.Type(ev.Type), Method: ev.Method,
		Status: fixture.DefaultStatus, ExpiresAt: now.Add(fixture.DefaultLife), Version: 1, CreatedBy: key.ID,
	}
	content := &fixture.Content{Keep: x.keep}
	if err := a.sanitise(content, ev, "event_id"); err != nil {
		return nil, err
	}
	if err := a.change(f, content, x, x.body); err != nil {
		return nil, err
	}
	return f, nil
}

// change changes a fixture as a request says, all but keep, and checks the result. body is the new body; nil:
// unchanged.
func (a *fixtures) change(
	f *config.Fixture, content *fixture.Content, x *fixtureInput, body json.RawMessage) error {
	if x.name != nil {
		f.Name = *x.name
	}
	if x.status != nil {
		f.Status = *x.status
	}
	if x.required != nil {
		content.Required = x.required
	}
	if x.expiresAt != nil && !x.expiresAt.Equal(f.ExpiresAt) {
		if err := fixture.CheckExpiry(*x.expiresAt, a.now()); err != nil {
			e, _ := errors.AsType[*fixture.Error](err)
			return web.Invalid(e.Param, "%s", e.Message)
		}
		f.ExpiresAt = *x.expiresAt
	}
	if body != nil && !bytes.Equal(body, content.Body) {
		content.Body, content.Keep, f.Edited = body, nil, true
	}
	if err := a.checkExport(f, content); err != nil {
		return err
	}
	return setContent(f, content)
}

func (a *fixtures) updateFixture(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	f, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	x, in := readFixtureInput(body)
	if in.err != nil {
		return in.err
	}
	if x.event != "" && x.event != f.Event {
		return web.Invalid("event_id", "cannot be changed; create another fixture from that event")
	}
	end, err := a.startSanitising(r.Context())
	if err != nil {
		return err
	}
	defer end()
	after, err := config.Update(r.Context(), a.config, f.ID, func(f *config.Fixture) error {
		if x.version != nil && *x.version != f.Version {
			return errOtherVersion("fixture", f.Version)
		}
		content, err := fixture.Unpack(f.Content)
		if err != nil {
			return err
		}
		body := x.body
		if x.keep != nil && !slices.Equal(x.keep, content.Keep) {
			if err := a.changeKeep(r.Context(), key, f, content, x); err != nil {
				return err
			}
			body = nil
		}
		return a.change(f, content, x, body)
	})
	if err != nil {
		return err
	}
	return answerFixture(w, http.StatusOK, after, x.warnings)
}

// changeKeep makes the body anew from the event, with other values kept than before. Another body in the same request
// is an error.
func (a *fixtures) changeKeep(
	ctx context.Context, key *config.Key, f *config.Fixture, content *fixture.Content, x *fixtureInput) error {
	if x.body != nil && !bytes.Equal(x.body, content.Body) {
		return errBodyAndKeep()
	}
	ev, err := a.sourceEvent(ctx, key, f.Event, "keep")
	if err != nil {
		return err
	}
	content.Keep, f.Edited = x.keep, false
	return a.sanitise(content, ev, "keep")
}
