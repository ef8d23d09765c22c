package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/eventrelay/relay/api/wire"
	"net/http"
	"slices"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// tripwires serves the decoys of verified domains. Their secrets are in the answer that creates or rotates them and
// nowhere else, not even in the remembered answer of an Idempotency-Key.
type tripwires struct {
	*core
	config  Tripwires
	hits    FindingReader
	leaks   *secrets.Scanner // masks secrets in labels
	baseURL string
}

// views renders tripwires with what was counted. Their findings are named once they exist.
func (a *tripwires) views(ctx context.Context, all ...*config.Tripwire) ([]*wire.Tripwire, error) {
	if len(all) == 0 {
		return []*wire.Tripwire{}, nil
	}
	keys, err := a.config.FindingKeys(ctx)
	if err != nil {
		return nil, err
	}
	out, rows := make([]*wire.Tripwire, len(all)), a.rows(ctx, &keys, all)
	for i, t := range all {
		v := &wire.Tripwire{
			ID: t.ID, Object: "tripwire", DomainID: t.Domain, Kind: t.Kind, Path: orNull(t.File), Label: t.Label,
			Placement: t.Placement, Status: t.Status(), TokenMasked: t.Masked(), Snippets: []wire.TripwireSnippet{},
			IssuedAt: web.Time(t.IssuedAt), LastTrippedAt: web.Time(t.TrippedAt), CreatedBy: t.CreatedBy,
			CreatedAt: web.Time(t.CreatedAt), UpdatedAt: web.Time(t.UpdatedAt),
		}
		if t.Test != nil && a.now().Before(t.Test.Until) {
			v.TestUntil = web.Time(t.Test.Until)
		}
		name := keys.TripwireID(t.ID, false)
		if f, _ := a.config.Finding(name); f != nil {
			v.FindingID = &f.ID
		}
		if f, _ := a.config.Finding(keys.TripwireID(t.ID, true)); f != nil {
			v.TestFindingID = &f.ID
		}
		if rows != nil {
			row := rows[name]
			v.TripCount = &row.Occurrences
			if row.LastSeen.After(t.TrippedAt) {
				v.LastTrippedAt = web.Time(row.LastSeen)
			}
		}
		out[i] = v
	}
	return out, nil
}

