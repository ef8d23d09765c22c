package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

type tripwireResource = frame.Resource[leak.Tripwire, *leak.Tripwire, *Tripwire]

// tripwires serves the tripwires of domains. Their secrets are shown once.
type tripwires struct {
	*tripwireResource
	*Deps
}

func newTripwires(of area) *tripwires {
	a := &tripwires{Deps: of.Deps}
	a.tripwireResource = &tripwireResource{
		Core: of.Core, Object: "tripwire", Merge: a.merge, Fixed: true, Views: a.views,
		Fresh: func(r *http.Request, by *config.Key) *leak.Tripwire {
			return &leak.Tripwire{Meta: a.NewMeta(r, id.Tripwire, by), CreatedBy: by.ID}
		},
		Keep: func(q *frame.Query) func(*leak.Tripwire) bool {
			q.Single("domain_id")
			domains := q.List("domain_id")
			if len(domains) > 1 {
				q.Fail("domain_id", "may have one value")
			}
			return func(t *leak.Tripwire) bool { return len(domains) == 0 || t.Domain == domains[0] }
		},
		Own: frame.Methods{"POST": a.create},
	}
	return a
}

// views renders tripwires with what was counted. Their findings are named once they exist.
func (a *tripwires) views(ctx context.Context, _ *config.Key, all ...*leak.Tripwire) ([]*Tripwire, error) {
	if len(all) == 0 {
		return []*Tripwire{}, nil
	}
	keys, err := a.Control.FindingKeys(ctx)
	if err != nil {
		return nil, err
	}
	out, rows := make([]*Tripwire, len(all)), a.rows(ctx, &keys, all)
	for i, t := range all {
		v := &Tripwire{
			ID: t.ID, Object: "tripwire", DomainID: t.Domain, Kind: t.Kind, Path: frame.OrNull(t.File), Label: t.Label,
			Placement: t.Placement, Status: t.Status(), TokenMasked: t.Masked(), Snippets: []TripwireSnippet{},
			IssuedAt: web.Time(t.IssuedAt), LastTrippedAt: web.Time(t.TrippedAt), Meta: metaView(t.CreatedBy, &t.Meta),
		}
		if t.Test != nil && a.Now().Before(t.Test.Until) {
			v.TestUntil = web.Time(t.Test.Until)
		}
		name := keys.TripwireID(t.ID, false)
		if f, _ := a.Control.Finding(name); f != nil {
			v.FindingID = &f.ID
		}
		if f, _ := a.Control.Finding(keys.TripwireID(t.ID, true)); f != nil {
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
func (a *tripwires) rows(ctx context.Context, keys *finding.Keys, all []*leak.Tripwire) map[string]finding.Row {
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
	page, err := a.Findings.Findings(ctx, finding.Query{
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

// answerSecrets answers with new secrets, which no other answer has. Without any, an earlier call with the
// Idempotency-Key has made them.
func (a *tripwires) answerSecrets(w http.ResponseWriter, r *http.Request, status int, t *leak.Tripwire,
	text leak.TripwireText, warnings []frame.Warning) error {
	views, err := a.views(r.Context(), nil, t)
	if err != nil {
		return err
	}
	v := views[0]
	v.Warnings = warnings
	if call := frame.CallOf(r); call != nil {
		call.Remembered = web.Encode(v)
	}
	if text != (leak.TripwireText{}) {
		addSecrets(v, a.BaseURL, text)
	}
	return web.Answer(w, status, v)
}

func (a *tripwires) create(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t := a.Fresh(r, key)
	in, err := a.ReadNew(r, t)
	if err != nil {
		return err
	}
	a.CatchUp(r.Context())
	if earlier, _ := a.Control.Tripwire(t.ID); earlier != nil { // the first call with the Idempotency-Key has created it
		return a.answerSecrets(w, r, http.StatusCreated, earlier, leak.TripwireText{}, in.Warnings)
	}
	d, presence := entity.Get[leak.Domain](a.Config, t.Domain)
	switch {
	case presence != entity.Present || d.Account != key.Account:
		return web.Invalid("domain_id", "is not one of your domains")
	case d.Status(a.Now()) != leak.DomainVerified:
		return web.WrongState("domain_id", "is %s; verify the domain first", d.Status(a.Now()))
	}
	created, text, err := a.Control.CreateTripwire(r.Context(), t)
	if errors.Is(err, leak.ErrTooManyTripwires) {
		return web.WrongState("domain_id", "has %d tripwires already; delete one that is not used", leak.MaxTripwires)
	}
	if err != nil {
		return err
	}
	return a.answerSecrets(w, r, http.StatusCreated, created, text, in.Warnings)
}

// merge reads the members of a new tripwire.
func (a *tripwires) merge(in *frame.Input, o *frame.Object, t *leak.Tripwire) {
	x := Tripwire{}
	o.Decode(&x)
	o.Enum("path", &t.File, leak.FakeFiles...)
	t.Domain, t.Kind, t.Label, t.Placement = x.DomainID, x.Kind, x.Label, x.Placement
	for name, at := range map[string]*string{"label": &t.Label, "placement": &t.Placement} {
		in.MaskText(a.LeakScanner, name, at, "it is shown to everybody and stands in alerts")
	}
	o.WarnUnknown()
	switch {
	case in.Err != nil:
	case t.Domain == "":
		in.Fail("domain_id", "is required")
	case t.Kind == "":
		in.Fail("kind", "is required: key, url or file")
	case t.File != "" && t.Kind != leak.TripwireFile:
		in.Fail("path", "can only be set if kind is file")
	case t.Kind == leak.TripwireFile:
		t.File = cmp.Or(t.File, leak.FakeFiles[0])
	}
	t.Label = cmp.Or(t.Label, t.ID[len(t.ID)-frame.DefaultNameLength:])
}

// readEmptyBody reads a body without members, and returns the warnings.
func (a *tripwires) readEmptyBody(r *http.Request) ([]frame.Warning, error) {
	body, err := a.Body(r)
	if err != nil {
		return nil, err
	}
	in := &frame.Input{}
	in.NewObject("", body).WarnUnknown()
	return in.Warnings, in.Err
}

// rotate gives the tripwire new secrets. The former ones trip nothing any more.
func (a *tripwires) rotate(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.InPath(r, key)
	if err != nil {
		return err
	}
	warnings, err := a.readEmptyBody(r)
	if err != nil {
		return err
	}
	after, text, err := a.Control.RotateTripwire(r.Context(), t.ID, frame.RotatedBy(r))
	if err != nil {
		return err
	}
	return a.answerSecrets(w, r, http.StatusOK, after, text, warnings)
}

// test makes the next use from the caller's address a test.
func (a *tripwires) test(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	t, err := a.InPath(r, key)
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
	after, err := a.Control.ExpectTripwireTest(r.Context(), t.ID, from)
	if err != nil {
		return err
	}
	return a.Answer(w, r, key, http.StatusOK, after, warnings)
}

// hasNoTripwires returns an error for a domain that has tripwires: they would stay planted and trip nothing.
func (a *domains) hasNoTripwires(d *leak.Domain) error {
	all, _ := entity.List(a.Config, d.Account, 0, leak.MaxTripwires, func(t *leak.Tripwire) bool {
		return t.Domain == d.ID
	})
	if len(all) == 0 {
		return nil
	}
	return web.WrongState("", "the domain has %s; remove what is planted and delete them first",
		map[bool]string{true: "a tripwire", false: fmt.Sprintf("%d tripwires", len(all))}[len(all) == 1])
}

// addSecrets adds the secrets of a tripwire, as they are planted. Each text names this service, so that somebody who
// finds a secret tries it here.
func addSecrets(v *Tripwire, baseURL string, text leak.TripwireText) {
	token, url := text.Token, baseURL+frame.IngestPath+text.Token
	if text.Key != "" {
		token = text.Key
	}
	v.Token = &token
	if text.Token != "" {
		v.URL = &url
	}
	switch v.Kind {
	case leak.TripwireKey:
		v.Snippets = []TripwireSnippet{
			{Name: "environment", Text: "RELAY_URL=" + baseURL + "\nRELAY_API_KEY=" + token},
			{Name: "shell", Text: fmt.Sprintf("curl -H 'Authorization: Bearer %s' %s/v1/events", token, baseURL)},
			{Name: "json", Text: fmt.Sprintf("{\n  \"relay\": {\n    \"url\": %q,\n    \"apiKey\": %q\n  }\n}", baseURL, token)},
		}
	case leak.TripwireURL:
		v.Snippets = []TripwireSnippet{
			{Name: "environment", Text: "WEBHOOK_URL=" + url},
			{Name: "shell", Text: fmt.Sprintf("curl -d '{\"type\":\"ping\"}' %s", url)},
			{Name: "javascript", Text: fmt.Sprintf("const webhookURL = %q;", url)},
		}
	case leak.TripwireFile:
		v.File = &TripwireFile{Path: *v.Path, Content: fakeFile(*v.Path, baseURL, text.Key, url)}
	}
}

// fakeFile returns a file as one finds it at its path.
func fakeFile(path, baseURL, key, url string) string {
	switch path {
	case "/.git/config":
		return fmt.Sprintf(`[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
[http %q]
	extraHeader = Authorization: Bearer %s
[remote "origin"]
	url = %s
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
`, baseURL+"/", key, url)
	case "/credentials.json":
		return fmt.Sprintf("{\n  \"environment\": \"production\",\n  \"api\": %q,\n  \"api_key\": %q,\n"+
			"  \"webhook_url\": %q\n}\n", baseURL+"/v1", key, url)
	}
	return fmt.Sprintf("APP_ENV=production\nAPP_DEBUG=false\nLOG_LEVEL=warn\n\nRELAY_URL=%s\nRELAY_API_KEY=%s\n"+
		"WEBHOOK_URL=%s\n", baseURL, key, url)
}
