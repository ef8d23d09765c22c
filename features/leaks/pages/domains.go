package pages

import (
	"net/url"
	"strings"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/features/leaks/routes"
	"github.com/eventrelay/relay/pkg/config/leak"
)

// Paths of the pages of domains, and of their scans for leaks.
const (
	domainsPath = "/app/domains"
	domainPath  = domainsPath + "/{domain}"
	domainAPI   = "/v1/domains/{domain}"
	scansPath   = "/app/scans"
	scanPath    = scansPath + "/{scan}"
)

// domainData is a domain of the API.
type domainData struct{ wire.Domain }

var readDomain = ui.ReadAt[domainData](domainAPI)

// Verified reports whether the host name is proven.
func (d *domainData) Verified() bool { return d.Status == leak.DomainVerified }

// Expired reports whether the proof is missing, or never came.
func (d *domainData) Expired() bool { return d.Status == leak.DomainExpired }

// Ended reports whether the domain was never proven in time, and can only be deleted.
func (d *domainData) Ended() bool { return d.Expired() && d.VerifiedAt.IsZero() }

// Record is the TXT record: its name and its text.
func (d *domainData) Record() (record struct{ Name, Value string }) {
	stored := leak.Domain{Hostname: d.Hostname, Token: d.Token}
	record.Name, record.Value = stored.RecordName(), stored.RecordValue()
	return record
}

// ByHTTP reports whether the last check asked the website, ProvenByHTTP whether the proof is the file on it.
func (d *domainData) ByHTTP() bool { return ui.TextOf(d.LastMethod) == leak.DomainByHTTP }

func (d *domainData) ProvenByHTTP() bool { return ui.TextOf(d.Method) == leak.DomainByHTTP }

var showDomains = ui.ListOf[*domainData]("domains", "/v1/domains", domainsPath)

func newDomain(_ *ui.Visit, f *ui.Form) ui.Object {
	return ui.Object{"hostname": strings.TrimSpace(f.Value("hostname"))}
}

// showDomain shows how to prove a domain, what the last check found, and its tripwires.
func showDomain(v *ui.Visit, d *domainData) error { return showDomainPage(v, d, newTripwireForm()) }

// verifyDomain looks for the proof and returns to the page, which shows the result.
func verifyDomain(v *ui.Visit, f *ui.Form) error {
	var d domainData
	if err := v.Do("POST "+domainAPI+"/verify", f, ui.Object{"method": f.Value("method")}, &d); err != nil {
		return err
	}
	if d.LastError == nil {
		return v.Redirect(v.Fill(domainPath), "The proof was found.")
	}
	return v.Redirect(v.Fill(domainPath), "No proof was found.")
}

func newScan(v *ui.Visit, _ *ui.Form) ui.Object {
	return ui.Object{"domain_id": v.Vars["domain"]}
}

// scanData is a scan of the API.
type scanData struct{ routes.Scan }

// Open reports whether the scan has not ended.
func (s *scanData) Open() bool {
	return s.Status == leak.ScanQueued || s.Status == leak.ScanRunning
}

// Findings is the number of findings that are there now.
func (s *scanData) Findings() int { return s.FindingsNew + s.FindingsSeen }

// SkippedGroup has the paths that a scan skipped for one reason.
type SkippedGroup struct {
	Reason string
	Paths  []string
}

// SkippedGroups groups the skipped paths by reason, in the order of first occurrence.
func (s *scanData) SkippedGroups() (groups []SkippedGroup) {
	at := map[string]int{}
	for _, x := range s.Skipped {
		i, known := at[x.Reason]
		if !known {
			i = len(groups)
			at[x.Reason] = i
			groups = append(groups, SkippedGroup{Reason: ui.WordText("skipped", x.Reason)})
		}
		groups[i].Paths = append(groups[i].Paths, x.Path)
	}
	return groups
}

// scansPage is the data of the list of scans.
type scansPage struct {
	ui.ListPage[*scanData]
	Domain string // whose scans these are; empty: of all
}

func listScans(v *ui.Visit) error {
	query := ui.FiltersOf(v.R.URL.Query(), []string{"domain_id"})
	list, err := ui.ReadList[*scanData](v, "/v1/scans", scansPath, query, query)
	if err != nil {
		return err
	}
	return v.Page("scans", scansPage{list, query.Get("domain_id")})
}

