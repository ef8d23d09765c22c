package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// tripwirePath is the page of a tripwire. The page of its domain has the list.
const tripwirePath = "/app/tripwires/{tripwire}"

// tripwireData is a tripwire of the API.
type tripwireData struct {
	ID            string  `json:"id"`
	DomainID      string  `json:"domain_id"`
	Kind          string  `json:"kind"`
	Label         string  `json:"label"`
	Placement     string  `json:"placement"`
	State         string  `json:"status"`
	Masked        string  `json:"token_masked"`
	Token         *string `json:"token"` // nil: it is not shown any more
	URL           *string `json:"url"`
	File          *decoy  `json:"file"`
	Snippets      []decoy `json:"snippets"`
	FilePath      *string `json:"path"`
	IssuedAt      string  `json:"issued_at"`
	LastTrippedAt string  `json:"last_tripped_at"`
	Count         *int64  `json:"trip_count"`
	TestUntil     string  `json:"test_until"`
	FindingID     *string `json:"finding_id"`
	TestFindingID *string `json:"test_finding_id"`
	CreatedAt     string  `json:"created_at"`
}

// decoy is a text to plant: a file with its path, or a snippet with its name.
type decoy struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Name    string `json:"name"`
	Text    string `json:"text"`
}

// Path is the page of the tripwire.
func (t *tripwireData) Path() string { return "/app/tripwires/" + url.PathEscape(t.ID) }

// DomainPath is the page of its domain.
func (t *tripwireData) DomainPath() string { return domainsPath + "/" + url.PathEscape(t.DomainID) }

// FindingPath is the page of the finding that holds its uses; empty before the first one.
func (t *tripwireData) FindingPath() string { return findingLink(t.FindingID) }

// TestFindingPath is that of its tests.
func (t *tripwireData) TestFindingPath() string { return findingLink(t.TestFindingID) }

func findingLink(finding *string) string {
	if finding == nil {
		return ""
	}
	return findingsPath + "/" + url.PathEscape(*finding)
}

func (t *tripwireData) api() string { return "/v1/tripwires/" + url.PathEscape(t.ID) }

// Tripped reports whether the present secrets were used, or seen where they should not be.
func (t *tripwireData) Tripped() bool { return t.State == config.TripwireTripped }

// Trips is how often it was touched; 0 while Unknown.
func (t *tripwireData) Trips() int64 { return count(t.Count) }

// Unknown reports whether the store, which counts its uses, does not answer.
func (t *tripwireData) Unknown() bool { return t.Count == nil }

// KindName names what the tripwire is.
func (t *tripwireData) KindName() string {
	switch {
	case t.Kind == config.TripwireKey:
		return "API key"
	case t.Kind == config.TripwireURL:
		return "Ingest URL"
	case t.FilePath != nil:
		return "File " + *t.FilePath
	}
	return "File"
}

// domainPageData is the data of the page of a domain.
type domainPageData struct {
	*domainData
	Tripwires []*tripwireData
	Form      *form // of a new tripwire
	Kinds     []option
	Files     []option
}

// MayPlant reports whether the domain may have another tripwire.
func (p *domainPageData) MayPlant() bool {
	return p.Verified() && len(p.Tripwires) < config.MaxTripwires
}

var tripwireKinds = []option{
	{Value: config.TripwireKey, Text: "API key", Hint: "Put it beside other keys: a repository, a vault, a wiki."},
	{Value: config.TripwireURL, Text: "Ingest URL", Hint: "Put it into a configuration or a script."},
	{Value: config.TripwireFile, Text: "File", Hint: "Serve it at a path that thieves try. It has a key and a URL."},
}

func decoyFiles() (out []option) {
	for _, path := range config.DecoyFiles {
		out = append(out, option{Value: path, Text: path})
	}
	return out
}

// showDomainPage shows a domain with its tripwires; f holds the form of a new one. A domain that was never proven has
// none.
func showDomainPage(v *visit, d *domainData, f *form) error {
	p := domainPageData{domainData: d, Form: f, Kinds: tripwireKinds, Files: decoyFiles()}
	if d.VerifiedAt != "" {
		var list struct {
			Data []*tripwireData `json:"data"`
		}
		if err := v.get("/v1/tripwires", url.Values{"domain_id": {d.ID}}, &list); err != nil {
			return err
		}
		p.Tripwires = list.Data
	}
	return v.page("domain", &p)
}

func newTripwireForm() *form { return newForm(url.Values{"kind": {config.TripwireKey}}, "") }

// createTripwire makes a tripwire and shows its secrets, once: a second submission of the form shows none.
func createTripwire(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	d, err := readDomain(v)
	if err != nil {
		return err
	}
	body := map[string]any{"domain_id": d.ID, "kind": f.Value("kind"),
		"placement": strings.TrimSpace(f.Value("placement"))}
	if label := strings.TrimSpace(f.Value("label")); label != "" {
		body["label"] = label
	}
	if f.Value("kind") == config.TripwireFile {
		body["path"] = f.Value("path")
	}
	var t tripwireData
	err = v.send("POST", "/v1/tripwires", body, f.Nonce, &t)
	if x, ok := badRequest(err); ok {
		v.status = f.setError(x)
		return showDomainPage(v, d, f)
	} else if err != nil {
		return err
	}
	return v.page("tripwire", &t)
}

// readTripwire returns the tripwire in the path.
func readTripwire(v *visit) (*tripwireData, error) {
	t := &tripwireData{}
	err := v.get("/v1/tripwires/"+v.vars["tripwire"], nil, t)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusNotFound {
		return nil, web.Missing("There is no such tripwire. It may have been deleted.")
	}
	return t, err
}

func showTripwire(v *visit) error {
	t, err := readTripwire(v)
	if err != nil {
		return err
	}
	return v.page("tripwire", t)
}

// rotateTripwire gives the tripwire new secrets and shows them, once.
func rotateTripwire(v *visit) error {
	t, f, err := tripwireOfForm(v)
	if err != nil {
		return err
	}
	if err := v.send("POST", t.api()+"/rotate", map[string]any{}, f.Nonce, t); err != nil {
		return err
	}
	return v.page("tripwire", t)
}

// expectTripwireTest makes the next use from the person's address a test.
func expectTripwireTest(v *visit) error {
	t, f, err := tripwireOfForm(v)
	if err != nil {
		return err
	}
	if err := v.send("POST", t.api()+"/test", map[string]any{}, f.Nonce, nil); err != nil {
		return err
	}
	return v.redirect(t.Path(), "Touch it now: the next use from your address within ten minutes is a test.")
}

func deleteTripwire(v *visit) error {
	t, _, err := tripwireOfForm(v)
	if err != nil {
		return err
	}
	if err := v.send("DELETE", t.api(), nil, "", nil); err != nil {
		return err
	}
	return v.redirect(t.DomainPath(), "Deleted. Its finding stays.")
}

func tripwireOfForm(v *visit) (*tripwireData, *form, error) {
	f, err := v.form()
	if err != nil {
		return nil, nil, err
	}
	t, err := readTripwire(v)
	return t, f, err
}
