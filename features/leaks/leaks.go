// Package leaks finds leaked keys and says so: log drains, reports of applications, domains and their scans, stored
// events, tripwires and findings.
package leaks

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/features"
	"github.com/eventrelay/relay/features/leaks/domain"
	"github.com/eventrelay/relay/features/leaks/drain"
	"github.com/eventrelay/relay/features/leaks/findings"
	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/features/leaks/pages"
	"github.com/eventrelay/relay/features/leaks/payload"
	"github.com/eventrelay/relay/features/leaks/report"
	"github.com/eventrelay/relay/features/leaks/routes"
	"github.com/eventrelay/relay/features/leaks/scan"
	"github.com/eventrelay/relay/features/leaks/triage"
	"github.com/eventrelay/relay/features/leaks/tripwire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/nodeconfig"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/store/write"
)

// Feature registers this package.
var Feature = features.Feature{Name: "leaks", New: newParts, Pages: pages.Area}

// runFunc runs a component until its context ends.
type runFunc = func(context.Context) error

// leaks is the feature in one node.
type leaks struct {
	*features.Host
	domains        *domain.Domains
	hits           findings.Reader
	lines, reports http.Handler // nil without the role ingest
}

func newParts(h *features.Host) features.Parts {
	l := &leaks{Host: h}
	h.Scan = l.newPayloadScan
	return features.Parts{
		Hooks: []features.Start{{Name: "tripwires", New: l.newTripwires}},
		Stages: []features.Start{
			{Name: "triage of findings", Role: nodeconfig.RoleDispatch, New: l.newTriage},
			{Name: "log drains", Role: nodeconfig.RoleIngest, New: l.newDrain},
			{Name: "domains", New: l.newDomains},
			{Name: "reports of the SDK", Role: nodeconfig.RoleIngest, New: l.newReports},
			{Name: "leak scans", Role: nodeconfig.RoleDispatch, New: l.newScans},
		},
		API:   l.api,
		Serve: l.serve,
	}
}

// api returns the routes.
func (l *leaks) api(c *api.Core) api.Area {
	area := routes.New(c, &routes.Deps{Control: l.Control, Domains: l.domains, Senders: l.hits, Findings: l.hits})
	return api.Area{Routes: area.Routes(), AddNeeds: area.AddNeeds, Document: routes.Document(), Pages: l.pages}
}

// pages has the page about leak scans.
func (l *leaks) pages(*yaml.Node) (map[string]*api.Page, error) {
	about := scan.About(scanBudget(l.ScanInterval))
	return map[string]*api.Page{scan.AboutPath: api.NewPage("text/html; charset=utf-8", about)}, nil
}

// serve returns the handler of log drains or reports.
func (l *leaks) serve(path string, notServed http.Handler) http.Handler {
	switch {
	case strings.HasPrefix(path, drain.PathPrefix):
		if l.lines != nil {
			return l.lines
		}
		return notServed
	case strings.HasPrefix(path, report.PathPrefix):
		if l.reports != nil {
			return l.reports
		}
		return report.AllowAnyOrigin(notServed)
	}
	return nil
}

// stageDeps returns what a stage needs that takes hits. findings is the name of its counts of new findings.
func (l *leaks) stageDeps(findings string) intake.Deps {
	return intake.Deps{
		Node: l.NodeName, Partitions: l.Partitions, Metrics: l.Metrics, Producer: l.Producer,
		Findings: l.Limiter.NewDistinct(findings, intake.NewFindingsSpan), Now: l.Now, Front: l.Front,
	}
}

// newDrain creates the stage behind the URLs of log drains, whose handler newServer serves.
func (l *leaks) newDrain() (runFunc, error) {
	scanner, err := intake.NewScanner(l.Control)
	if err != nil {
		return nil, err
	}
	d := drain.New(drain.Deps{
		Deps: l.stageDeps("drain-findings"), Config: leakConfig{l.Control}, Scanner: scanner, Tokens: l.Limiter,
		Records: l.Limiter.NewWindow("drain-records", time.Minute),
	})
	l.lines = d.Handler()
	return d.Run, nil
}

// newReports creates the stage behind the URLs of DSNs, whose handler newServer serves.
func (l *leaks) newReports() (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	r := report.New(report.Deps{
		Deps: l.stageDeps("report-findings"), Config: leakConfig{l.Control}, Scanner: scanner,
		Minutes: l.Limiter.NewWindow("report-requests", time.Minute),
		Days:    l.Limiter.NewWindow("report-quota", report.DaySpan),
	})
	l.reports = r.Handler()
	return r.Run, nil
}

// newPayloadScan returns what finds secrets in stored events.
func (l *leaks) newPayloadScan() (func(context.Context, []*event.Event) error, error) {
	s, err := payload.New(payload.Deps{
		Log: l.Log, Metrics: l.Metrics, Config: leakConfig{l.Control}, Producer: l.Producer,
		Findings: l.Limiter.NewDistinct("payload-findings", intake.NewFindingsSpan), Partitions: l.Partitions,
	})
	if err != nil {
		return nil, err
	}
	return s.Scan, nil
}

