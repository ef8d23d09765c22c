package dashboard

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of findings.
const (
	findingsPath = "/app/findings"
	findingPath  = findingsPath + "/{finding}"
)

// findingData is a finding of the API.
type findingData struct {
	ID          string        `json:"id"`
	Kind        string        `json:"kind"`
	Rule        string        `json:"rule"`
	Name        string        `json:"name"`
	Provider    *string       `json:"provider"`
	DocsURL     *string       `json:"docs_url"`
	Severity    string        `json:"severity"`
	Status      string        `json:"status"`
	Masked      *string       `json:"masked"`
	Fingerprint *string       `json:"fingerprint"`
	Sources     []string      `json:"sources"`
	FirstSeen   string        `json:"first_seen"`
	LastSeen    time.Time     `json:"last_seen"`
	Occurrences int64         `json:"occurrences"`
	Unverified  bool          `json:"unverified"`
	Test        bool          `json:"test"`
	KeyID       *string       `json:"key_id"`
	Environment *string       `json:"environment"`
	Release     *string       `json:"release"`
	Locations   []findingSpot `json:"locations"`
	Resolution  *string       `json:"resolution"`
	Reason      *string       `json:"ignore_reason"`
	IgnoreUntil string        `json:"ignore_until"`
	ResolvedAt  *time.Time    `json:"resolved_at"`
	RegressedAt string        `json:"regressed_at"`
	Note        *string       `json:"note"`
	UpdatedBy   *string       `json:"updated_by"`
	Version     int           `json:"version"`

	now time.Time
}

// ProviderName is the name of the provider; empty if any provider may have issued the secret.
func (f *findingData) ProviderName() string { return secrets.ProviderName(textOf(f.Provider)) }

// findingSpot is a place where a secret was seen.
type findingSpot struct {
	Source   string  `json:"source"`
	Label    string  `json:"label"`
	File     string  `json:"file"`
	Line     int     `json:"line"`
	Lines    []int   `json:"lines"`
	URL      string  `json:"url"`
	Pointer  string  `json:"pointer"`
	Function string  `json:"function"`
	DrainID  *string `json:"drain_id"`
	DSNID    *string `json:"dsn_id"`
	EventID  *string `json:"event_id"`
	Tripwire string  `json:"tripwire_id"`
	Count    int64   `json:"count"`
	LastSeen string  `json:"last_seen"`
}

// LineText names the lines: "line 3", "lines 3, 9, 14"; empty if none is known.
func (s *findingSpot) LineText() string {
	lines := s.Lines
	if len(lines) == 0 && s.Line > 0 {
		lines = []int{s.Line}
	}
	text := ""
	for i, line := range lines {
		text += []string{" line ", ", "}[min(i, 1)] + strconv.Itoa(line)
	}
	if len(lines) > 1 {
		text = strings.Replace(text, "line", "lines", 1)
	}
	return text
}

// DrainPath is the page of the drain that saw it; empty if none did.
func (s *findingSpot) DrainPath() string {
	if s.DrainID == nil {
		return ""
	}
	return drainsPath + "/" + url.PathEscape(*s.DrainID)
}

// ApplicationPath is the page of the application that reported it; empty if none did.
func (s *findingSpot) ApplicationPath() string {
	if s.DSNID == nil {
		return ""
	}
	return applicationsPath + "/" + url.PathEscape(*s.DSNID)
}

// EventPath is the page of the newest event at this place; empty if it was not in an event.
func (s *findingSpot) EventPath() string {
	if s.EventID == nil {
		return ""
	}
	return "/app/events/" + url.PathEscape(*s.EventID)
}

// TripwirePath is the page of the tripwire that was touched; empty if none was.
func (s *findingSpot) TripwirePath() string {
	if s.Tripwire == "" {
		return ""
	}
	return (&tripwireData{ID: s.Tripwire}).Path()
}

// Path is the page of the finding.
func (f *findingData) Path() string { return findingsPath + "/" + url.PathEscape(f.ID) }

