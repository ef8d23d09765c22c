package scan

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
)

// newFindings bounds the new findings of a domain and UTC day.
var newFindings = intake.Limits{Severe: 375, Minor: 125, OfRule: 10}

// maxHits bounds the hits of a scan, those of our own API keys and of tripwires apart. Those beyond it are counted in
// the finding flood.
const maxHits = 2_000

// reasonTripwire is why a place with a tripwire of the domain makes no finding: it is still planted there.
const reasonTripwire = "tripwire"

// ruleExposed is the beginning of the rules of exposed files, before their path.
const ruleExposed = "exposed-file:"

// hits collects what a scan finds. Equal secrets at the same location become one hit with a count.
type hits struct {
	runner    *Runner
	scan      *leak.Scan
	rules     *secrets.Scanner // with the account's own rules
	keys      *finding.Keys
	list      []*finding.Hit
	index     map[hitKey]*finding.Hit
	beyond    uint64
	tripwires map[string]string // path by URL, where a tripwire of the domain stands
}

type hitKey struct {
	finding  string
	location [16]byte
}

func newHits(r *Runner, s *leak.Scan, rules *secrets.Scanner, keys *finding.Keys) *hits {
	return &hits{runner: r, scan: s, rules: rules, keys: keys, index: map[hitKey]*finding.Hit{},
		tripwires: map[string]string{}}
}

// add counts a secret or an exposed file.
func (h *hits) add(f Found) {
	x := h.hit(f)
	if path, ok := h.isInPlace(x); ok {
		h.tripwires[x.Location.URL] = path
		return
	}
	intake.SeenTripwire(h.runner.deps.Config, x, h.keys)
	key := hitKey{x.Finding, x.LocationHash}
	if known := h.index[key]; known != nil {
		known.N++
		return
	}
	if len(h.list) >= maxHits && x.KeyID == "" && x.Kind != finding.Tripwire {
		h.beyond++
		return
	}
	h.index[key] = x
	h.list = append(h.list, x)
}

// isInPlace reports whether a hit is the secret of a tripwire of this domain where it was planted, and at which path:
// that of its file, or one that its placement names. A placement without a path is anywhere on the website.
func (h *hits) isInPlace(x *finding.Hit) (path string, ok bool) {
	if x.Fingerprint == "" {
		return "", false
	}
	t := h.runner.deps.Config.TripwireByFingerprint(x.Fingerprint)
	if t == nil || t.Domain != h.scan.Domain {
		return "", false
	}
	u, err := url.Parse(x.Location.URL)
	if err != nil {
		return "", false
	}
	named := false
	for word := range strings.FieldsSeq(t.Placement) {
		word = strings.Trim(word, ".,;:()\"'")
		if place, err := url.Parse(word); err == nil && strings.HasPrefix(place.Path, "/") {
			named = true
			if place.Path == u.Path {
				return u.Path, true
			}
		}
	}
	return u.Path, t.File != "" && t.File == u.Path || t.File == "" && !named
}

// dropTripwires removes the hits of exposed files that are tripwires of the domain.
func (h *hits) dropTripwires() {
	h.list = slices.DeleteFunc(h.list, func(x *finding.Hit) bool {
		return x.Kind == finding.ExposedFile && h.tripwires[x.Location.URL] != ""
	})
}

// hit returns the hit of what was found. It depends on the scan and the website alone, so that a node which begins the
// scan again makes the same one.
func (h *hits) hit(f Found) *finding.Hit {
	x := h.base()
	x.Location.URL, x.Location.File, x.Location.Line = f.URL, f.File, f.Line
	x.Location.File = h.clean(x.Location.File)
	x.Location.URL = h.clean(x.Location.URL)
	x.LocationHash = x.Location.Hash()
	var about finding.Context
	if f.Probe != "" {
		x.Kind, x.Rule, x.RuleName, x.Billed = finding.ExposedFile, ruleExposed+f.Probe, "Exposed "+f.Name, true
		about = finding.Context{Rule: x.Rule, Kind: x.Kind, Server: true, Severity: finding.High}
	} else {
		about = finding.ContextOf(f.Rule)
		x.Kind, x.Rule, x.RuleName, x.Masked = finding.Secret, f.Rule.ID, f.Rule.CustomName(), f.Rule.Mask(f.Secret)
		x.Test, x.Billed = f.Rule.Test, !f.Rule.Test
		if f.Rule.Fingerprint {
			x.Fingerprint = h.keys.Fingerprint(h.keys.SaltedHash(f.Rule.Canonical(f.Secret)))
		}
	}
	about.Public = true
	intake.SetSeverity(h.runner.deps.Config, x, about)
	x.Finding = h.keys.ID(x.Rule, x.Fingerprint, x.LocationHash)
	x.ID = finding.HitID(h.scan.ID, x.Finding+string(x.LocationHash[:]), 0)
	return x
}

// base returns a hit of the scan. Its sender is the domain, which has the bounds of new findings.
func (h *hits) base() *finding.Hit {
	return &finding.Hit{
		Account: h.scan.Account, At: h.scan.StartedAt, N: 1, Source: finding.Scan, Channel: "website", Sender: h.scan.Domain,
		Location: finding.Location{Source: finding.Scan, Label: h.scan.Hostname, ScanID: h.scan.ID},
	}
}

// clean returns a path as it may be stored. It is cut before its secrets are masked: the identity of stored findings
// depends on it.
func (h *hits) clean(path string) string {
	return intake.CleanText(h.rules, finding.CleanLine(path, maxPath))
}

// store produces the hits within the bounds, and returns when the log has acknowledged them: the number of findings
// that are new, and of those that were known.
func (h *hits) store(ctx context.Context) (added, known int, err error) {
	deps := &h.runner.deps
	bounds := intake.Bounds{Config: deps.Config, Findings: deps.Findings}
	records, beyond := bounds.Admit(ctx, newFindings, h.list)
	h.beyond += beyond
	counted := map[string]bool{}
	for _, x := range records {
		if counted[x.Finding] {
			continue
		}
		if counted[x.Finding] = true; deps.Config.HasFinding(x.Finding) {
			known++
		} else {
			added++
		}
	}
	if h.beyond > 0 {
		records = append(records, h.flood())
	}
	return added, known, intake.Produce(ctx, deps.Producer, deps.Partitions, records)
}

// flood returns the hit of what is beyond the bounds.
func (h *hits) flood() *finding.Hit {
	x := h.base()
	x.Location.URL = "https://" + h.scan.Hostname
	x.LocationHash = x.Location.Hash()
	x.Billed = true
	intake.SetFlood(x, h.beyond, h.keys)
	x.ID = finding.HitID(h.scan.ID, "flood", 0)
	return x
}
