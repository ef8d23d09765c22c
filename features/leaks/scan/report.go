package scan

import (
	"bytes"
	"hash/maphash"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
)

// Found is a secret or an exposed file. Secret is valid during the call only.
type Found struct {
	Rule   *secrets.Rule // nil for an exposed file
	Secret []byte
	URL    string // without query
	File   string // the source in a source map; otherwise empty
	Line   int    // in File, from 1
	Probe  string // path of an exposed file
	Name   string // what an exposed file is
}

// Reasons why something was not looked at.
const (
	skippedBudget      = "budget"       // of pages, resources, bytes or time
	skippedDepth       = "depth"        // too many links away from the start page
	skippedQuery       = "query"        // links with a query may change something
	skippedFileType    = "file_type"    // neither a page nor a script
	skippedRedirect    = "redirect"     // to a host that is not proven, or more than five
	skippedStatus      = "status"       // neither 200 nor a redirect
	skippedRefused     = "refused"      // 429 or 503, three times
	skippedTooLarge    = "too_large"    // only the beginning was scanned
	skippedTimeout     = "timeout"      // no complete answer in time
	skippedUnreachable = "unreachable"  // no answer
	skippedUnreadable  = "unreadable"   // its compression or its source map
	skippedNotVerified = "not_verified" // the proof of the host has ended meanwhile
)

// Budgets that can be exhausted.
const (
	budgetPages     = "pages"
	budgetResources = "resources"
	budgetBytes     = "bytes"
	budgetTime      = "time"
)

// Errors that end a scan.
const (
	errorUnreachable    = "unreachable"     // the start page did not answer
	errorBlockedAddress = "blocked_address" // a host has an address that is not public
)

// Bounds of the lists of a report.
const (
	maxSkipped    = 100
	maxThirdParty = 100
	maxPath       = 300 // bytes of a path
)

// Skipped is something that was not looked at.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Report says what a scan has looked at, and what not.
type Report struct {
	Pages, Resources int
	Bytes            int64     // of bodies after decompression
	Skipped          []Skipped // in the order of their discovery
	More             int       // what was skipped beside it
	ThirdParty       []string  // other hosts whose scripts the pages load; sorted
	CatchAll         bool      // the website answers 200 to paths that it does not have
	BudgetExhausted  string    // the first that was; empty: none
	Error            string    // why the scan ended early; empty: it did not

	masks      *secrets.Scanner
	thirdParty map[string]string // by host, as it is shown
	masked     int               // paths that were looked at for Skipped
	counted    map[uint64]bool   // hashes of what is in Skipped or More
	seed       maphash.Seed
}

func newReport(masks *secrets.Scanner) *Report {
	return &Report{masks: masks, thirdParty: map[string]string{}, counted: map[uint64]bool{}, seed: maphash.MakeSeed()}
}

// addSkipped masks as many paths as a report may show, and counts the others: one takes a millisecond if it is long.
// Those that look equal are shown once.
func (r *Report) addSkipped(path, reason string) {
	sum := maphash.String(r.seed, reason+" "+path)
	switch {
	case r.counted[sum]:
		return
	case r.masked < maxSkipped:
		r.masked++
		if s := (Skipped{r.shown(path), reason}); slices.Contains(r.Skipped, s) {
			r.More++
		} else {
			r.Skipped = append(r.Skipped, s)
		}
	default:
		r.More++
	}
	if len(r.counted) < maxSeen {
		r.counted[sum] = true
	}
}

// addThirdParty masks each host once, and as many as a report may show.
func (r *Report) addThirdParty(host string) {
	if _, known := r.thirdParty[host]; !known && len(r.thirdParty) < maxThirdParty {
		r.thirdParty[host] = r.shown(host)
	}
}

// shown returns untrusted text as it may be stored and shown.
func (r *Report) shown(text string) string {
	masked, _ := r.masks.MaskAll(nil, []byte(strings.ToValidUTF8(text, "?")))
	return finding.CleanLine(string(masked), maxPath)
}

func (r *Report) complete() {
	for _, host := range r.thirdParty {
		if host != "" {
			r.ThirdParty = append(r.ThirdParty, host)
		}
	}
	slices.Sort(r.ThirdParty)
	r.ThirdParty = slices.Compact(r.ThirdParty)
}

// AboutPath is the path of the page that the User-Agent of scans names.
const AboutPath = "/scan-bot"

// About returns that page: for people who find scans in the log of a website.
func About(b Budget) []byte {
	var buf bytes.Buffer
	err := aboutTemplate.Execute(&buf, map[string]any{
		"Budget": b, "Seconds": int(b.Time.Seconds()), "PerSecond": int(time.Second / b.Interval),
		"Concurrent": maxConcurrent, "SlowMinutes": int(slowFor.Minutes()), "PerDay": leak.MaxScansPerDay,
		"MiB": b.Body >> 20, "MapMiB": b.Map >> 20, "TotalMiB": b.Total >> 20, "Probes": probes,
	})
	if err != nil {
		panic("BUG: the page about scans: " + err.Error()) // its data are constants
	}
	return buf.Bytes()
}

// Path is where the file is looked for.
func (p probe) Path() string { return p.path }

var aboutTemplate = template.Must(template.New("about").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>RelayLeakScan</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body>
<h1>RelayLeakScan</h1>
<p>Requests with the User-Agent <code>RelayLeakScan/1</code> and the address of this page come from the leak scan of
this service. It reads a website as a visitor does, and looks for API keys and files that were published by mistake.</p>
<h2>Why it reads your website</h2>
<p>Somebody has added the host name here and has proven to control it, by a DNS record or by a file on the website. A
host name without such a proof gets no request, whatever redirects and links say.</p>
<h2>What it requests</h2>
<ul>
<li>The start page, <code>/sitemap.xml</code>, the pages that they link to, and the scripts and source maps of these
pages. Links with a query are not followed.</li>
<li>{{len .Probes}} paths at which files are often exposed by mistake:
{{range $i, $p := .Probes}}{{if $i}}, {{end}}<code>{{$p.Path}}</code>{{end}}.</li>
<li>One path that no website has, to learn how the website answers to those.</li>
</ul>
<p>It sends GET requests only, without cookies and credentials, and fills in no form. It keeps no page and no file: a
key that is found is reported to the owner of the host name, masked, and is never used. It does not read
<code>robots.txt</code>, which is about search engines: the owner has asked for the scan.</p>
<h2>How fast</h2>
<ul>
<li>{{.PerSecond}} requests a second to a host and {{.Concurrent}} at a time. Each answer 429 or 503 halves that for
{{.SlowMinutes}} minutes.</li>
<li>In one scan at most {{.Budget.Pages}} pages and {{.Budget.Resources}} other files, {{.TotalMiB}} MiB and
{{.Seconds}} seconds. Of one file it reads {{.MiB}} MiB, of a source map {{.MapMiB}} MiB.</li>
<li>One scan a week, and at most {{.PerDay}} a day when the owner asks for them.</li>
</ul>
<h2>How to make it stop</h2>
<ul>
<li>Remove the TXT record at <code>_relay-challenge.</code> and the host name, or the file
<code>/.well-known/relay-verify.txt</code>. The proof is looked for before each scan: without it there is none.</li>
<li>Or delete the domain in the dashboard of this service. That ends a scan that is running too.</li>
<li>Or refuse requests with this User-Agent. All of them have it.</li>
</ul>
</body></html>
`))
