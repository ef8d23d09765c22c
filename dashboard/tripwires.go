package dashboard

import (
	"net/url"
	"strings"

	"github.com/eventrelay/relay/pkg/config"
)

// Path of the page of a tripwire. The page of its domain has the list.
const (
	tripwirePath = "/app/tripwires/{tripwire}"
	tripwireAPI  = "/v1/tripwires/{tripwire}"
)

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
	Count         *int64  `json:"trip_count"` // nil: the store, which counts, does not answer
	TestUntil     string  `json:"test_until"`
	FindingID     *string `json:"finding_id"` // nil before the first use
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

var readTripwire = thing[tripwireData](tripwireAPI)

// Tripped reports whether the present secrets were used, or seen where they should not be.
func (t *tripwireData) Tripped() bool { return t.State == config.TripwireTripped }

// KindName names what the tripwire is.
func (t *tripwireData) KindName() string {
	if t.Kind != config.TripwireKey && t.Kind != config.TripwireURL {
		return strings.TrimSpace("File " + textOf(t.FilePath))
	}
	return optionText(tripwireKinds, t.Kind)
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

// showDomainPage shows a domain with its tripwires; f holds the form of a new one. A domain that was never proven has
// none.
func showDomainPage(v *visit, d *domainData, f *form) error {
	p := domainPageData{domainData: d, Form: f, Kinds: tripwireKinds, Files: plainOptions(config.DecoyFiles...)}
	if d.VerifiedAt != "" {
		list, err := readRows[*tripwireData](v, "/v1/tripwires", url.Values{"domain_id": {d.ID}})
		if err != nil {
			return err
		}
		p.Tripwires = list.Data
	}
	return v.page("domain", &p)
}

func newTripwireForm() *form { return newForm(url.Values{"kind": {config.TripwireKey}}, "") }

// createTripwire makes a tripwire and shows its secrets, once: a second submission of the form shows none.
func createTripwire(v *visit, f *form, d *domainData) error {
	body := f.entered("label")
	body["domain_id"], body["kind"], body["placement"] = d.ID, f.Value("kind"), strings.TrimSpace(f.Value("placement"))
	if f.Value("kind") == config.TripwireFile {
		body["path"] = f.Value("path")
	}
	var t tripwireData
	done, err := v.ask("POST /v1/tripwires", f, body, &t, func() error { return showDomainPage(v, d, f) })
	if !done {
		return err
	}
	return showTripwire(v, &t)
}

func showTripwire(v *visit, t *tripwireData) error { return v.page("tripwire", t) }

// rotateTripwire gives the tripwire new secrets and shows them, once.
func rotateTripwire(v *visit, f *form, t *tripwireData) error {
	if err := v.do("POST "+tripwireAPI+"/rotate", f, nil, t); err != nil {
		return err
	}
	return showTripwire(v, t)
}

func deleteTripwire(v *visit, f *form, t *tripwireData) error {
	if err := v.do("DELETE "+tripwireAPI, f, nil, nil); err != nil {
		return err
	}
	return v.redirect(pageOf(t.DomainID), "Deleted. Its finding stays.")
}