func (f *findingData) api() string { return "/v1/findings/" + url.PathEscape(f.ID) }

// SeverityIcon and SeverityClass are how a severity looks.
func (f *findingData) SeverityIcon() string {
	return map[string]string{"critical": "sev4", "high": "sev3", "medium": "sev2"}[f.Severity]
}

// SeverityClass is empty for a severity without a colour.
func (f *findingData) SeverityClass() string {
	return map[string]string{"critical": "failed on", "high": "retrying", "low": "skipped"}[f.Severity]
}

// Where names the newest place in a line.
func (f *findingData) Where() string {
	if len(f.Locations) == 0 {
		return strings.Join(f.Sources, ", ")
	}
	return f.Locations[0].Text()
}

// SourceText names the kinds of senders that saw it.
func (f *findingData) SourceText() string {
	names := make([]string, len(f.Sources))
	for i, s := range f.Sources {
		names[i] = cmp.Or(sourceTexts[finding.Source(s)], s)
	}
	return strings.Join(names, ", ")
}

// Text names a place.
func (s *findingSpot) Text() string {
	if s.EventID != nil {
		return strings.TrimSpace(s.Label + " " + s.Pointer)
	}
	for _, text := range []string{s.URL, s.File, s.Pointer} {
		if text != "" {
			return text
		}
	}
	return s.Label
}

// Place names a place in a sentence: a label says what has it.
func (s *findingSpot) Place() string {
	text := s.Text()
	switch {
	case text != s.Label:
	case s.DrainID != nil:
		return "the log drain " + text
	case s.DSNID != nil:
		return "the application " + text
	}
	return text
}

// leakingSpan is how recent a hit must be for the page to say that the secret still leaks.
const leakingSpan = time.Hour

// Leaking reports whether the secret was seen in the last hour.
func (f *findingData) Leaking() bool { return f.now.Sub(f.LastSeen) < leakingSpan }

// Outstanding reports whether somebody has to act.
func (f *findingData) Outstanding() bool { return finding.Status(f.Status).Outstanding() }

// May reports whether the finding can get a status.
func (f *findingData) May(to string) bool {
	return finding.Status(f.Status).MayBecome(finding.Status(to))
}

// IsFlood reports whether it stands for all secrets beyond the bounds of a sender.
func (f *findingData) IsFlood() bool { return f.Rule == finding.RuleFlood }

// IsTripwire reports whether somebody has touched a decoy.
func (f *findingData) IsTripwire() bool { return f.Kind == string(finding.Tripwire) }

// End says why the finding needs nobody any more; empty while it does.
func (f *findingData) End() string {
	for _, reason := range []*string{f.Resolution, f.Reason} {
		if reason != nil {
			return strings.ReplaceAll(*reason, "_", " ")
		}
	}
	return ""
}

// findingsPage is the data of the list of findings.
type findingsPage struct {
	Findings    []*findingData
	Unavailable string // why the list could not be read
	Filters     *form
	Statuses    []option
	Severities  []option
	Sources     []option
	Filtered    bool
	First       bool
	Next        string // path of the next page; empty: there is none
	CSV         string // path of the same list as CSV
}

// outstanding is the filter of the list when none is chosen.
const outstanding = "open,acknowledged"

var findingStatuses = []option{
	{Value: outstanding, Text: "Open or acknowledged"}, {Value: "open", Text: "Open"},
	{Value: "acknowledged", Text: "Acknowledged"}, {Value: "resolved", Text: "Resolved"},
	{Value: "ignored", Text: "Ignored"}, {Value: "any", Text: "Any"},
}

var findingSeverities = []option{
	{Value: "", Text: "Any"}, {Value: "critical", Text: "Critical"}, {Value: "high", Text: "High"},
	{Value: "medium", Text: "Medium"}, {Value: "low", Text: "Low"},
}