// rows returns what the store has counted of tripwires, by their finding; nil while it does not answer.
func (a *tripwires) rows(ctx context.Context, keys *finding.Keys, all []*config.Tripwire) map[string]finding.Row {
	rows := map[string]finding.Row{}
	var names []string
	for _, t := range all {
		if name := keys.TripwireID(t.ID, false); !t.TrippedAt.IsZero() {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return rows
	}
	page, err := a.hits.Findings(ctx, finding.Query{
		Account: all[0].Account, IDs: names, Keep: func(id string) bool { return slices.Contains(names, id) },
		Limit: len(names),
	})
	if err != nil {
		return nil // a tripwire can be rotated and deleted while the store is unavailable
	}
	for _, row := range page.Rows {
		rows[row.ID] = row
	}
	return rows
}

func (a *tripwires) answer(w http.ResponseWriter, r *http.Request, status int, t *config.Tripwire,
	warnings []warning) error {
	views, err := a.views(r.Context(), t)
	if err != nil {
		return err
	}
	views[0].Warnings = warnings
	web.WriteJSON(w, status, views[0])
	return nil
}

// answerSecrets answers with new secrets, which no other answer has. Without any, an earlier call with the
// Idempotency-Key has made them.
func (a *tripwires) answerSecrets(w http.ResponseWriter, r *http.Request, status int, t *config.Tripwire,
	text config.TripwireText, warnings []warning) error {
	views, err := a.views(r.Context(), t)
	if err != nil {
		return err
	}
	v := views[0]
	v.Warnings = warnings
	if call := callOf(r); call != nil {
		call.remembered = web.Encode(v)
	}
	if text != (config.TripwireText{}) {
		addSecrets(v, a.baseURL, text)
	}
	web.WriteJSON(w, status, v)
	return nil
}

// tripwireInPath returns the tripwire that the path names, or the 404.
func (c *core) tripwireInPath(r *http.Request, key *config.Key) (*config.Tripwire, error) {
	t := find(r.Context(), c, c.configReader.Tripwire, web.InfoOf(r).Vars["tripwire"])
	if t == nil || t.Account != key.Account {
		return nil, web.Missing("there is no such tripwire")
	}
	return t, nil
}

func (a *tripwires) createTripwire(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.body(r)
	if err != nil {
		return err
	}
	t := &config.Tripwire{Meta: config.Meta{ID: newID(r, id.Tripwire), Account: key.Account, CreatedAt: a.now()},
		CreatedBy: key.ID}
	in := &input{}
	if a.read(in, body, t); in.err != nil {
		return in.err
	}
	a.catchUp(r.Context())
	if earlier, _ := a.config.Tripwire(t.ID); earlier != nil { // the first call with the Idempotency-Key has created it
		return a.answerSecrets(w, r, http.StatusCreated, earlier, config.TripwireText{}, in.warnings)
	}
	d, presence := a.configReader.Domain(t.Domain)
	switch {
	case presence != config.Present || d.Account != key.Account:
		return web.Invalid("domain_id", "is not one of your domains")
	case d.Status(a.now()) != config.DomainVerified:
		return web.WrongState("domain_id", "is %s; verify the domain first", d.Status(a.now()))
	}
	created, text, err := a.config.CreateTripwire(r.Context(), t)
	if errors.Is(err, config.ErrTooManyTripwires) {
		return web.WrongState("domain_id", "has %d tripwires already; delete one that is not used", config.MaxTripwires)
	}
	if err != nil {
		return err
	}
	return a.answerSecrets(w, r, http.StatusCreated, created, text, in.warnings)
}

// read reads the members of a new tripwire. The input collects errors and warnings.
func (a *tripwires) read(in *input, body []byte, t *config.Tripwire) {
	o := in.newObject("", body)
	o.text("domain_id", 1, maxName, &t.Domain)
	o.enum("kind", &t.Kind, config.TripwireKinds...)
	o.enum("path", &t.File, config.DecoyFiles...)
	o.name("label", 1, &t.Label)
	o.text("placement", 0, config.MaxPlacement, &t.Placement)
	for name, at := range map[string]*string{"label": &t.Label, "placement": &t.Placement} {
		in.maskText(a.leaks, name, at, "it is shown to everybody and stands in alerts")
	}
	o.readOnly("id", "object", "status", "token_masked", "token", "url", "file", "snippets", "issued_at",
		"last_tripped_at", "trip_count", "test_until", "finding_id", "test_finding_id", "created_by", "created_at",
		"updated_at", "warnings")
	o.warnUnknown()
	switch {
	case in.err != nil:
	case t.Domain == "":
		in.fail("domain_id", "is required")
	case t.Kind == "":
		in.fail("kind", "is required: key, url or file")
	case t.File != "" && t.Kind != config.TripwireFile:
		in.fail("path", "can only be set if kind is file")
	case t.Kind == config.TripwireFile:
		t.File = cmp.Or(t.File, config.DecoyFiles[0])
	}
	t.Label = cmp.Or(t.Label, t.ID[len(t.ID)-defaultNameLength:])
}

func (a *tripwires) readTripwire(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.catchUp(r.Context())
	t, err := a.tripwireInPath(r, key)
	if err != nil {
		return err
	}
	return a.answer(w, r, http.StatusOK, t, nil)
}

func (a *tripwires) listTripwires(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := newQuery(r, "tripwires "+key.Account)
	q.single("domain_id")
	domains := q.list("domain_id")
	if len(domains) > 1 {
		q.fail("domain_id", "may have one value")
	}
	p, err := a.configPage(r, q)
	if err != nil {
		return err
	}
	domain := ""
	if len(domains) > 0 {
		domain = domains[0]
	}
	all, more := a.config.Tripwires(key.Account, domain, p.before, p.limit)
	views, err := a.views(r.Context(), all...)
	if err != nil {
		return err
	}
	return writeConfigPage(w, p, all, more, views)
}

// readEmptyBody reads a body without members, and returns the warnings.
func (a *tripwires) readEmptyBody(r *http.Request) ([]warning, error) {
	body, err := a.body(r)
	if err != nil {
		return nil, err
	}
	in := &input{}
	in.newObject("", body).warnUnknown()
	return in.warnings, in.err
}

// rotateTripwire gives the tripwire new secrets. The former ones trip nothing any more.
func (a *tripwires) rotateTripwire(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.tripwireInPath(r, key)
	if err != nil {
		return err
	}
	warnings, err := a.readEmptyBody(r)
	if err != nil {
		return err
	}
	after, text, err := a.config.RotateTripwire(r.Context(), t.ID, rotatedBy(r))
	if err != nil {
		return err
	}
	return a.answerSecrets(w, r, http.StatusOK, after, text, warnings)
}

// testTripwire makes the next use from the caller's address a test.
func (a *tripwires) testTripwire(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.tripwireInPath(r, key)
	if err != nil {
		return err
	}
	warnings, err := a.readEmptyBody(r)
	if err != nil {
		return err
	}
	from := web.InfoOf(r).Client
	if !from.IsValid() {
		return web.WrongState("", "your address is not known, so no request can be told to be yours")
	}
	after, err := a.config.ExpectTripwireTest(r.Context(), t.ID, from)
	if err != nil {
		return err
	}
	return a.answer(w, r, http.StatusOK, after, warnings)
}

func (a *tripwires) deleteTripwire(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.tripwireInPath(r, key)
	if err != nil {
		return err
	}
	if err := a.config.DeleteTripwire(r.Context(), t.ID); err != nil {
		return err
	}
	writeDeleted(w, t.ID, "tripwire")
	return nil
}

// checkTripwires returns an error for a domain that has tripwires: they would stay planted and trip nothing.
func (a *domains) checkTripwires(d *config.Domain) error {
	all, _ := a.configReader.Tripwires(d.Account, d.ID, 0, config.MaxTripwires)
	if len(all) == 0 {
		return nil
	}
	return web.WrongState("", "the domain has %s; remove what is planted and delete them first",
		map[bool]string{true: "a tripwire", false: fmt.Sprintf("%d tripwires", len(all))}[len(all) == 1])
}
