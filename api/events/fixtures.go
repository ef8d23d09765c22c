package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/fixture"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// fixtures serves test fixtures. An event is sanitised when it is read, in memory; only the sanitised copy is written.
type fixtures struct {
	*fixtureResource
	events    *events
	sanitiser *fixture.Sanitiser
	turns     frame.Turns
}

type fixtureResource = frame.Resource[config.Fixture, *config.Fixture, *wire.FixtureSummary]

const (
	// maxSanitising is how many requests of a node sanitise or export at the same time; a further one waits for
	// sanitisingWait.
	maxSanitising, sanitisingWait = 2, 2 * time.Second
	// suitePrefix is that of the ids of exported files.
	suitePrefix = "fxs_"
)

// newFixtures builds the sanitiser, which takes some milliseconds.
func newFixtures(e *events, c Configuration) (*fixtures, error) {
	s, err := fixture.New()
	a := &fixtures{events: e, sanitiser: s, turns: frame.NewTurns(maxSanitising, sanitisingWait)}
	a.fixtureResource = &fixtureResource{
		Core: e.Core, Config: c, Object: "fixture", Insert: c.CreateFixture,
		Missing: "there is no such fixture: it may have expired, or the payload of its event was erased",
		Own:     frame.Methods{"POST": a.createFixture, "one GET": a.readFixture, "one PATCH": a.updateFixture},
		Views: func(_ context.Context, _ *config.Key, all ...*config.Fixture) ([]*wire.FixtureSummary, error) {
			return frame.ViewsOf(all, fixtureRowOf), nil
		},
	}
	return a, err
}

// startSanitising waits for its turn. The returned function ends it.
func (a *fixtures) startSanitising(ctx context.Context) (end func(), err error) {
	end, ok := a.turns.Take(ctx)
	if !ok {
		return nil, web.ServiceUnavailable(nil, "this node is busy with other fixtures; retry after a second")
	}
	return end, nil
}

func fixtureRowOf(f *config.Fixture) *wire.FixtureSummary {
	return &wire.FixtureSummary{
		ID: f.ID, Object: "fixture", Name: f.Name, SourceEventID: f.Event, EndpointID: f.Endpoint,
		EventType: frame.OrNull(f.Type), Method: f.Method, ExpectedStatus: f.Status, SizeBytes: f.Size, Removed: f.Removed,
		Edited: f.Edited, ExpiresAt: web.Time(f.ExpiresAt), Version: f.Version, CreatedBy: f.CreatedBy,
		CreatedAt: web.Time(f.CreatedAt), UpdatedAt: web.Time(f.UpdatedAt),
	}
}

func fixtureViewOf(f *config.Fixture, warnings []frame.Warning) (*wire.Fixture, error) {
	content, err := fixture.Unpack(f.Content)
	if err != nil {
		return nil, err
	}
	v := &wire.Fixture{FixtureSummary: *fixtureRowOf(f), Body: content.Body, Redactions: []fixture.Redaction{},
		Keep: []string{}, Required: []fixture.Required{}, Warnings: warnings}
	v.Redactions = append(v.Redactions, content.Redactions...)
	v.Keep = append(v.Keep, content.Keep...)
	v.Required = append(v.Required, content.Required...)
	return v, nil
}

// recheckAnswer returns the 404 if the fixture in a remembered answer was deleted or has expired, or its event was
// erased.
func (a *fixtures) recheckAnswer(ctx context.Context, key *config.Key, body []byte) error {
	var shown struct{ ID string }
	if err := json.Unmarshal(body, &shown); err != nil {
		return fmt.Errorf("read a remembered fixture: %w", err)
	}
	a.CatchUp(ctx)
	_, err := a.Get(ctx, shown.ID, key.Account)
	return err
}

func (a *fixtures) readFixture(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	f, err := a.InPath(r, key)
	if err != nil {
		return err
	}
	v, err := fixtureViewOf(f, nil)
	if err != nil {
		return err
	}
	return a.events.answers.write(r.Context(), w, maxFixtureBytes(v), func() any { return v })
}

