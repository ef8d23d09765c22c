//go:build !core

package node

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/leaks/domain"
	"github.com/eventrelay/relay/leaks/drain"
	"github.com/eventrelay/relay/leaks/intake"
	"github.com/eventrelay/relay/leaks/payload"
	"github.com/eventrelay/relay/leaks/report"
	"github.com/eventrelay/relay/leaks/scan"
	"github.com/eventrelay/relay/leaks/triage"
	"github.com/eventrelay/relay/leaks/tripwire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/roles"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/store/read/findings"
	"github.com/eventrelay/relay/store/write"
)

// This file is the registration of package leaks: nothing else of the relay knows it. A build with the tag core has
// core.go instead, and everything but leaks.

// leakHooks start before the dispatcher, which asks them.
var leakHooks = []start{{name: "tripwires", new: newTripwires}}

// leakStages start after ingest.
var leakStages = []start{
	{name: "triage of findings", role: roles.Dispatch, new: newTriage},
	{name: "log drains", role: roles.Ingest, new: newDrain},
	{name: "domains", new: newDomains},
	{name: "reports of the SDK", role: roles.Ingest, new: newReports},
	{name: "leak scans", role: roles.Dispatch, new: newScans},
}

// leakHandler returns what serves a path of package leaks, nil for any other path.
func (n *Node) leakHandler(path string, notServed http.Handler) http.Handler {
	switch {
	case strings.HasPrefix(path, drain.PathPrefix):
		if n.leaks.lines != nil {
			return n.leaks.lines
		}
		return notServed
	case strings.HasPrefix(path, report.PathPrefix):
		if n.leaks.reports != nil {
			return n.leaks.reports
		}
		return report.AllowAnyOrigin(notServed)
	}
	return nil
}

// stageDeps returns what a stage needs that takes hits. findings is the name of its counts of new findings.
func (n *Node) stageDeps(findings string) intake.Deps {
	return intake.Deps{
		Node: n.settings.NodeName, Partitions: n.partitions, Metrics: n.registry, Producer: n.producer,
		Findings: n.limiter.NewDistinct(findings, intake.NewFindingsSpan), Now: n.now, Front: n.front,
	}
}

// newDrain creates the stage behind the URLs of log drains, whose handler newServer serves.
func newDrain(n *Node) (runFunc, error) {
	scanner, err := intake.NewScanner(n.control)
	if err != nil {
		return nil, err
	}
	d := drain.New(drain.Deps{
		Deps: n.stageDeps("drain-findings"), Config: leakConfig{n.control}, Scanner: scanner, Tokens: n.limiter,
		Records: n.limiter.NewWindow("drain-records", time.Minute),
	})
	n.leaks.lines = d.Handler()
	return d.Run, nil
}

// newReports creates the stage behind the URLs of DSNs, whose handler newServer serves.
func newReports(n *Node) (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	r := report.New(report.Deps{
		Deps: n.stageDeps("report-findings"), Config: leakConfig{n.control}, Scanner: scanner,
		Minutes: n.limiter.NewWindow("report-requests", time.Minute),
		Days:    n.limiter.NewWindow("report-quota", report.DaySpan),
	})
	n.leaks.reports = r.Handler()
	return r.Run, nil
}

// leakProofs checks again that a domain belongs to the account.
type leakProofs = scan.Rechecker

// payloadScan returns what finds secrets in stored events.
func payloadScan(n *Node) (func(context.Context, []*event.Event) error, error) {
	s, err := payload.New(payload.Deps{
		Log: n.log, Metrics: n.registry, Config: leakConfig{n.control}, Producer: n.producer,
		Findings: n.limiter.NewDistinct("payload-findings", intake.NewFindingsSpan), Partitions: n.partitions,
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
func newTriage(n *Node) (runFunc, error) {
	hits := findings.Reader{Cluster: n.reader.Cluster}
	d, err := triage.New(triage.Config{InstanceID: n.instanceID(), Partitions: n.partitions}, triage.Deps{
		Log: n.log, Stream: n.stream, Config: n.control, History: n.control,
		Store:    findingTable{write.NewFindingTable(n.reader, hits.CaughtUp), n.control},
		Notifier: n.alerts, Now: n.control.Now, Metrics: n.registry,
	})
	if err != nil {
		return nil, err
	}
	n.leaks.droppedHits = d.DroppedHits
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
func newTripwires(n *Node) (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	wires := tripwire.New(tripwire.Deps{
		Log: n.log, Metrics: n.registry, Config: n.control, Producer: n.producer, Scanner: scanner,
		Partitions: n.partitions, Now: n.now,
	})
	n.leaks.tripwires, n.leaks.useHit = wires, wires.Hit
	return wires.Run, nil
}

// newDomains creates the checks of domains. The node that owns the first partition makes the daily ones.
func newDomains(n *Node) (runFunc, error) {
	scanner, err := secrets.New(secrets.ForLeaks)
	if err != nil {
		return nil, err
	}
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	resolver, err := egress.NewResolver(n.settings.DNSServer)
	if err != nil {
		return nil, err
	}
	domains := domain.New(domain.Deps{
		Log: n.log, Config: n.control, Resolver: resolver, Transport: transport, Scanner: scanner,
		Attempts:  n.limiter.NewWindow("domain-attempts", domain.AttemptsSpan),
		UserAgent: "EventRelay/" + n.settings.Version, Now: n.control.Now, IsOwner: n.ownsFirstPartition.Load,
	})
	n.leaks.proofs = domains
	hits := findings.Reader{Cluster: n.reader.Cluster}
	n.leaks.api = &api.Leaks{Domains: domains, Senders: hits, Findings: hits}
	n.leaks.pages = map[string][]byte{scan.AboutPath: scan.About(scanBudget(n.settings))}
	return domains.Run, nil
}

// newScans creates the runner of leak scans.
func newScans(n *Node) (runFunc, error) {
	rules, err := intake.NewScanner(n.control)
	if err != nil {
		return nil, err
	}
	transport, err := egress.NewTransport(n.outbound())
	if err != nil {
		return nil, err
	}
	scanner := scan.New(scan.Deps{
		Metrics: n.registry, Transport: transport, Budget: scanBudget(n.settings), Now: n.control.Now,
		UserAgent: "RelayLeakScan/1 (+" + n.url + scan.AboutPath + ")",
	})
	runner := scan.NewRunner(scan.RunnerDeps{
		Log: n.log, Node: n.settings.NodeName, Config: leakConfig{n.control}, Proofs: n.leaks.proofs, Scanner: scanner,
		Rules:      secrets.NewScanners(rules),
		Producer:   n.producer,
		Findings:   n.limiter.NewDistinct("scan-findings", intake.NewFindingsSpan),
		Partitions: n.partitions, Now: n.control.Now, IsOwner: n.ownsFirstPartition.Load,
		MayScan: func(hostname string) bool {
			_, err := n.policy.CheckHostname(hostname)
			return err == nil
		},
	})
	return runner.Run, nil
}

// scanBudget returns the budget of every leak scan.
func scanBudget(s Config) scan.Budget {
	b := scan.DefaultBudget()
	b.Interval = cmp.Or(s.Waits.ScanInterval, b.Interval)
	return b
}
