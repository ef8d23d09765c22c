// Package routes serves sources of leaks and the findings from them: drains, DSNs, domains, scans, tripwires, findings,
// and the account's own rules. Secrets appear as masks only.
package routes

import (
	"context"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/web"
)

// Deps are what only this area asks.
type Deps struct {
	Control  *config.Control
	Senders  Senders
	Domains  DomainVerifier
	Findings FindingReader
}

// area is what all handlers of the area have.
type area struct {
	*frame.Core
	*Deps
}

// Area serves drains, DSNs, domains, scans, tripwires, findings, and the account's own rules.
type Area struct {
	drains    *drainResource
	dsns      *dsnResource
	domains   *domains
	scans     *scans
	tripwires *tripwires
	findings  *findings
	detection *detection
}

// New builds the area.
func New(c *frame.Core, d *Deps) *Area {
	all := area{c, d}
	return &Area{newDrains(all), newDSNs(all), newDomains(all), newScans(all), newTripwires(all), newFindings(all),
		&detection{all, secrets.NewScanners(c.LeakScanner)}}
}

// Routes are those of what leaks are found in, of findings, and of the account's own rules. Resource.Routes makes those
// of a kind: /v1/drains, /v1/drains/{drain}, /v1/drains/{drain}/rotate.
func (a *Area) Routes() []frame.Route {
	test := a.tripwires.Action("test", a.tripwires.test)
	test.Resumable = false // a second one would be answered by the first
	return slices.Concat(a.drains.Routes(), a.domains.Routes(a.domains.Action("verify", a.domains.verifyDomain)),
		a.scans.Routes(), a.tripwires.Routes(a.tripwires.Action("rotate", a.tripwires.rotate), test), a.dsns.Routes(),
		[]frame.Route{
			{Path: "/v1/settings/detection",
				Methods: frame.Methods{"GET": a.detection.readDetection, "PATCH": a.detection.updateDetection}},
			{Path: "/v1/settings/detection/try", Methods: frame.Methods{"POST": a.detection.tryRules}, Computes: true},
			{Path: "/v1/findings", Methods: frame.Methods{"GET": a.findings.listFindings}},
			// a finding that has the status already is not changed
			{Path: "/v1/findings/update", Methods: frame.Methods{"POST": a.findings.updateFindings}, Resumable: true},
			{Path: "/v1/findings/{finding}",
				Methods: frame.Methods{"GET": a.findings.readFinding, "PATCH": a.findings.updateFinding}},
			{Path: "/v1/findings/{finding}/occurrences", Methods: frame.Methods{"GET": a.findings.listOccurrences}},
		})
}

// DomainVerifier looks for the proofs of domains.
type DomainVerifier interface {
	// Verify returns the domain with the result; or, after too many attempts, for how long none is made.
	Verify(ctx context.Context, d *leak.Domain, method string) (after *leak.Domain, pause time.Duration, err error)
}

// Senders reads what drains and DSNs have received.
type Senders interface {
	// Received returns what came from the senders since a time, by sender. Senders without a report are left out.
	Received(ctx context.Context, account string, senders []string, since time.Time) (map[string]finding.Received, error)
}

// FindingReader reads the hits of findings from the store.
type FindingReader interface {
	Findings(ctx context.Context, q finding.Query) (finding.Page, error)
	// Finding also returns the time up to which the answer is complete; zero: now.
	Finding(ctx context.Context, account, id string) (finding.Row, time.Time, error)
	Occurrences(ctx context.Context, q finding.OccurrenceQuery) (finding.OccurrencePage, error)
}

// AddNeeds adds to what needs a person the open findings of critical severity, then those of high severity, each newest
// first. They are those that alerts report by default.
func (a *Area) AddNeeds(_ context.Context, to *wire.OverviewNeeds, account string) {
	for _, severity := range []finding.Severity{finding.Critical, finding.High} {
		for _, name := range a.findings.Control.FindingIDs(leak.FindingFilter{
			Statuses: []finding.Status{finding.Open}, Severities: []finding.Severity{severity}}) {
			f, presence := a.findings.Control.Finding(name)
			if presence != entity.Present || f.Account != account {
				continue
			}
			x := wire.CriticalFinding{ID: f.ID, Rule: f.Rule, Masked: frame.OrNull(f.Masked), Severity: f.Severity.String(),
				OpenedAt: web.Time(f.OpenedAt)}
			x.Name, _, _ = a.findings.describeRule(f)
			to.Findings.Add(x)
		}
	}
}