// showScan shows the progress of a scan, then its report.
func showScan(v *ui.Visit, s *scanData) error {
	v.SelfReloading = s.Open()
	return v.Page("scan", s)
}

// Path of the page of a tripwire. The page of its domain has the list.
const (
	tripwirePath = "/app/tripwires/{tripwire}"
	tripwireAPI  = "/v1/tripwires/{tripwire}"
)

// tripwireData is a tripwire of the API.
type tripwireData struct{ routes.Tripwire }

var readTripwire = ui.ReadAt[tripwireData](tripwireAPI)

// Tripped reports whether the present secrets were used, or seen where they should not be.
func (t *tripwireData) Tripped() bool { return t.Status == leak.TripwireTripped }

// KindName names what the tripwire is.
func (t *tripwireData) KindName() string {
	if t.Kind != leak.TripwireKey && t.Kind != leak.TripwireURL {
		return strings.TrimSpace("File " + ui.TextOf(t.Path))
	}
	return ui.OptionText(tripwireKinds, t.Kind)
}

// domainPageData is the data of the page of a domain.
type domainPageData struct {
	*domainData
	Tripwires []*tripwireData
	Form      *ui.Form // of a new tripwire
	Kinds     []ui.Option
	Files     []ui.Option
}

// MayPlant reports whether the domain may have another tripwire.
func (p *domainPageData) MayPlant() bool {
	return p.Verified() && len(p.Tripwires) < leak.MaxTripwires
}

var tripwireKinds = []ui.Option{
	{Value: leak.TripwireKey, Text: "API key", Hint: "Put it beside other keys: a repository, a vault, a wiki."},
	{Value: leak.TripwireURL, Text: "Ingest URL", Hint: "Put it into a configuration or a script."},
	{Value: leak.TripwireFile, Text: "File", Hint: "Serve it at a path that thieves try. It has a key and a URL."},
}

// showDomainPage shows a domain with its tripwires; f holds the form of a new one. A domain that was never proven has
// none.
func showDomainPage(v *ui.Visit, d *domainData, f *ui.Form) error {
	p := domainPageData{domainData: d, Form: f, Kinds: tripwireKinds, Files: ui.PlainOptions(leak.FakeFiles...)}
	if !d.VerifiedAt.IsZero() {
		list, err := ui.ReadRows[*tripwireData](v, "/v1/tripwires", url.Values{"domain_id": {d.ID}})
		if err != nil {
			return err
		}
		p.Tripwires = list.Data
	}
	return v.Page("domain", &p)
}

func newTripwireForm() *ui.Form {
	return ui.NewForm(url.Values{"kind": {leak.TripwireKey}}, "")
}

// createTripwire makes a tripwire and shows its secrets, once: a second submission of the form shows none.
func createTripwire(v *ui.Visit, f *ui.Form, d *domainData) error {
	body := f.Entered("label")
	body["domain_id"], body["kind"], body["placement"] = d.ID, f.Value("kind"), strings.TrimSpace(f.Value("placement"))
	if f.Value("kind") == leak.TripwireFile {
		body["path"] = f.Value("path")
	}
	var t tripwireData
	return v.Ask("POST /v1/tripwires", f, body, &t, func() error { return showDomainPage(v, d, f) },
		func() error { return showTripwire(v, &t) })
}

func showTripwire(v *ui.Visit, t *tripwireData) error { return v.Page("tripwire", t) }

// rotateTripwire gives the tripwire new secrets and shows them, once.
func rotateTripwire(v *ui.Visit, f *ui.Form, t *tripwireData) error {
	if err := v.Do("POST "+tripwireAPI+"/rotate", f, nil, t); err != nil {
		return err
	}
	return showTripwire(v, t)
}

func deleteTripwire(v *ui.Visit, f *ui.Form, t *tripwireData) error {
	if err := v.Do("DELETE "+tripwireAPI, f, nil, nil); err != nil {
		return err
	}
	return v.Redirect(ui.PageOf(t.DomainID), "Deleted. Its finding stays.")
}