// maxFixtureBytes is an upper bound of the view as JSON.
func maxFixtureBytes(v *wire.Fixture) int {
	const frame = 8 << 10
	n := len(v.Body) + frame
	for _, r := range v.Redactions {
		n += escapedByte*len(r.Pointer) + len(`{"pointer":"","reason":"member_name","type":"string"},`)
	}
	for _, pointer := range v.Keep {
		n += escapedByte * len(pointer)
	}
	for _, x := range v.Required {
		n += escapedByte*len(x.Pointer) + len(x.Equals)
	}
	return n
}

// exportFixtures sends fixtures as one file for the runner. It reads the configuration and nothing else.
func (a *fixtures) exportFixtures(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "")
	ids := q.List("ids")
	q.RefuseUnknownParameters()
	if q.Err != nil {
		return q.Err
	}
	end, err := a.startSanitising(r.Context())
	if err != nil {
		return err
	}
	file, err := a.suiteOf(r.Context(), key, ids)
	end()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="fixtures.json"`)
	return a.events.answers.write(r.Context(), w, len(file), func() any { return json.RawMessage(file) })
}

// suiteOf returns the exported file of fixtures.
func (a *fixtures) suiteOf(ctx context.Context, key *config.Key, ids []string) ([]byte, error) {
	all := make([]fixture.Fixture, len(ids))
	size := 0
	for i, name := range ids {
		f, err := a.Get(ctx, name, key.Account)
		if err != nil {
			return nil, &web.Error{Status: http.StatusNotFound, Type: web.NotFound, Param: "ids",
				Message: "must name fixtures that exist, but " + web.TruncateParam(name) + " does not: it may have expired, or " +
					"the payload of its event was erased"}
		}
		if size += f.Size; size > fixture.MaxSuite {
			break // Export refuses what it has got by then
		}
		content, err := fixture.Unpack(f.Content)
		if err != nil {
			return nil, err
		}
		all[i] = exportedFixture(f, content)
	}
	if size > fixture.MaxSuite {
		return nil, web.Invalid("ids", "name fixtures of more than %d MiB together; export them in parts",
			fixture.MaxSuite>>20)
	}
	file, err := a.sanitiser.Export(id.Random(suitePrefix), a.Now(), all)
	if e, ok := errors.AsType[*fixture.Error](err); ok {
		err = web.Invalid(e.Param, "%s", e.Message)
	}
	return file, err
}

// exportedFixture is a fixture as the exported file has it.
func exportedFixture(f *config.Fixture, content *fixture.Content) fixture.Fixture {
	return fixture.Fixture{
		ID: f.ID, Name: f.Name, Type: frame.OrNull(f.Type), Method: f.Method, Body: content.Body,
		ExpiresAt: web.Time(f.ExpiresAt), Expect: fixture.Expect{Status: f.Status, Required: content.Required},
	}
}

// checkExport returns the error of a fixture that could not be exported as it is: a secret anywhere in it.
func (a *fixtures) checkExport(f *config.Fixture, content *fixture.Content) error {
	_, err := a.sanitiser.Export(suitePrefix, a.Now(), []fixture.Fixture{exportedFixture(f, content)})
	e, ok := errors.AsType[*fixture.Error](err)
	if !ok {
		return err
	}
	return web.Invalid(paramInSuite(e.Param), "%s", e.Message)
}

// paramInSuite returns the parameter of a request for a pointer into the exported file of one fixture. A place within
// the body is the pointer into the body.
func paramInSuite(pointer string) string {
	at := strings.TrimPrefix(pointer, "/fixtures/0")
	if inside, ok := strings.CutPrefix(at, "/body/"); ok {
		return "/" + inside
	}
	if inside, ok := strings.CutPrefix(at, "/expect/required/"); ok {
		i, member, _ := strings.Cut(inside, "/")
		member, _, _ = strings.Cut(member, "/")
		return "required[" + i + "]." + member
	}
	return strings.TrimPrefix(at, "/")
}

// readFixtureChange reads the members that POST and PATCH share.
func readFixtureChange(body []byte) (*wire.FixtureChange, *frame.Input) {
	in, x := &frame.Input{}, &wire.FixtureChange{}
	o := in.NewObject("", body)
	o.Decode(x)
	if x.Name != nil {
		failWith(o, fixture.CheckName(*x.Name))
	}
	if raw, ok := o.Raw("body"); ok {
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			o.Fail("body", "must be JSON")
		}
		x.Body = compact.Bytes()
		failWith(o, fixture.CheckBody(x.Body))
	}
	x.Keep = pointers(o, "keep", fixture.MaxRedactions)
	if status := x.ExpectedStatus; status != nil && (*status/100 == 1 || *status/100 == 3) {
		o.In.Warn("expected_status", "never passes: the runner follows no redirect and fails with each 3xx, and a 1xx is "+
			"no final answer")
	}
	x.Required = requiredFields(o, "required")
	if _, ok := o.Raw("version"); ok {
		x.Version = new(int)
		o.Integer("version", 1, 1<<53, x.Version)
	}
	o.Decode(&wire.Fixture{}) // its members are read-only
	o.WarnUnknown()
	return x, in
}

// failWith reports a fault of package fixture.
func failWith(o *frame.Object, err error) {
	if e, ok := errors.AsType[*fixture.Error](err); ok {
		o.Fail(e.Param, "%s", e.Message)
	}
}

// pointers reads an array of pointers, sorted and each once; nil if it is absent.
func pointers(o *frame.Object, name string, limit int) []string {
	if _, ok := o.Raw(name); !ok {
		return nil
	}
	all := []string{}
	for i, raw := range o.Array(name, limit) {
		if frame.KindOf(raw) != frame.KindString {
			o.Fail(frame.Indexed(name, i), "must be the pointer of a redacted value, as redactions has it")
			return all
		}
		pointer, _ := web.DecodeString(raw) // it was validated
		all = append(all, pointer)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// requiredFields reads what the answer to a fixture must have; nil if it is absent.
func requiredFields(o *frame.Object, name string) []fixture.Required {
	if _, ok := o.Raw(name); !ok {
		return nil
	}
	all := []fixture.Required{}
	for i, raw := range o.Array(name, fixture.MaxRequired) {
		at := frame.Indexed(name, i)
		if frame.KindOf(raw) != frame.KindObject {
			o.Fail(at, "must be an object such as {\"pointer\":\"/ok\",\"equals\":true}")
			return all
		}
		field := o.In.NewObject(o.Param(at), raw)
		var x fixture.Required
		if _, ok := field.Raw("pointer"); !ok {
			field.Fail("pointer", "is required: a JSON Pointer, such as /data/id")
		}
		field.Text("pointer", 0, fixture.MaxPointer, &x.Pointer)
		if !field.IsNull("type") {
			field.Enum("type", &x.Type, fixture.Types()...)
		}
		if equals, ok := field.Raw("equals"); ok {
			x.Equals = slices.Clone(equals)
		}
		field.WarnUnknown()
		all = append(all, x)
	}
	failWith(o, (&fixture.Expect{Status: fixture.DefaultStatus, Required: all}).Check())
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
	if err != nil || !a.Now().Before(a.Expiry(d)) {
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
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	x, in := readFixtureChange(body)
	if x.EventID == nil {
		in.Fail("event_id", "is required: the id of the event that becomes a fixture")
		return in.Err
	}
	ev, err := a.sourceEvent(r.Context(), key, *x.EventID, "event_id")
	switch {
	case err != nil: // an event that does not exist comes before faults of other members
		return err
	case in.Err != nil:
		return in.Err
	case x.Body != nil && len(x.Keep) > 0:
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
	created, err := a.Once(r.Context(), f)
	if err != nil {
		return err
	}
	return answerFixture(w, http.StatusCreated, created, in.Warnings)
}

func errBodyAndKeep() error {
	return web.Invalid("keep", "cannot be combined with body; keep copies members of the event's body, body replaces it")
}

func answerFixture(w http.ResponseWriter, status int, f *config.Fixture, warnings []frame.Warning) error {
	v, err := fixtureViewOf(f, warnings)
	if err != nil {
		return err
	}
	return web.Answer(w, status, v)
}

// fixtureName returns the name that a request gives, or else the type of the event, sanitised.
func (a *fixtures) fixtureName(x *wire.FixtureChange, ev *event.Event) string {
	if x.Name != nil {
		return *x.Name
	}
	name := []rune(strings.Join(strings.Fields(web.SanitizeLine(a.sanitiser.Type(ev.Type))), " "))
	if len(name) == 0 {
		return "Fixture"
	}
	return strings.TrimSpace(string(name[:min(len(name), fixture.MaxName)]))
}

// newFixture returns the fixture of an event that a request asks for.
func (a *fixtures) newFixture(r *http.Request, key *config.Key, ev *event.Event, x *wire.FixtureChange) (
	*config.Fixture, error) {
	now := a.RequestTime(r)
	f := &config.Fixture{
		Meta: entity.Meta{ID: frame.NewID(r, id.Fixture), Account: key.Account, CreatedAt: now}, Name: a.fixtureName(x, ev),
		Event: ev.ID.Text(id.Event), Endpoint: ev.Endpoint, Type: a.sanitiser.Type(ev.Type), Method: ev.Method,
		Status: fixture.DefaultStatus, ExpiresAt: now.Add(fixture.DefaultLife), Version: 1, CreatedBy: key.ID,
	}
	content := &fixture.Content{Keep: x.Keep}
	if err := a.sanitise(content, ev, "event_id"); err != nil {
		return nil, err
	}
	if err := a.change(f, content, x, x.Body); err != nil {
		return nil, err
	}
	return f, nil
}

// change changes a fixture as a request says, all but keep, and checks the result. body is the new body; nil:
// unchanged.
func (a *fixtures) change(
	f *config.Fixture, content *fixture.Content, x *wire.FixtureChange, body json.RawMessage) error {
	if x.Name != nil {
		f.Name = *x.Name
	}
	if x.ExpectedStatus != nil {
		f.Status = *x.ExpectedStatus
	}
	if x.Required != nil {
		content.Required = x.Required
	}
	if at := (*time.Time)(x.ExpiresAt); at != nil && !at.Equal(f.ExpiresAt) {
		if err := fixture.CheckExpiry(*at, a.Now()); err != nil {
			e, _ := errors.AsType[*fixture.Error](err)
			return web.Invalid(e.Param, "%s", e.Message)
		}
		f.ExpiresAt = *at
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
	f, err := a.InPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	x, in := readFixtureChange(body)
	if in.Err != nil {
		return in.Err
	}
	if x.EventID != nil && *x.EventID != f.Event {
		return web.Invalid("event_id", "cannot be changed; create another fixture from that event")
	}
	end, err := a.startSanitising(r.Context())
	if err != nil {
		return err
	}
	defer end()
	after, err := entity.Update(r.Context(), a.Config, f.ID, func(f *config.Fixture) error {
		if x.Version != nil && *x.Version != f.Version {
			return frame.ErrOtherVersion("fixture", f.Version)
		}
		content, err := fixture.Unpack(f.Content)
		if err != nil {
			return err
		}
		body := x.Body
		if x.Keep != nil && !slices.Equal(x.Keep, content.Keep) {
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
	return answerFixture(w, http.StatusOK, after, in.Warnings)
}

// changeKeep makes the body anew from the event, with other values kept than before. Another body in the same request
// is an error.
func (a *fixtures) changeKeep(
	ctx context.Context, key *config.Key, f *config.Fixture, content *fixture.Content, x *wire.FixtureChange) error {
	if x.Body != nil && !bytes.Equal(x.Body, content.Body) {
		return errBodyAndKeep()
	}
	ev, err := a.sourceEvent(ctx, key, f.Event, "keep")
	if err != nil {
		return err
	}
	content.Keep, f.Edited = x.Keep, false
	return a.sanitise(content, ev, "keep")
}