// sourceTexts name the sources of hits.
var sourceTexts = map[finding.Source]string{
	finding.SDK: "SDK", finding.Drain: "Log drain", finding.Scan: "Leak scan", finding.FromTripwire: "Tripwire",
	finding.Event: "Event",
}

func findingSources() []option {
	out := []option{{Value: "", Text: "Any"}}
	for _, s := range finding.Sources {
		out = append(out, option{Value: string(s), Text: sourceTexts[s]})
	}
	return out
}

// findingFilters are the fields of the filter that are passed to the API as they are.
var findingFilters = []string{"severity", "source", "since", "cursor"}

// listFindings shows the findings that match the filters, those that somebody has to act on if there are none.
func listFindings(v *visit) error {
	var list struct {
		Data       []*findingData `json:"data"`
		NextCursor string         `json:"next_cursor"`
	}
	asked := v.r.URL.Query()
	shown := url.Values{"status": {asked.Get("status")}}
	if asked.Get("status") == "" {
		shown.Set("status", outstanding)
	}
	query := url.Values{"limit": {"50"}}
	if status := shown.Get("status"); status != "any" {
		query.Set("status", status)
	}
	p := findingsPage{Statuses: findingStatuses, Severities: findingSeverities, Sources: findingSources(), First: true}
	for _, name := range findingFilters {
		if value := asked.Get(name); value != "" {
			query.Set(name, value)
			shown.Set(name, value)
			p.Filtered = true
		}
	}
	p.First = asked.Get("cursor") == ""
	p.CSV = csvLink("findings", filtersOf(query, csvLists["findings"].filters))
	p.Filters = newForm(shown, "")
	err := v.get("/v1/findings", query, &list)
	switch x, ok := errors.AsType[*apiError](err); {
	case ok && x.isUnavailable():
		p.Unavailable, v.status = sentence(x.Message), x.Status
	case ok && x.Status == http.StatusBadRequest && slices.Contains(append(findingFilters, "status"), x.Param):
		v.status = p.Filters.setError(x)
	case err != nil:
		return err
	}
	for _, f := range list.Data {
		f.now = v.deps.Now()
	}
	p.Findings = list.Data
	if list.NextCursor != "" {
		next := url.Values{"cursor": {list.NextCursor}}
		for _, name := range []string{"status", "severity", "source", "since"} {
			if value := shown.Get(name); value != "" {
				next.Set(name, value)
			}
		}
		p.Next = findingsPath + "?" + next.Encode()
	}
	return v.page("findings", p)
}

// findingPageData is the data of the page of one finding.
type findingPageData struct {
	*findingData
	Form        *form
	Reasons     []option
	Occurrences occurrencesPart
}

// Total is how often the secret was seen.
func (p *findingPageData) Total() int64 { return p.findingData.Occurrences }

// occurrencesPart is one page of the times at which a secret was seen.
type occurrencesPart struct {
	Rows        []occurrenceData
	Unavailable string // why they could not be read
	First       bool
	Next        string // path of the next page; empty: there is none
}

// occurrenceData is a hit of a finding.
type occurrenceData struct {
	At          time.Time   `json:"at"`
	Count       int64       `json:"count"`
	Location    findingSpot `json:"location"`
	Environment *string     `json:"environment"`
	Release     *string     `json:"release"`
	Unverified  bool        `json:"unverified"`
	Method      *string     `json:"method"` // this and the following: of the use of a tripwire
	UserAgent   *string     `json:"user_agent"`
	RemoteIP    *string     `json:"remote_ip"`
	RemoteNet   *string     `json:"remote_network"`
}

// readOccurrences reads the page of occurrences that the address names. The page of a finding is shown without them:
// people act on a finding while the store is unavailable.
func readOccurrences(v *visit, f *findingData) (part occurrencesPart, err error) {
	var list struct {
		Data       []occurrenceData `json:"data"`
		NextCursor string           `json:"next_cursor"`
	}
	query := url.Values{"limit": {"20"}}
	part.First = true
	if cursor := v.r.URL.Query().Get("cursor"); cursor != "" && v.r.Method == http.MethodGet {
		query.Set("cursor", cursor)
		part.First = false
	}
	err = v.get(f.api()+"/occurrences", query, &list)
	if x, ok := errors.AsType[*apiError](err); ok && x.isUnavailable() {
		part.Unavailable = sentence(x.Message)
		return part, nil
	}
	part.Rows = list.Data
	if list.NextCursor != "" {
		part.Next = f.Path() + "?" + url.Values{"cursor": {list.NextCursor}}.Encode() + "#occurrences"
	}
	return part, err
}

