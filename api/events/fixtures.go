package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
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