// leakConfig answers what the stages that find secrets ask of the configuration.
type leakConfig struct{ *config.Control }

func (c leakConfig) HasFinding(id string) bool {
	_, presence := c.Finding(id)
	return presence == entity.Present
}

func (c leakConfig) LeakedKey(fingerprint string) (key *config.Key, accepted bool) {
	key = c.KeyByFingerprint(fingerprint)
	return key, key != nil && c.KeyWorks(key)
}

func (c leakConfig) ScansPayloads(endpoint string) (name string, scans bool) {
	e, _ := c.Endpoint(endpoint)
	if e == nil { // it was deleted, and what it received before is still stored
		return endpoint, true
	}
	return e.Name, !e.PayloadsUnscanned
}

// newTriage creates the triage of findings, for the partitions of findings that this node owns.
func (l *leaks) newTriage() (runFunc, error) {
	hits := findings.Reader{Cluster: l.Reader.Cluster}
	d, err := triage.New(triage.Config{InstanceID: l.InstanceID, Partitions: l.Partitions}, triage.Deps{
		Log: l.Log, Stream: l.Stream, Config: l.Control,
		Store:    findingTable{write.NewFindingTable(l.Reader, hits.CaughtUp), l.Control},
		Notifier: l.Alerts, Now: l.Control.Now, Metrics: l.Metrics,
	})
	if err != nil {
		return nil, err
	}
	l.DroppedHits = d.DroppedHits
	return d.Run, nil
}

// findingTable gives the triage the findings of the one account in the store.
type findingTable struct {
	table  *write.FindingTable
	config *config.Control
}

func (f findingTable) LastHits(ctx context.Context, ids []string) (map[string]time.Time, error) {
	return f.table.LastHits(ctx, f.config.Account().ID, ids)
}

func (f findingTable) DeleteFindings(ctx context.Context, ids []string) error {
	return f.table.DeleteFindings(ctx, f.config.Account().ID, ids)
}

// newTripwires creates what recognises the tripwires that are used: the API, the agent server, ingest and the
// dispatcher ask it.
func (l *leaks) newTripwires() (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	wires := tripwire.New(tripwire.Deps{
		Log: l.Log, Metrics: l.Metrics, Config: l.Control, Producer: l.Producer, Scanner: scanner,
		Partitions: l.Partitions, Now: l.Now,
	})
	l.Tripwires, l.UseHit = wires, wires.Hit
	return wires.Run, nil
}

// newDomains creates the checks of domains. The node that owns the first partition makes the daily ones.
func (l *leaks) newDomains() (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	transport, err := egress.NewTransport(l.Outbound())
	if err != nil {
		return nil, err
	}
	resolver, err := egress.NewResolver(l.DNSServer)
	if err != nil {
		return nil, err
	}
	l.domains = domain.New(domain.Deps{
		Log: l.Log, Config: l.Control, Resolver: resolver, Transport: transport, Scanner: scanner,
		Attempts:  l.Limiter.NewWindow("domain-attempts", domain.AttemptsSpan),
		UserAgent: "EventRelay/" + l.Version, Now: l.Control.Now, IsOwner: l.OwnsFirstPartition.Load,
	})
	l.hits = findings.Reader{Cluster: l.Reader.Cluster}
	return l.domains.Run, nil
}

// newScans creates the runner of leak scans.
func (l *leaks) newScans() (runFunc, error) {
	rules, err := intake.NewScanner(l.Control)
	if err != nil {
		return nil, err
	}
	transport, err := egress.NewTransport(l.Outbound())
	if err != nil {
		return nil, err
	}
	scanner := scan.New(scan.Deps{
		Metrics: l.Metrics, Transport: transport, Budget: scanBudget(l.ScanInterval), Now: l.Control.Now,
		UserAgent: "RelayLeakScan/1 (+" + l.PublicURL + scan.AboutPath + ")",
	})
	runner := scan.NewRunner(scan.RunnerDeps{
		Log: l.Log, Node: l.NodeName, Config: leakConfig{l.Control}, Proofs: l.domains, Scanner: scanner,
		Rules:      secrets.NewScanners(rules),
		Producer:   l.Producer,
		Findings:   l.Limiter.NewDistinct("scan-findings", intake.NewFindingsSpan),
		Partitions: l.Partitions, Now: l.Control.Now, IsOwner: l.OwnsFirstPartition.Load,
		MayScan: func(hostname string) bool {
			_, err := l.Policy.CheckHostname(hostname)
			return err == nil
		},
	})
	return runner.Run, nil
}

// scanBudget returns the budget of every leak scan. interval is its pause between requests; 0 = the default.
func scanBudget(interval time.Duration) scan.Budget {
	b := scan.DefaultBudget()
	b.Interval = cmp.Or(interval, b.Interval)
	return b
}