// ignoreReasons are the choices of the form that ignores a finding.
var ignoreReasons = []option{
	{Value: "accepted_risk", Text: "The risk is accepted"}, {Value: "used_in_tests", Text: "It is used in tests alone"},
	{Value: "false_positive", Text: "It is no secret"},
}

// readFinding returns the finding in the path.
func readFinding(v *visit) (*findingData, error) {
	f := &findingData{now: v.deps.Now()}
	err := v.get("/v1/findings/"+v.vars["finding"], nil, f)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusNotFound {
		return nil, web.Missing("There is no such finding. It is forgotten 400 days after it was seen last.")
	}
	return f, err
}

// showFinding shows where a secret leaks, since when, whether it still does, and what to do.
func showFinding(v *visit) error {
	f, err := readFinding(v)
	if err != nil {
		return err
	}
	return renderFinding(v, f, newForm(url.Values{"ignore_reason": {"accepted_risk"}}, ""))
}

func renderFinding(v *visit, f *findingData, filled *form) error {
	if f.UpdatedBy != nil {
		name := v.nameOf(*f.UpdatedBy)
		f.UpdatedBy = &name
	}
	part, err := readOccurrences(v, f)
	if err != nil {
		return err
	}
	return v.page("finding", &findingPageData{f, filled, ignoreReasons, part})
}

// moves of a finding, by the value of the button: the members of the call, and the message afterwards.
var findingMoves = map[string]struct {
	members map[string]any
	message string
}{
	"acknowledged": {map[string]any{"status": "acknowledged"}, "Acknowledged"},
	"open":         {map[string]any{"status": "open"}, "Reopened"},
	"revoked": {map[string]any{"status": "resolved", "resolution": "revoked"},
		"Resolved. It reopens by itself if the secret is seen again."},
	"removed": {map[string]any{"status": "resolved", "resolution": "removed"},
		"Resolved. It reopens by itself if the secret is seen again."},
	"false_positive": {map[string]any{"status": "resolved", "resolution": "false_positive"}, "Resolved"},
	"ignored":        {map[string]any{"status": "ignored"}, "Ignored. Its hits are only counted."},
	"note":           {map[string]any{}, "Saved"},
}

// setStatus changes the status of a finding, or its note.
func setStatus(v *visit) error {
	sent, err := v.form()
	if err != nil {
		return err
	}
	move, known := findingMoves[sent.Value("move")]
	if !known {
		return web.Invalid("", "The form is incomplete. Open the page again and send it once more.")
	}
	f, err := readFinding(v)
	if err != nil {
		return err
	}
	body := map[string]any{}
	for name, value := range move.members {
		body[name] = value
	}
	if version, err := strconv.Atoi(sent.Version); err == nil {
		body["version"] = version
	}
	switch sent.Value("move") {
	case "ignored":
		body["ignore_reason"] = sent.Value("ignore_reason")
		if until := strings.TrimSpace(sent.Value("ignore_until")); until != "" {
			body["ignore_until"] = until
		}
	case "note":
		body["note"] = sent.Value("note")
	}
	err = v.send("PATCH", f.api(), body, "", nil)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusBadRequest {
		if x.Type == web.Conflict {
			x.Message, x.Param = "somebody changed this finding after you opened it; the page shows it as it is now", ""
		}
		v.status = sent.setError(x)
		return renderFinding(v, f, sent)
	} else if err != nil {
		return err
	}
	return v.redirect(f.Path(), move.message)
}
