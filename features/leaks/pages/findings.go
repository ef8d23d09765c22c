package pages

import (
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/features/leaks/routes"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of findings.
const (
	findingPath = ui.FindingsPath + "/{finding}"
	findingAPI  = "/v1/findings/{finding}"
)

// findingData is a finding of the API.
type findingData struct {
	wire.Finding
	Locations []findingSpot `json:"locations"`
}

// ProviderName is the name of the provider; empty if any provider may have issued the secret.
func (f *findingData) ProviderName() string { return secrets.ProviderName(ui.TextOf(f.Provider)) }

// findingSpot is a place where a secret was seen.
type findingSpot struct{ wire.FindingLocation }

// Text names a place.
func (s *findingSpot) Text() string {
	if s.EventID != "" {
		return strings.TrimSpace(s.Label + " " + s.Pointer)
	}
	for _, text := range []string{s.URL, s.File, s.Pointer} {
		if text != "" {
			return text
		}
	}
	return s.Label
}

// Place names a location in a sentence; its label names the drain or application.
func (s *findingSpot) Place() string {
	text := s.Text()
	switch {
	case text != s.Label:
	case s.DrainID != "":
		return "the log drain " + text
	case s.DSNID != "":
		return "the application " + text
	}
	return text
}

// leakingSpan is how recent a hit must be for a page to say that a secret still leaks.
const leakingSpan = time.Hour

// Outstanding reports whether somebody has to act.
func (f *findingData) Outstanding() bool { return f.Status.Outstanding() }

// May reports whether the finding can get a status.
func (f *findingData) May(to string) bool {
	return f.Status.MayBecome(finding.Status(to))
}

// IsFlood reports whether it stands for all secrets beyond the bounds of a sender.
func (f *findingData) IsFlood() bool { return f.Rule == finding.RuleFlood }

// IsTripwire reports whether somebody has touched a honeytoken.
func (f *findingData) IsTripwire() bool { return f.Kind == finding.Tripwire }

// findingsPage is the data of the list of findings.
type findingsPage struct {
	*ui.FilteredList[*findingData]
	Sources []ui.Option
}

// outstanding is the filter of the list when none is chosen.
const outstanding = "open,acknowledged"

func findingSources() []ui.Option {
	out := []ui.Option{{Value: "", Text: "Any"}}
	for _, s := range finding.Sources {
		out = append(out, ui.Option{Value: string(s), Text: ui.WordText("source", string(s))})
	}
	return out
}

var findingFilters = []string{"status", "severity", "source", "since"}

// listFindings shows the findings that match the filters, those that somebody has to act on if no status is chosen.
func listFindings(v *ui.Visit) error {
	shown := ui.FiltersOf(v.R.URL.Query(), findingFilters)
	if shown.Get("status") == "" {
		shown.Set("status", outstanding)
	}
	query := maps.Clone(shown)
	if query.Get("status") == "any" {
		query.Del("status")
	}
	list, err := ui.ListFiltered[*findingData](v, "/v1/findings", ui.FindingsPath, findingFilters, query, shown)
	if err != nil {
		return err
	}
	list.CSV, list.Filtered = ui.CSVLink("findings", query), len(shown) > 1 || !list.First
	return v.Page("findings", findingsPage{list, findingSources()})
}

// findingPageData is the data of the page of one finding.
type findingPageData struct {
	*findingData
	Form *ui.Form
	Seen occurrencesPart
}

// occurrencesPart is one page of the times at which a secret was seen.
type occurrencesPart struct {
	ui.ListPage[occurrenceData]
	Unavailable string // why they could not be read
}

// occurrenceData is a hit of a finding.
type occurrenceData struct {
	routes.Occurrence
	Location findingSpot `json:"location"`
}

// readOccurrences reads the page of occurrences that the address names. The page of a finding is shown without them:
// people act on a finding while the store is unavailable.
func readOccurrences(v *ui.Visit, f *findingData) (part occurrencesPart, err error) {
	part.ListPage, err = ui.ReadList[occurrenceData](v, findingAPI+"/occurrences", ui.PageOf(f.ID),
		url.Values{"limit": {"20"}},
		nil)
	if ui.IsUnavailable(err) {
		part.Unavailable, err = ui.MessageOf(err), nil
	}
	if part.Next != "" {
		part.Next += "#occurrences"
	}
	return part, err
}

var readFinding = ui.ReadAt[findingData](findingAPI)

// showFinding shows where a secret leaks, since when, whether it still does, and what to do.
func showFinding(v *ui.Visit, f *findingData) error {
	return renderFinding(v, f, ui.NewForm(url.Values{"ignore_reason": {"accepted_risk"}}, ""))
}

func renderFinding(v *ui.Visit, f *findingData, filled *ui.Form) error {
	f.UpdatedBy = v.NameOfAny(f.UpdatedBy)
	part, err := readOccurrences(v, f)
	if err != nil {
		return err
	}
	return v.Page("finding", &findingPageData{f, filled, part})
}

// findingMoves are the members of the call, by the value of the button, and the messages afterwards.
var findingMoves = map[string]struct {
	members ui.Object
	message string
}{
	"acknowledged": {ui.Object{"status": "acknowledged"}, "Acknowledged"},
	"open":         {ui.Object{"status": "open"}, "Reopened"},
	"revoked": {ui.Object{"status": "resolved", "resolution": "revoked"},
		"Resolved. It reopens by itself if the secret is seen again."},
	"removed": {ui.Object{"status": "resolved", "resolution": "removed"},
		"Resolved. It reopens by itself if the secret is seen again."},
	"false_positive": {ui.Object{"status": "resolved", "resolution": "false_positive"}, "Resolved"},
	"ignored":        {ui.Object{"status": "ignored"}, "Ignored. Its hits are only counted."},
	"note":           {ui.Object{}, "Saved"},
}

// setStatus changes the status of a finding, or its note.
func setStatus(v *ui.Visit, sent *ui.Form) error {
	move, known := findingMoves[sent.Value("move")]
	if !known {
		return web.Invalid("", "The form is incomplete. Open the page again and send it once more.")
	}
	f, err := readFinding(v)
	if err != nil {
		return err
	}
	body := map[string]any{}
	switch sent.Value("move") {
	case "ignored":
		body = sent.Entered("ignore_until")
		body["ignore_reason"] = sent.Value("ignore_reason")
	case "note":
		body["note"] = sent.Value("note")
	}
	maps.Copy(body, move.members)
	sent.AddVersion(body, f.Version, nil)
	err = v.Do("PATCH "+findingAPI, sent, body, nil)
	if x, ok := ui.BadRequest(err); ok && x.Type == web.Conflict {
		x.Message, x.Param = "somebody changed this finding after you opened it; the page shows it as it is now", ""
	}
	return v.Answer(sent, err, func() error { return renderFinding(v, f, sent) },
		ui.Opens(v, ui.PageOf(f.ID), move.message))
}
