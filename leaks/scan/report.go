package scan

import (
	"hash/maphash"
	"slices"
	"strings"

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
