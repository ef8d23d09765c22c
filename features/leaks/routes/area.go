// Package routes serves sources of leaks and the findings from them: drains, DSNs, domains, scans, tripwires, findings,
// and the account's own rules. Secrets appear as masks only.
package routes

import (
	"context"
	"net/netip"
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

// Sources read what the configuration does not have.
type Sources struct {
	Senders  Senders
	Domains  DomainVerifier
	Findings FindingReader
}

// Deps are the dependencies of the area.
type Deps struct {
	Sources
	*frame.AreaDeps
	Config Configuration
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
func New(d *Deps) *Area {
	who := senders{Core: d.Core, config: d.Config, received: d.Senders, keyring: d.Keyring, leaks: d.Leaks,
		baseURL: d.BaseURL}
	return &Area{
		drains: newDrains(&who), dsns: newDSNs(&who), domains: newDomains(d), scans: newScans(d),
		tripwires: newTripwires(d), findings: newFindings(d),
		detection: &detection{
			Core: d.Core, config: d.Config, limits: d.Limits, scanners: secrets.NewScanners(d.Leaks),
		},
	}
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

// Configuration is the configuration log as far as the area uses it.
type Configuration interface {
	entity.Access
	Scans
	DSNs
	Tripwires
	Findings
	DetectionConfig
}

// Scans creates leak scans.
type Scans interface {
	Scan(id string) (*leak.Scan, entity.Presence)
	Scans(account string, domains []string, beforeSeq int64, limit int) ([]*leak.Scan, bool)
	OpenScan() *leak.Scan
	CreateScan(ctx context.Context, s *leak.Scan) (*leak.Scan, error)
}

// Tripwires issues the secrets of tripwires. A change returns after this node has applied it.
type Tripwires interface {
	Tripwire(id string) (*leak.Tripwire, entity.Presence)
	// CreateTripwire and RotateTripwire return the secrets, which are stored nowhere.
	CreateTripwire(ctx context.Context, t *leak.Tripwire) (*leak.Tripwire, leak.TripwireText, error)
	RotateTripwire(ctx context.Context, id, by string) (*leak.Tripwire, leak.TripwireText, error)
	ExpectTripwireTest(ctx context.Context, id string, from netip.Addr) (*leak.Tripwire, error)
	// FindingKeys returns the keys from which the ids of their findings derive.
	FindingKeys(ctx context.Context) (finding.Keys, error)
	Finding(id string) (*leak.Finding, entity.Presence)
}

// DSNs opens the keys of DSNs.
type DSNs interface {
	// PublicKey returns the public key of a DSN.
	PublicKey(ctx context.Context, d *leak.DSN) (string, error)
}

// DetectionConfig reads and changes what the account looks for beside the built-in rules.
type DetectionConfig interface {
	Settings() *config.Settings
	// UpdateDetection calls change with a copy of the newest settings, and again after a write conflict.
	UpdateDetection(ctx context.Context, change func(*config.Detection) error) (*config.Settings, error)
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

// Findings reads and changes findings of the configuration.
type Findings interface {
	Finding(id string) (*leak.Finding, entity.Presence)
	FindingIDs(filter leak.FindingFilter) []string
	UpdateFinding(ctx context.Context, id string, m leak.FindingUpdate) (*leak.Finding, error)
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
func (a *Area) AddNeeds(to *wire.OverviewNeeds, account string) {
	for _, severity := range []finding.Severity{finding.Critical, finding.High} {
		for _, name := range a.findings.states.FindingIDs(leak.FindingFilter{
			Statuses: []finding.Status{finding.Open}, Severities: []finding.Severity{severity}}) {
			f, presence := a.findings.states.Finding(name)
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
