package dashboard

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// Paths of the pages of leak scans.
const (
	scansPath = "/app/scans"
	scanPath  = scansPath + "/{scan}"
)

// scanData is a scan of the API.
type scanData struct {
	ID           string               `json:"id"`
	DomainID     string               `json:"domain_id"`
	Hostname     string               `json:"hostname"`
	State        string               `json:"status"`
	Trigger      string               `json:"trigger"`
	Pages        int64                `json:"pages"`
	Resources    int64                `json:"resources"`
	Bytes        int                  `json:"bytes"`
	FindingsNew  int64                `json:"findings_new"`
	FindingsSeen int64                `json:"findings_seen"`
	Skipped      []config.ScanSkipped `json:"skipped"`
	SkippedMore  int64                `json:"skipped_more"`
	ThirdParty   []string             `json:"third_party"`
	CatchAll     bool                 `json:"catch_all"`
	Budget       *string              `json:"budget_exhausted"`
	Error        *string              `json:"error"`
	CreatedAt    string               `json:"created_at"`
	FinishedAt   string               `json:"finished_at"`
}

// Path is the page of the scan.
func (s *scanData) Path() string { return scansPath + "/" + url.PathEscape(s.ID) }

// DomainPath is the page of its domain.
func (s *scanData) DomainPath() string { return domainsPath + "/" + url.PathEscape(s.DomainID) }

// Open reports whether the scan has not ended.
func (s *scanData) Open() bool { return s.State == config.ScanQueued || s.State == config.ScanRunning }

// Failed reports whether the scan ended early.
func (s *scanData) Failed() bool { return s.State == config.ScanFailed }

// Weekly reports whether nobody asked for the scan.
func (s *scanData) Weekly() bool { return s.Trigger == config.ScanWeekly }

// Findings is the number of findings that are there now.
func (s *scanData) Findings() int64 { return s.FindingsNew + s.FindingsSeen }

// scanErrors says why a scan failed, by the word of the API.
var scanErrors = map[string]string{
	"unreachable": "The start page, or the name servers, gave no answer. Check that the website is up, then start it " +
		"again.",
	"blocked_address":              "A host name has an address that is not public. Nothing was requested there.",
	config.ScanVerificationExpired: "The proof of the domain is missing. Verify the domain, then start the scan again.",
	config.ScanInterrupted:         "It was interrupted several times by restarts of this service. Start it again.",
}

// Trouble is why the scan failed, in a sentence.
func (s *scanData) Trouble() string {
	if s.Error == nil {
		return ""
	}
	if text := scanErrors[*s.Error]; text != "" {
		return text
	}
	return "It failed: " + *s.Error + "."
}

// skipReasons says why something was not looked at, by the word of the API.
var skipReasons = map[string]string{
	"budget": "the scan had no room for it", "depth": "too many links away from the start page",
	"query": "links with a query may change something", "file_type": "neither a page nor a script",
	"redirect": "it leads to a host that is not one of your verified domains, or in circles",
	"status":   "it answers with an error", "refused": "the website asked to slow down, three times",
	"too_large": "only its beginning was scanned", "timeout": "no complete answer in 15 seconds",
	"unreachable": "no answer", "unreadable": "its compression or its source map cannot be read",
	"not_verified": "the proof of its host ended meanwhile",
}

// skipReason returns a reason for people.
func skipReason(word string) string {
	if text := skipReasons[word]; text != "" {
		return text
	}
	return word
}

// SkippedGroup is what was not looked at for one reason.
type SkippedGroup struct {
	Reason string
	Paths  []string
}

// SkippedGroups are what was not looked at, by reason, in the order of the first of each.
func (s *scanData) SkippedGroups() (groups []SkippedGroup) {
	at := map[string]int{}
	for _, x := range s.Skipped {
		i, known := at[x.Reason]
		if !known {
			i = len(groups)
			at[x.Reason] = i
			groups = append(groups, SkippedGroup{Reason: skipReason(x.Reason)})
		}
		groups[i].Paths = append(groups[i].Paths, x.Path)
	}
	return groups
}

// scansPage is the data of the list of scans.
type scansPage struct {
	Scans  []*scanData
	Domain string // whose scans these are; empty: of all
	Next   string // path of the next page; empty: there is none
}

func listScans(v *visit) error {
	var list struct {
		Data       []*scanData `json:"data"`
		NextCursor string      `json:"next_cursor"`
	}
	query := url.Values{"limit": {"50"}}
	domain := v.r.URL.Query().Get("domain_id")
	if domain != "" {
		query.Set("domain_id", domain)
	}
	if cursor := v.r.URL.Query().Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	if err := v.get("/v1/scans", query, &list); err != nil {
		return err
	}
	p := scansPage{Scans: list.Data, Domain: domain}
	if list.NextCursor != "" {
		query.Set("cursor", list.NextCursor)
		query.Del("limit")
		p.Next = scansPath + "?" + query.Encode()
	}
	return v.page("scans", p)
}

// showScan shows the progress of a scan, then its report.
func showScan(v *visit) error {
	s := &scanData{}
	err := v.get("/v1/scans/"+v.vars["scan"], nil, s)
	if x, ok := errors.AsType[*apiError](err); ok && x.Status == http.StatusNotFound {
		return web.Missing("There is no such scan. The newest hundred are kept.")
	} else if err != nil {
		return err
	}
	v.selfReloading = s.Open()
	return v.page("scan", s)
}

// scanDomain starts a scan of the domain in the path and opens its page.
func scanDomain(v *visit) error {
	f, err := v.form()
	if err != nil {
		return err
	}
	d, err := readDomain(v)
	if err != nil {
		return err
	}
	var s scanData
	if err := v.send("POST", "/v1/scans", map[string]any{"domain_id": d.ID}, f.Nonce, &s); err != nil {
		return err
	}
	return v.redirect(s.Path(), "Scan started")
}
